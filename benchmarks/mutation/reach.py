"""Which lines each test reaches, in its own process and in the children that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Container, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import coverage
import coverage.exceptions
import pytest

PACKAGES = ("verl_dump", "fault_injection")
"""The folders whose code is mutated."""

_CONTEXT = "MUTATION_TEST"
# Children that a test starts read their context from the environment, since no plugin tells them of the test.
_SETTINGS = """\
[run]
branch = false
concurrency = thread
context = ${{{context}-}}
core = ctrace
data_file = {folder}/coverage
disable_warnings = no-data-collected, module-not-imported, module-not-measured
parallel = true
patch = _exit, fork
source_dirs =
    {sources}
"""


@dataclass(frozen=True)
class Reach:
    """What the tests reach.

    Attributes:
        seconds: that each test took, by its name.
        lines: the tests that reach a line, by file (relative, with slashes) and number of the line; the test "" is the
            import of the module.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, frozenset[str]]]

    def tests(self, path: str, first: int, last: int) -> frozenset[str]:
        """The tests that reach any of some lines.

        Args:
            path: of the file.
            first: line.
            last: line.
        """
        lines = self.lines.get(path, {})
        return _union(lines.get(line, frozenset()) for line in range(first, last + 1)) - {""}

    def all_tests(self, path: str) -> frozenset[str]:
        """The tests that reach anything of a file."""
        return _union(self.lines.get(path, {}).values()) - {""}

    def tests_beside(self, path: str) -> frozenset[str]:
        """The tests that reach anything of the files in the same folder."""
        folder = path.rpartition("/")[0]
        return _union(self.all_tests(name) for name in self.lines if name.rpartition("/")[0] == folder)

    def at_import(self, path: str, first: int, last: int) -> bool:
        """Whether any of some lines is run while modules are imported."""
        lines = self.lines.get(path, {})
        return any("" in lines.get(line, ()) for line in range(first, last + 1))

    def without(self, files: Container[str]) -> Reach:
        """The same without the tests of some files."""
        gone = {test for test in self.seconds if test.partition("::")[0] in files}
        lines = {path: {i: tests - gone for i, tests in found.items()} for path, found in self.lines.items()}
        return Reach({test: took for test, took in self.seconds.items() if test not in gone}, lines)

    def joined(self, other: Reach) -> Reach:
        """This and another one of other tests."""
        lines = {path: dict(found) for path, found in self.lines.items()}
        for path, found in other.lines.items():
            mine = lines.setdefault(path, {})
            for line, tests in found.items():
                mine[line] = mine.get(line, frozenset()) | tests
        return Reach({**self.seconds, **other.seconds}, lines)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


class Recorder:
    """The plugin of pytest that tells coverage.py of each test, and takes its time."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._seconds: dict[str, float] = {}
        measured = coverage.Coverage.current()
        if measured is None:
            raise RuntimeError("coverage.py was not started by COVERAGE_PROCESS_START")
        self._coverage = measured
        os.register_at_fork(after_in_child=self._continue)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Name the test to coverage.py, here and in the children that it starts."""
        os.environ[_CONTEXT] = item.nodeid
        self._coverage.switch_context(item.nodeid)
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.monotonic() - begin
            self._coverage.switch_context("")
            os.environ[_CONTEXT] = ""

    def pytest_sessionfinish(self) -> None:
        """Leave the times to the process that waits."""
        Path(self._file).write_text(json.dumps(self._seconds), encoding="utf-8")

    @staticmethod
    def _continue() -> None:
        measured = coverage.Coverage.current()
        if measured is not None and os.environ.get(_CONTEXT):
            measured.switch_context(os.environ[_CONTEXT])


def measure(copy: Path, folder: Path, tests: tuple[str, ...]) -> Reach:
    """Run the tests once under coverage.py.

    Args:
        copy: the copy of the repository to run in.
        folder: of the raw data; must not exist.
        tests: what to give pytest to run.
    """
    folder.mkdir(parents=True)
    settings = folder / "coveragerc"
    sources = "\n    ".join(str(copy / name) for name in PACKAGES)
    settings.write_text(_SETTINGS.format(context=_CONTEXT, folder=folder, sources=sources), encoding="utf-8")
    script = (
        "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from benchmarks.mutation.reach import Recorder; "
        "sys.exit(pytest.main(sys.argv[2:], plugins=[Recorder(sys.argv[1])]))"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(folder / "seconds.json"), *PYTEST, *tests],
        cwd=copy,
        env={**os.environ, "COVERAGE_PROCESS_START": str(settings), _CONTEXT: ""},
        # Tests that fail under coverage.py reach their lines all the same; whether they pass without it is seen later.
        check=False,
    )
    return _gather(copy, folder)


PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not zoo", "--no-header", "--tb=no")
"""The options of every run: no order but the given one, nothing left behind."""


def _gather(copy: Path, folder: Path) -> Reach:
    seconds = json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in folder.glob("coverage.*"):
        data = coverage.CoverageData(str(file))
        try:
            data.read()
        except coverage.exceptions.DataError:
            # Of a child that was killed while it wrote: what it reached, its parent or another child mostly reached too.
            continue
        for path in data.measured_files():
            name = Path(path).relative_to(copy).as_posix()
            for line, contexts in data.contexts_by_lineno(path).items():
                found[name][line].update(_test(context, seconds) for context in contexts)
    lines = {
        name: {line: frozenset(tests) for line, tests in by_line.items()} for name, by_line in found.items()
    }
    return Reach(seconds, lines)


def _test(context: str, known: Container[str]) -> str:
    """The test of a context, which in a forked child names it twice: from its environment, and by the plugin."""
    while context and context not in known:
        context = context.partition("|")[2]
    return context


def save(reach: Reach, file: Path) -> None:
    """Write it down, each test by its position."""
    tests = ["", *reach.seconds]
    position = {test: i for i, test in enumerate(tests)}
    lines = {
        path: {line: sorted(position[test] for test in found) for line, found in by_line.items()}
        for path, by_line in reach.lines.items()
    }
    file.write_text(json.dumps({"seconds": reach.seconds, "lines": lines}), encoding="utf-8")


def load(file: Path) -> Reach:
    """Read what `save` wrote."""
    data = json.loads(file.read_text(encoding="utf-8"))
    tests = ["", *data["seconds"]]
    lines = {
        path: {int(line): frozenset(tests[i] for i in found) for line, found in by_line.items()}
        for path, by_line in data["lines"].items()
    }
    return Reach(data["seconds"], lines)
