"""A process that runs the tests on mutants: `python -m benchmarks.mutation.worker warm|fresh ORDERS RESULTS` in a copy.

A warm one has collected every test, and gives its fork the code of the changed function. A fresh one has imported what
the tests need but for the project itself, and lets its fork collect and import: that is for what runs at import.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutation.attempt import Outcome, attempt, become_reaper
from benchmarks.mutation.hotpatch import Functions
from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.reach import PYTEST
from benchmarks.mutation.results import Result, append

Tell = Callable[[str], None]
Run = Callable[[Mutant | None, str, Sequence[str]], Outcome]

# Imported once, before the forks; the project's own modules are not among them.
_HEAVY = (
    "hypothesis",
    "numpy",
    "pyfakefs.fake_filesystem_unittest",
    "torch",
    "pandas",
    "pyarrow",
    "polars",
    "duckdb",
)


_COLLECTION = "(collection)"
"""Stands for a test where the test modules cannot be imported."""


# Said of the plugins that are imported before the forks.
_REWRITE = "ignore::pytest.PytestAssertRewriteWarning"


@dataclass(frozen=True)
class Order:
    """One mutant and the tests that may kill it.

    Attributes:
        mutant: what to test.
        tests: that reach it, fastest first.
        of: how many reach it altogether.
    """

    mutant: Mutant
    tests: tuple[str, ...]
    of: int


class Bench:
    """Runs orders one after the other, and writes down what became of them.

    Args:
        copy: the copy of the repository that this process works in.
        results: the file of results.
        run: runs tests on a mutant, or on the code as it is.
        given: what the file of orders says besides: `seconds` that each test usually takes, `killers` by module and
            scope, `minutes` to go on, and `suite` and `budget` as results have them.
    """

    def __init__(self, copy: Path, results: Path, run: Run, given: dict[str, Any]) -> None:
        self._copy = copy
        self._results = results
        self._run = run
        self._seconds: dict[str, float] = given["seconds"]
        self._killers: dict[str, list[str]] = given["killers"]
        self._stop = time.monotonic() + given["minutes"] * 60
        self._circumstances = {"suite": given["suite"], "budget": given["budget"]}
        self._sound: dict[str, bool] = {}  # whether tests pass on the code as it is
        self._hanging: set[str] = set()  # tests that a mutant has let hang

    def work(self, orders: Sequence[Order]) -> list[str]:
        """Do all, until the time is over; return the names of those that this kind of worker cannot do."""
        refused = []
        for order in orders:
            if time.monotonic() > self._stop:
                break
            result = self._one(order)
            if result is None:
                refused.append(order.mutant.name)
            else:
                append(self._results, replace(result, **self._circumstances))
        return refused

    def _one(self, order: Order) -> Result | None:
        mutant = order.mutant
        file = self._copy / mutant.path
        source = file.read_text(encoding="utf-8")
        scope = f"{mutant.path}::{mutant.scope}"
        begin = time.monotonic()
        ran = 0
        tests = self._sorted(order.tests, scope, mutant.path)
        try:
            # Children that the tests start import it from the disk.
            file.write_text(mutant.apply(source), encoding="utf-8")
            while tests:
                outcome = self._run(mutant, source, tests)
                ran += outcome.ran
                if outcome.how == "refused":
                    return None
                if outcome.how == "passed":
                    break
                if self._is_sound(outcome.test, file, source, mutant.apply(source)):
                    self._note(scope, outcome)
                    took = round(time.monotonic() - begin, 3)
                    return Result(mutant.name, mutant.digest, outcome.how, outcome.test, ran, order.of, took)
                tests = tests[tests.index(outcome.test) + 1 :]
        finally:
            file.write_text(source, encoding="utf-8")
        how = "survived" if order.tests else "unreached"
        return Result(mutant.name, mutant.digest, how, "", ran, order.of, round(time.monotonic() - begin, 3))

    def _note(self, scope: str, outcome: Outcome) -> None:
        """Remember what has killed, for the neighbours; what does it by hanging comes last, since that takes long."""
        if outcome.how == "timeout":
            self._hanging.add(outcome.test)
            return
        known = self._killers.setdefault(scope, [])
        if outcome.test not in known:
            known.insert(0, outcome.test)

    def _sorted(self, tests: Sequence[str], scope: str, path: str) -> list[str]:
        """What has killed a neighbour first; then the fastest."""
        near = self._killers.get(scope, [])
        far = {
            test for name, found in self._killers.items() if name.startswith(f"{path}::") for test in found
        }
        rank = {test: i for i, test in enumerate(near[:5])}
        wanted = [test for test in tests if self._sound.get(test, True)]
        return sorted(
            wanted,
            key=lambda t: (t in self._hanging, rank.get(t, 9), t not in far, self._seconds.get(t, 0.0)),
        )

    def _is_sound(self, test: str, file: Path, source: str, mutated: str) -> bool:
        if test in {
            "",
            _COLLECTION,
        }:  # without the mutant every test could be collected, or nothing were measured
            return True
        if test not in self._sound:
            file.write_text(source, encoding="utf-8")
            self._sound[test] = self._run(None, source, [test]).how == "passed"
            file.write_text(mutated, encoding="utf-8")
            if not self._sound[test]:
                print(f"{test} fails without a mutant, and is left out", file=sys.stderr, flush=True)
        return self._sound[test]


class Failures:
    """The plugin of pytest, in the fork: tells which test begins, and knows the first one that failed."""

    def __init__(self, tell: Tell, tests: Sequence[str]) -> None:
        self._tell = tell
        self._tests = tests
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what was asked for, in the order asked for."""
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[test] for test in self._tests if test in by_name]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Tell that a test begins."""
        self._tell(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self.failed = self.failed or report.nodeid


class Warm:
    """The plugin of pytest whose loop over the tests is one over the mutants."""

    def __init__(self, copy: Path, seconds: dict[str, float]) -> None:
        self._copy = copy
        self._seconds = seconds
        self._session: pytest.Session | None = None
        self._functions: Functions | None = None
        self._items: dict[str, pytest.Item] = {}
        self.bench: Callable[[Run], None] = lambda _: None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Work off the orders instead of running every test."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        self._functions = Functions()
        self.bench(self._run)
        return True

    def _run(self, mutant: Mutant | None, source: str, tests: Sequence[str]) -> Outcome:
        items = [self._items[test] for test in tests if test in self._items]
        if not items:
            return Outcome("passed", "", 0, 0.0)

        def body(tell: Tell) -> str:
            if mutant is not None and not self._patch(mutant, source):
                return "!"
            failures = Failures(tell, tests)
            items[0].config.pluginmanager.register(failures)
            for item, following in zip(items, [*items[1:], None], strict=True):
                try:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
                    # pytest lets these through, to end the run.
                    return item.nodeid
                if failures.failed:
                    return item.nodeid
            return ""

        return attempt(lambda test: self._seconds.get(test, 1.0), body)

    def _patch(self, mutant: Mutant, source: str) -> bool:
        if not mutant.function or self._functions is None:
            return False
        file = self._copy / mutant.path
        return self._functions.patch(file, mutant.function, source, mutant.apply(source))


def _warm(copy: Path, seconds: dict[str, float], files: Sequence[str], bench: Callable[[Run], None]) -> None:
    plugin = Warm(copy, seconds)
    plugin.bench = bench
    code = pytest.main([*PYTEST, "-s", "-W", _REWRITE, *files], plugins=[plugin])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest ended with {code!r} in {copy}")


def _fresh(seconds: dict[str, float], bench: Callable[[Run], None]) -> None:
    def some(tests: Sequence[str]) -> Outcome:
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))

        def body(tell: Tell) -> str:
            failures = Failures(tell, tests)
            code = pytest.main([*PYTEST, "-s", "-x", "-W", _REWRITE, *files], plugins=[failures])
            if code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
                return ""
            return failures.failed or _COLLECTION

        return attempt(lambda test: seconds.get(test, 1.0), body)

    def run(mutant: Mutant | None, source: str, tests: Sequence[str]) -> Outcome:
        del mutant, source  # what is on the disk is what is imported
        # To collect one file is faster than all, and the most likely killer comes first.
        lead = tests[0].partition("::")[0]
        outcome = some([test for test in tests if test.partition("::")[0] == lead])
        rest = [test for test in tests if test.partition("::")[0] != lead]
        if outcome.how != "passed" or not rest:
            return outcome
        more = some(rest)
        return replace(more, ran=outcome.ran + more.ran)

    bench(run)


def main() -> None:
    """Work off a file of orders in the current directory, which is the copy."""
    kind, orders_file, results = sys.argv[1:]
    become_reaper()
    copy = Path.cwd()
    given = json.loads(Path(orders_file).read_text(encoding="utf-8"))
    orders = [Order(Mutant(**o["mutant"]), tuple(o["tests"]), o["of"]) for o in given["orders"]]
    refused: list[str] = []

    def bench(run: Run) -> None:
        refused.extend(Bench(copy, Path(results), run, given).work(orders))

    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # A shell that starts this in the background has it ignore the signal, and with it all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR)
    told = os.dup(1)
    os.dup2(null, 1)
    if kind == "warm":
        files = sorted({test.partition("::")[0] for order in orders for test in order.tests})
        _warm(copy, given["seconds"], files, bench)
    else:
        _fresh(given["seconds"], bench)
    os.write(told, json.dumps(refused).encode())


if __name__ == "__main__":
    main()
