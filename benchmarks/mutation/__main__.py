"""The command: `python -m benchmarks.mutation [all|run|list|show|page]`."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.mutation.campaign import Settings, reach, run, suite_of
from benchmarks.mutation.figures import figures
from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.page import FIGURES, PAGE, page
from benchmarks.mutation.results import Result, read
from benchmarks.mutation.scope import describe, equivalents, everything

_REPOSITORY = Path(__file__).resolve().parents[2]

_LEAST = 0.95
"""The share of mutants that must be killed."""

_MORE = 10.0
"""How many times longer the tests may take for a mutant that has survived the fastest."""


def main() -> int:
    """Run the command.

    Returns:
        The exit code: of the whole run, 1 where a mutant was not run, or too few were killed.
    """
    options = _options()
    parts = everything(_REPOSITORY, options.work / "made")
    mutants = {mutant.name: mutant for found in parts.values() for mutant in found}
    same = equivalents(_REPOSITORY, mutants)
    settings = Settings(_REPOSITORY, options.work, options.jobs, options.minutes, options.budget)
    wanted = [
        m
        for m in mutants.values()
        if not options.only or any(fnmatch.fnmatch(m.name, p) for p in options.only)
    ]
    if options.what in {"all", "run"}:
        _run(settings, [m for m in wanted if m.name not in same])
    if options.what == "all":
        # Most are killed by the fastest tests; what is left meets the slow ones, such as those that start processes.
        _run(replace(settings, budget=settings.budget * _MORE), [m for m in wanted if m.name not in same])
    known = _known(settings, mutants)
    if options.what == "list":
        _list(wanted, known, options.how)
    if options.what == "show":
        for mutant in wanted:
            _show(mutant, known.get(mutant.name))
    if options.what in {"all", "page"}:
        data = figures(_REPOSITORY, parts, known, same)
        (_REPOSITORY / FIGURES).write_text(data, encoding="utf-8")
        (_REPOSITORY / PAGE).write_text(page(data), encoding="utf-8")
    return (
        _verdict([m for m in mutants.values() if m.name not in same], known) if options.what == "all" else 0
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("what", choices=["all", "run", "list", "show", "page"], nargs="?", default="all")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="names of mutants, with * and ?")
    parser.add_argument(
        "--work", type=Path, default=_REPOSITORY / ".mutation", help="folder of copies and results"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (1)")
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="after which no further mutant is begun (600)"
    )
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of tests for a mutant at most (6)")
    parser.add_argument("--how", help="list only these: failed, timeout, died, survived, unreached, open")
    options = parser.parse_args()
    options.work = options.work.resolve()
    return options


def _known(settings: Settings, mutants: Mapping[str, Mutant]) -> dict[str, Result]:
    """The results that are of the code as it is."""
    return {
        name: result
        for name, result in read([settings.results]).items()
        if name in mutants and mutants[name].digest == result.digest
    }


def _run(settings: Settings, wanted: Sequence[Mutant]) -> None:
    """Run what was not run yet, and what survived fewer or other tests."""
    settings.work.mkdir(parents=True, exist_ok=True)
    known = _known(settings, {mutant.name: mutant for mutant in wanted})
    suite = suite_of(settings)
    left = [
        m
        for m in wanted
        if m.name not in known
        or (
            not known[m.name].killed
            and (known[m.name].suite != suite or known[m.name].budget < settings.budget)
        )
    ]
    print(
        f"{len(wanted)} mutants, {len(left)} to run, each with {settings.budget:g} s of tests at most",
        flush=True,
    )
    if not left:
        return
    begin = time.monotonic()
    reached = reach(settings)
    print(f"{len(reached.seconds)} tests; reach known after {time.monotonic() - begin:.0f} s", flush=True)
    begin = time.monotonic()
    run(settings, left, known, reached)
    now = _known(settings, {mutant.name: mutant for mutant in left})
    counts = Counter(result.how for result in now.values())
    print(f"{dict(counts)} after {(time.monotonic() - begin) / 60:.1f} minutes", flush=True)


def _verdict(mutants: Sequence[Mutant], known: Mapping[str, Result]) -> int:
    ran = [known[mutant.name] for mutant in mutants if mutant.name in known]
    killed = sum(result.killed for result in ran)
    print(f"{killed} of {len(ran)} killed, {len(mutants) - len(ran)} not run")
    return int(len(ran) < len(mutants) or killed < _LEAST * len(ran))


def _list(mutants: list[Mutant], known: dict[str, Result], how: str | None) -> None:
    for mutant in mutants:
        result = known.get(mutant.name)
        state = result.how if result else "open"
        if how in {None, state}:
            print(f"{state:9} {mutant.name} line {mutant.first}: {describe(_REPOSITORY, mutant)}")


def _show(mutant: Mutant, result: Result | None) -> None:
    source = (_REPOSITORY / mutant.path).read_text(encoding="utf-8")
    lines = difflib.unified_diff(
        source.splitlines(keepends=True),
        mutant.apply(source).splitlines(keepends=True),
        mutant.path,
        mutant.name,
    )
    sys.stdout.writelines(lines)
    print(result or "not run")


if __name__ == "__main__":
    sys.exit(main())
