"""What `verl-dump verify` costs: MB/s and memory, by kind of row and by parser (`python -m benchmarks.verify`)."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from verl_dump.verify import find_place, verify
from verl_dump.verify.rows import PARSERS
from verl_dump.verify.words import sized

_MEGA = 1_000_000
_WORDS = [
    "the",
    "model",
    "answers",
    "a",
    "question",
    "of",
    "some",
    "length",
    "with",
    "steps",
    "and",
    "数学",
    "\\frac{1}{2}",
    "so",
    "that",
]


@dataclass(frozen=True)
class Figures:
    """What one run cost.

    Attributes:
        seconds: of processor time, without the start of the interpreter: a busy machine does not change it much.
        peak: of memory, in bytes.
        grown: bytes of memory beyond what the interpreter and the imports need.
        size: bytes read.
        rows: read.
        errors: found.
        warnings: found.
    """

    seconds: float
    peak: int
    grown: int
    size: int
    rows: int
    errors: int
    warnings: int


def _text(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(_WORDS, k=max(size // 6, 1)))


def _row(rng: random.Random, step: int, **more: object) -> str:
    row = {
        "input": _text(rng, 1000),
        "output": f"{rng.random()} {_text(rng, 14_000)}",
        "gts": "42",
        "score": rng.random(),
        "step": step,
        **more,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


def _tools(rng: random.Random, step: int) -> str:
    """Make a row of calls of tools: JSON inside of texts, code with many escapes, nested objects."""
    call = json.dumps({"name": "run", "arguments": {"code": 'print("a: b")\n\tx = {"k": 1}\n' * 20}})
    messages = [{"role": "assistant", "content": call, "n": i, "at": rng.random()} for i in range(12)]
    return _row(rng, step, messages=messages)


KINDS: dict[str, Callable[[random.Random, int], str]] = {
    "text": _row,
    "tools": _tools,
    "arrays": lambda rng, step: _row(rng, step, logprobs=[rng.random() for _ in range(2000)]),
    "short": lambda rng, step: (
        json.dumps({"input": "q", "output": str(rng.random()), "gts": "1", "score": 1.0, "step": step}) + "\n"
    ),
    "NaN": lambda rng, step: _row(rng, step, reward=float("nan")),
}


def make(path: str, kind: str, size: int, step: int = 1) -> None:
    """Write a dump of about `size` bytes whose rows differ.

    Args:
        path: of the file.
        kind: of `KINDS`.
        size: in bytes.
        step: of its rows.
    """
    rng = random.Random(f"{kind}-{step}")  # noqa: S311 - nothing secret
    # New rows cost more to make than to check: each is used many times, with another number in front.
    lines = [KINDS[kind](rng, step) for _ in range(50)]
    with open(path, "w", encoding="utf-8") as file:
        for number in _numbers(size):
            line = lines[number % len(lines)]
            size -= file.write(line.replace('"input": "', f'"input": "{number} ', 1))
            if size <= 0:
                return


def _numbers(limit: int) -> Iterator[int]:
    yield from range(limit)


def make_long(path: str, size: int) -> None:
    """Write a dump of one row of about `size` bytes without a newline."""
    block = "never a newline " * 65_536
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"input": "')
        file.writelines(block for _ in range(max(size // len(block), 1)))
        file.write('", "step": 1}')


def _peak() -> int:
    """Most memory that this process has held, in bytes."""
    # What `getrusage` says begins with the parent's on Linux.
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(path: str, parser: str) -> Figures:
    """Check a directory in a process of its own.

    Args:
        path: of the directory.
        parser: "json" or "orjson".
    """
    words = [sys.executable, "-m", "benchmarks.verify", "--one", path, "--parser", parser]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return Figures(**json.loads(done.stdout))


def _one(path: str, parser: str) -> None:
    before = _peak()
    begin = time.process_time()
    outcome = verify(find_place(path), parser=parser)
    seconds = time.process_time() - begin
    peak = _peak()
    figures = Figures(
        seconds,
        peak,
        peak - before,
        outcome.bytes,
        outcome.rows,
        outcome.count("error"),
        outcome.count("warning"),
    )
    print(json.dumps(vars(figures)))


def _line(name: str, parser: str, figures: Figures) -> str:
    rate = figures.size / figures.seconds
    return (
        f"| {name} | {parser} | {sized(figures.size)} | {figures.rows:,} | {figures.seconds:.2f} | "
        f"{rate / _MEGA:,.0f} | {10_000 * _MEGA / rate:,.0f} | {sized(figures.peak)} | {sized(figures.grown)} | "
        f"{figures.errors:,} / {figures.warnings:,} |"
    )


def main() -> None:
    """Print a table of the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=50, help="of each file (50)")
    parser.add_argument("--files", type=int, default=1000, help="of the directory of many files (1000)")
    parser.add_argument("--only", metavar="KIND", help=f"one of {', '.join([*KINDS, 'line', 'files'])}")
    parser.add_argument("--parser", choices=list(PARSERS), help="only this one")
    parser.add_argument("--one", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _one(options.one, options.parser)
        return
    print(
        "| rows | parser | size | rows | s | MB/s | s for 10 GB | peak | beyond imports | errors / warnings |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in [options.only] if options.only else [*KINDS, "line", "files"]:
        with tempfile.TemporaryDirectory(prefix="verl-dump-bench-") as folder:
            if kind == "files":
                for step in range(1, options.files + 1):
                    make(os.path.join(folder, f"{step}.jsonl"), "short", 2000, step)
            elif kind == "line":
                make_long(os.path.join(folder, "1.jsonl"), options.megabytes * _MEGA)
            else:
                make(os.path.join(folder, "1.jsonl"), kind, options.megabytes * _MEGA)
            for name in [options.parser] if options.parser else PARSERS:
                print(_line(kind, name, measure(folder, name)), flush=True)


if __name__ == "__main__":
    main()
