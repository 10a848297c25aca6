"""Runs the mutants: measures what the tests reach, makes the copies, starts the workers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.reach import PACKAGES, Reach, load, measure, save
from benchmarks.mutation.results import Result, read
from benchmarks.mutation.worker import Order

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".tox", ".mutation", "__pycache__", "*.egg-info", "build", "dist", ".venv"
)


@dataclass(frozen=True)
class Settings:
    """How to run.

    Attributes:
        repository: what is tested.
        work: the folder of copies, measurements and results.
        jobs: the number of processes.
        minutes: after which no further mutant is begun, by the warm workers and again by the fresh ones.
        budget: seconds of tests that a mutant is given at most.
    """

    repository: Path
    work: Path
    jobs: int
    minutes: float
    budget: float

    @property
    def results(self) -> Path:
        """The file of results."""
        return self.work / "results.jsonl"


def copy_of(settings: Settings, name: str) -> Path:
    """Make a copy of the repository."""
    copy = settings.work / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(settings.repository, copy, ignore=_LEFT_OUT)
    return copy


def reach(settings: Settings) -> Reach:
    """Measure what the tests reach, of those files only that are new or changed since the last time."""
    file, digests = settings.work / "reach.json", settings.work / "digests.json"
    now = _digests(settings.repository)
    before = json.loads(digests.read_text(encoding="utf-8")) if digests.exists() else {}
    known = load(file) if file.exists() and before.get("") == now[""] else Reach({}, {})
    wanted = [
        name for name, digest in now.items() if name and (before.get(name) != digest or not known.seconds)
    ]
    gone = {name for name in before if name not in now}
    if wanted or gone:
        copy = copy_of(settings, "measured")
        raw = settings.work / "raw"
        shutil.rmtree(raw, ignore_errors=True)
        kept = known.without({*wanted, *gone})
        known = kept.joined(measure(copy, raw, tuple(wanted))) if wanted else kept
        shutil.rmtree(raw, ignore_errors=True)
        save(known, file)
        digests.write_text(json.dumps(now), encoding="utf-8")
    return known


def suite_of(settings: Settings) -> str:
    """A digest of all tests and what they share."""
    return hashlib.sha256(json.dumps(_digests(settings.repository)).encode()).hexdigest()[:12]


def _digests(repository: Path) -> dict[str, str]:
    """A digest of each test file, and under "" one of all that the tests share."""
    files = sorted((repository / "tests").glob("test_*.py"))
    shared = [path for name in (*PACKAGES, "tests") for path in sorted((repository / name).rglob("*.py"))]
    digests = {"": _digest(path for path in shared if path not in files)}
    return digests | {path.relative_to(repository).as_posix(): _digest([path]) for path in files}


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def order_of(mutant: Mutant, reached: Reach, budget: float) -> Order:
    """Choose the tests for a mutant: those that reach the line, or where none does, the module, or its neighbours.

    A module of tables is run at import only, and those that use it are mostly beside it.
    """
    tests = reached.tests(mutant.path, mutant.first, mutant.last) if mutant.function else frozenset()
    chosen = tests or reached.all_tests(mutant.path) or reached.tests_beside(mutant.path)
    left, taken = budget, []
    for test in sorted(chosen, key=lambda test: (reached.seconds[test], test)):
        if left <= 0:
            break
        taken.append(test)
        left -= reached.seconds[test]
    return Order(mutant, tuple(taken), len(chosen))


def run(settings: Settings, mutants: Sequence[Mutant], known: dict[str, Result], reached: Reach) -> None:
    """Run mutants on all processes, until they are done or the time is over."""
    orders = [order_of(mutant, reached, settings.budget) for mutant in mutants]
    killers: dict[str, list[str]] = {}
    for name, result in known.items():
        if result.how == "failed" and result.test:
            found = killers.setdefault("::".join(name.split("::")[:2]), [])
            if result.test not in found:
                found.append(result.test)
    copies = [copy_of(settings, f"copy-{i}") for i in range(settings.jobs)]
    warm = [order for order in orders if order.mutant.function]
    refused = _workers(settings, "warm", copies, warm, reached, killers)
    now = read([settings.results])
    # What runs at import as well may have been noticed only there, and that had happened before the forks.
    fresh = [
        order
        for order in orders
        if not order.mutant.function
        or order.mutant.name in refused
        or (
            _at_import(order.mutant, reached)
            and order.mutant.name in now
            and not now[order.mutant.name].killed
        )
    ]
    _workers(settings, "fresh", copies, fresh, reached, killers)


def _at_import(mutant: Mutant, reached: Reach) -> bool:
    return reached.at_import(mutant.path, mutant.first, mutant.last)


def _workers(
    settings: Settings,
    kind: str,
    copies: Sequence[Path],
    orders: Sequence[Order],
    reached: Reach,
    killers: dict[str, list[str]],
) -> set[str]:
    """Share the orders out among processes; return the names of those that they cannot do."""
    processes = []
    for i, copy in enumerate(copies):
        share = orders[i :: len(copies)]
        if not share:
            continue
        file = settings.work / f"orders-{i}.json"
        tests = {test for order in share for test in order.tests}
        given = {
            "orders": [asdict(order) for order in share],
            "seconds": {test: reached.seconds[test] for test in tests},
            "killers": killers,
            "minutes": settings.minutes,
            "suite": suite_of(settings),
            "budget": settings.budget,
        }
        file.write_text(json.dumps(given), encoding="utf-8")
        # Named as tests/conftest.py names its folders, which are emptied after each mutant.
        place = settings.work / f"verl-dump-tests-{i}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(0o711)
        words = [sys.executable, "-m", "benchmarks.mutation.worker", kind, str(file), str(settings.results)]
        environment = {**os.environ, "TMPDIR": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
        with (settings.work / f"worker-{i}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(words, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=log)
            )
    refused: set[str] = set()
    for process in processes:
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"a worker ended with {process.returncode}; see the logs in {settings.work}")
        refused.update(json.loads(output))
    return refused
