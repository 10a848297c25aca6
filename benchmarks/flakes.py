"""Shows that the contract on the reference writer has no flakes: `python -m benchmarks.flakes`, in a checkout.

Each seed is run twice, each time in another random order: once alone, and once beside other runs that keep the cores
busy. A run flakes when a law does not hold in it; a pair disagrees when its JSON reports differ in more than their times.
It goes on where it was interrupted, and makes docs/flakes.json and docs/flakes.md of what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
FIGURES = CHECKOUT / "docs" / "flakes.json"
PAGE = CHECKOUT / "docs" / "flakes.md"

KINDS = {"full": (), "quick": ("--quick",)}
"""What the command is given for each kind of run."""

BESIDE = 3
"""Runs for each core at a time where a run is to be under load; each of them has several processes."""


@dataclass(frozen=True)
class Run:
    """What is known of one run.

    Args:
        kind: a key of `KINDS`.
        seed: chose the batches, and the trials of a quick run.
        loaded: whether it ran beside others.
        code: the exit code; 0 where no law is violated.
        held: the number of laws that held.
        broken: laws that were violated, with what was found; the last line that was said where it failed otherwise.
        trials: how many there were.
        seconds: from the start of the process to its end.
        load: the load average of the machine at the end, over a minute.
        digest: of the JSON report without its times.
    """

    kind: str
    seed: int
    loaded: bool
    code: int
    held: int
    broken: tuple[str, ...]
    trials: int
    seconds: float
    load: float
    digest: str

    @property
    def key(self) -> tuple[str, int, bool]:
        """What tells it from the others."""
        return self.kind, self.seed, self.loaded


def one(kind: str, seed: int, *, loaded: bool) -> Run:
    """Run the contract once, in an order that nobody chose."""
    begin = time.monotonic()
    order = random.SystemRandom().randrange(1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "fault_injection.cli", "check", *KINDS[kind], "-q"]
        done = subprocess.run(
            [*command, "--seed", str(seed), "--shuffle", str(order), "--json", str(file)],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        seconds = round(time.monotonic() - begin, 2)
        text = file.read_text(encoding="utf-8") if file.exists() else '{"laws": [], "trials": 0}'
    report: dict[str, Any] = json.loads(text)
    broken = [
        f"{law['id']}: {found['message']} ({found['scenario']} {found['plan']})"
        for law in report["laws"]
        for found in law["violations"]
    ]
    if done.returncode and not broken:
        broken = done.stdout.splitlines()[-1:] or ["it said nothing"]
    held = Counter(law["status"] for law in report["laws"])["holds"]
    return Run(
        kind,
        seed,
        loaded,
        done.returncode,
        held,
        tuple(broken),
        report["trials"],
        seconds,
        round(os.getloadavg()[0], 1),
        digest_of(report),
    )


def digest_of(report: dict[str, Any]) -> str:
    """A digest of every byte of a report, times aside."""
    timeless = {name: value for name, value in report.items() if name != "seconds"}
    return hashlib.sha256(json.dumps(timeless, indent=1).encode()).hexdigest()[:16]


def read(file: Path) -> dict[tuple[str, int, bool], Run]:
    """The runs that a file knows."""
    if not file.exists():
        return {}
    values = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    runs = [Run(**{**value, "broken": tuple(value["broken"])}) for value in values]
    return {run.key: run for run in runs}


def go_on(file: Path, kind: str, number: int) -> None:
    """Make the runs of one kind that are not known yet: each seed alone, and beside others.

    Args:
        file: of the runs, one a line.
        kind: a key of `KINDS`.
        number: how many there shall be.
    """
    known = read(file)
    for loaded, at_once in ((False, 1), (True, BESIDE * (os.cpu_count() or 1))):
        seeds = [seed for seed in range(number // 2) if (kind, seed, loaded) not in known]
        with ThreadPoolExecutor(at_once) as pool:
            for run in pool.map(lambda seed, loaded=loaded: one(kind, seed, loaded=loaded), seeds):
                with file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(run)) + "\n")
                if run.broken:
                    print(f"{kind} seed {run.seed}: {'; '.join(run.broken)}", flush=True)
        print(f"{kind}, {'loaded' if loaded else 'alone'}: {len(seeds)} more runs", flush=True)


def figures(runs: Iterable[Run]) -> dict[str, Any]:
    """What the runs say together, and all that were not as they should be."""
    every = sorted(runs, key=lambda run: run.key)
    by: dict[tuple[str, bool], list[Run]] = defaultdict(list)
    pairs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in every:
        by[run.kind, run.loaded].append(run)
        pairs[run.kind, run.seed].append(run)
    rows = [
        {
            "kind": kind,
            "loaded": loaded,
            "runs": len(some),
            "flakes": sum(bool(run.code) for run in some),
            "laws held": sorted({run.held for run in some}),
            "trials": sum(run.trials for run in some),
            "median seconds": round(statistics.median(run.seconds for run in some), 1),
            "longest": max(run.seconds for run in some),
            "median load": statistics.median(run.load for run in some),
        }
        for (kind, loaded), some in by.items()
    ]
    both = {key: some for key, some in pairs.items() if len(some) == 2}
    return {
        "rows": rows,
        "pairs": len(both),
        "differing": [f"{kind} {seed}" for (kind, seed), (a, b) in both.items() if a.digest != b.digest],
        "flakes": [asdict(run) for run in every if run.code],
    }


def page(data: dict[str, Any]) -> str:
    """The page of the figures, as Markdown."""
    lines = [
        "# No false alarms",
        "",
        "<!-- Made from docs/flakes.json by `python -m benchmarks.flakes`; run it again. -->",
        "",
        "The contract on the reference writer, again and again, in a random order each time. Each seed is run twice: by itself,",
        f"and beside so many others that {BESIDE} runs share a core; the load average tells what else the machine was at.",
        "A flake is a run in which a law does not hold.",
        "",
        "| run | beside others | runs | flakes | laws held | trials | median seconds | longest | median load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['kind']} | {'yes' if row['loaded'] else 'no'} | {row['runs']} | {row['flakes']} "
        f"| {', '.join(map(str, row['laws held']))} | {row['trials']:,} | {row['median seconds']} "
        f"| {row['longest']} | {row['median load']} |"
        for row in data["rows"]
    ]
    differing = len(data["differing"])
    lines += [
        "",
        f"{data['pairs']} seeds were run twice; of {differing} of them the two JSON reports differ, times aside.",
    ]
    if data["flakes"] or data["differing"]:
        lines += ["", "## Not as it should be", ""]
        lines += [f"- {run['kind']} seed {run['seed']}: {'; '.join(run['broken'])}" for run in data["flakes"]]
        lines += [f"- {pair}: two reports" for pair in data["differing"]]
    return "\n".join([*lines, ""])


def main() -> int:
    """Run what is missing, and write the page.

    Returns:
        The exit code: 1 where a run flaked or a pair disagrees.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flakes", description=__doc__)
    parser.add_argument("--quick", type=int, default=500, metavar="N", help="quick runs (500)")
    parser.add_argument("--full", type=int, default=20, metavar="N", help="full runs (20)")
    parser.add_argument("--runs", type=Path, default=CHECKOUT / ".flakes.jsonl", help="file of the runs")
    options = parser.parse_args()
    for kind, number in (("quick", options.quick), ("full", options.full)):
        go_on(options.runs, kind, number)
    data = figures(read(options.runs).values())
    FIGURES.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(data), encoding="utf-8")
    return int(bool(data["flakes"] or data["differing"]))


if __name__ == "__main__":
    sys.exit(main())
