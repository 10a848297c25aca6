"""Times JSON encoders, and the copy at the call, on one dump of 1,024 rows; run `python benchmarks/encoding.py`."""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from verl_dump import encoding

Row = dict[str, Any]
ROWS = 1024
TEXT_BYTES = 16 << 10
_SHORT = {"acc": True, "pred": "42", "length": 3000, "format": 0.5, "uid": "a" * 32, "turns": 3}
_ALPHABETS = {"ascii": "abcdefghijklmnopqrstuvwxyz", "cjk": "".join(map(chr, range(0x4E00, 0x5E00)))}


def text(source: random.Random, alphabet: str, size: int) -> str:
    """Words, quotes and lines as in an answer of a model.

    Args:
        source: of randomness.
        alphabet: its letters.
        size: bytes of UTF-8, about.
    """
    words = ["".join(source.choices(alphabet, k=source.randint(2, 9))) for _ in range(300)]
    words += [f"{word}\n" for word in words[:30]] + [f'"{word}"' for word in words[:15]] + ["\\boxed{42}"]
    letters = size // len(alphabet[0].encode())
    return " ".join(source.choices(words, k=letters // 6))[:letters]


def batch(kind: str, rows: int) -> list[Row]:
    """Rows of 16 KB of text with seven extras; those of some kinds hold more.

    Args:
        kind: ascii, cjk, nested (messages and tool calls besides) or arrays (512 floats and integers besides).
        rows: the number of rows.
    """
    source = random.Random(1)  # noqa: S311 - the same batch in each run is what is wanted
    alphabet = _ALPHABETS["cjk" if kind == "cjk" else "ascii"]
    made: list[Row] = []
    for _ in range(rows):
        row: Row = {name: text(source, alphabet, TEXT_BYTES // 2) for name in ("input", "output")}
        row |= {"gts": "42", "score": source.random(), "step": 7, **_SHORT, "ratio": source.random()}
        if kind == "nested":
            row["messages"] = [
                {
                    "role": "assistant",
                    "content": row["input"][:200],
                    "tool_calls": [
                        {"id": f"call_{i}", "args": {"a": i, "b": [1.5, None]}} for i in range(10)
                    ],
                }
                for _ in range(5)
            ]
        if kind == "arrays":
            row["logprobs"] = [source.random() for _ in range(512)]
            row["ids"] = [source.randrange(150_000) for _ in range(512)]
        made.append(row)
    return made


def copied(rows: list[Row]) -> encoding.Snapshot:
    """The copy that is taken at the call."""
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    base = {"inputs": "input", "outputs": "output", "gts": "gts", "scores": "score"}
    given = {argument: columns.pop(name) for argument, name in base.items()}
    del columns["step"]
    return encoding.snapshot(7, extras=columns, **given)


@contextmanager
def without_fast() -> Iterator[None]:
    """Let the writer encode as where orjson is not installed."""
    fast, encoding._fast = encoding._fast, None
    try:
        yield
    finally:
        encoding._fast = fast


def encoders() -> dict[str, Callable[[Row], bytes]]:
    """What makes bytes of one row, by name; those that are not installed are left out."""
    one = json.JSONEncoder(ensure_ascii=False, check_circular=False)
    found: dict[str, Callable[[Row], bytes]] = {
        "json.dumps": lambda row: json.dumps(row, ensure_ascii=False).encode(),
        "json, one encoder": lambda row: one.encode(row).encode(),
    }
    if importlib.util.find_spec("orjson"):
        found["orjson"] = importlib.import_module("orjson").dumps
    if importlib.util.find_spec("msgspec"):
        found["msgspec"] = importlib.import_module("msgspec.json").Encoder().encode
    return found


def measure(rows: list[Row], rounds: int) -> dict[str, float]:
    """Median milliseconds of processor time of each way, taken in turn so that a busy machine is as busy for all.

    Args:
        rows: the batch.
        rounds: how often each is measured.
    """
    taken = copied(rows)
    ways: dict[str, Callable[[], Any]] = {
        name: partial(_each, encode, rows) for name, encode in encoders().items()
    }
    ways["copy.deepcopy"] = lambda: copy.deepcopy(rows)
    ways["verl_dump, copy at the call"] = lambda: copied(rows)
    ways["verl_dump, lines"] = lambda: list(encoding.encode(taken))
    times: dict[str, list[float]] = {name: [] for name in [*ways, "verl_dump, lines without orjson"]}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(_milliseconds(way))
        with without_fast():
            times["verl_dump, lines without orjson"].append(_milliseconds(ways["verl_dump, lines"]))
    return {name: statistics.median(each) for name, each in times.items()}


def _each(encode: Callable[[Row], bytes], rows: list[Row]) -> int:
    return sum(len(encode(row)) for row in rows)


def _milliseconds(way: Callable[[], Any]) -> float:
    start = time.process_time()
    way()
    return (time.process_time() - start) * 1e3


def main() -> None:
    """Print a table of milliseconds, each with its ratio to `json` with one encoder object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the dump ({ROWS})")
    parser.add_argument("--rounds", type=int, default=9, help="times that each is measured (9)")
    options = parser.parse_args()
    kinds = ("ascii", "cjk", "nested", "arrays")
    table = {kind: measure(batch(kind, options.rows), options.rounds) for kind in kinds}
    print("| ms (ratio) |", " | ".join(kinds), "|")
    print("|---|" + "---|" * len(kinds))
    for name in table["ascii"]:
        cells = [
            f"{table[k][name]:.0f} ({table[k][name] / table[k]['json, one encoder']:.2f})" for k in kinds
        ]
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
