"""Runs tests in a fork of this process, one after the other until one fails, each with a time limit."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_GRACE = 5.0
"""Seconds that every test may take beyond a multiple of what it usually takes."""

_MULTIPLE = 10.0

_START = 60.0
"""Seconds until the first test begins, the import of what is mutated included."""

_MEMORY = 6 << 30
"""Bytes of address space that a mutant may take beyond what the process has."""

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


@dataclass(frozen=True)
class Outcome:
    """How the tests ended.

    Attributes:
        how: "passed", "failed", "timeout", "died", or "refused" where the mutant could not be put in.
        test: that ended it, or "".
        ran: the number of tests begun.
        seconds: from the fork to the end.
    """

    how: str
    test: str
    ran: int
    seconds: float


def become_reaper() -> None:
    """Have the processes that a killed child leaves become children of this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def attempt(usual: Callable[[str], float], body: Callable[[Callable[[str], None]], str]) -> Outcome:
    """Fork, run tests in the child, and say how they ended.

    Args:
        usual: the seconds that a test usually takes.
        body: what the child does: it is given a function to call with the name of each test that begins, and returns the
            name of the test that failed, "" where all passed, or "!" where the mutant could not be put in.
    """
    begin = time.monotonic()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(writing, body)
    os.close(writing)
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as stream:
        how, current, ran = _watch(stream, usual)
    _end(pid)
    _clear()
    return Outcome(how, current, ran, time.monotonic() - begin)


def _child(writing: int, body: Callable[[Callable[[str], None]], str]) -> None:
    code = 70
    with suppress(BaseException):
        os.setsid()
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, size + _MEMORY))

        def tell(test: str) -> None:
            os.write(writing, json.dumps(test).encode() + b"\n")

        try:
            word = {"failed": body(tell)}
        except BaseException:  # noqa: BLE001 - a defect of this tool is no kill: told to the parent, which raises
            word = {"broken": traceback.format_exc()}
        os.write(writing, json.dumps(word).encode() + b"\n")
        code = 0
    os._exit(code)


def _watch(stream: IO[bytes], usual: Callable[[str], float]) -> tuple[str, str, int]:
    """Follow what the child tells until it ends or takes too long."""
    current, ran, rest = "", 0, b""
    deadline = time.monotonic() + _START
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            return "timeout", current, ran
        data = os.read(stream.fileno(), 1 << 16)
        if not data:
            return "died", current, ran
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            word = json.loads(line)
            if isinstance(word, dict):
                if "broken" in word:
                    raise RuntimeError(f"the fork that runs the tests broke:\n{word['broken']}")
                failed = str(word["failed"])
                return ("refused" if failed == "!" else "failed" if failed else "passed"), failed, ran
            current, ran = word, ran + 1
            deadline = time.monotonic() + _GRACE + _MULTIPLE * usual(current)


def _end(pid: int) -> None:
    """End the child, and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for _ in range(100):
        children = [
            int(child)
            for file in Path("/proc/self/task").glob("*/children")
            for child in file.read_text(encoding="ascii").split()
        ]
        if not children:
            return
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _clear() -> None:
    """Remove what the tests of a killed child left in the folders that tests/conftest.py gives them."""
    for variable in ("TMPDIR", "PYTEST_DEBUG_TEMPROOT"):
        folder = os.environ.get(variable, "")
        # Nobody else's folder is ever cleared.
        if "verl-dump-tests-" in folder:
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
