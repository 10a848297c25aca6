"""Hand-made histories: what a writer might have done, told event by event, for the judge to judge."""

from __future__ import annotations

import errno as errnos
import os
from typing import Any

from fault_injection.batches import expected_rows, make_batch
from fault_injection.errors import Registry
from fault_injection.history import (
    Ended,
    Event,
    Exited,
    Final,
    HandedOver,
    History,
    Logged,
    Mark,
    Older,
    Operated,
    Seen,
    Threads,
    Waited,
)
from fault_injection.judge import judge
from fault_injection.op import Op

ROOT = "/trial"
"""The directory of every trial told here; errors name paths below it."""


class DumpError(Exception):
    """A failure of a dump, as writers raise it."""


class Story:
    """A history in the making.

    Args:
        plan: the text of the plan.
    """

    def __init__(self, plan: str = "none") -> None:
        self.plan = plan
        self.events: list[Event] = []
        self.files: dict[str, bytes] = {}
        self.rows: list[tuple[str, ...]] = []
        self.names: list[str] = []
        self.operations = 0
        self._registry = Registry(ROOT)

    # The caller.

    def hand_over(self, step: int, *, rows: int = 2, directory: str = "dump") -> int:
        """A call of dump begins; returns the number of the dump."""
        number = len(self.rows)
        self.rows.append(expected_rows(make_batch(0, number, step, rows=rows))[:rows])
        self.names.append(f"{directory}/{step}.jsonl")
        self.events.append(HandedOver(number, step, directory, self.rows[number]))
        return number

    def end(self, call: str, error: BaseException | None = None, dump: int | None = None) -> None:
        """A call ends, with an error or without."""
        failure = None if error is None else self._registry.failure(error)
        self.events.append(Ended(call, dump, failure))

    def dump(
        self, step: int, error: BaseException | None = None, *, rows: int = 2, directory: str = "dump"
    ) -> int:
        """A whole call of dump."""
        number = self.hand_over(step, rows=rows, directory=directory)
        self.end("dump", error, number)
        return number

    def drain(self, error: BaseException | None = None, *, left: tuple[str, ...] = ()) -> None:
        """A drain, after which threads may be left."""
        self.end("drain", error)
        self.events.append(Threads(left))

    def mark(self, name: str, text: str = "") -> None:
        """A turn of the scenario."""
        self.events.append(Mark(name, text))

    # The writer and the disk.

    def operate(self, kind: str, path: str, target: str = "", *, fault: str = "", room: int = -1) -> int:
        """An operation; returns its number."""
        self.operations += 1
        number = getattr(errnos, "EIO" if fault == "lost" else fault, 0) if room <= 0 else 0
        self.events.append(Operated(self.operations, Op(kind, path, target), fault, number, room))
        return self.operations

    def strike(self, kind: str, path: str, target: str = "", *, fault: str = "ENOSPC") -> Any:
        """An operation that a fault makes fail; returns the error as the fault layer raises it."""
        number = self.operate(kind, path, target, fault=fault)
        if fault == "MemoryError":
            return _raised(MemoryError(), number)
        if fault == "SystemExit":
            return _raised(SystemExit(1), number)
        if fault == "RuntimeError":
            return _raised(RuntimeError("can't start new thread"), number)
        code = getattr(errnos, "EIO" if fault == "lost" else fault)
        return _raised(OSError(code, os.strerror(code)), number)

    def put(self, name: str, content: bytes | None) -> None:
        """What is under a name ending in .jsonl changes, and is seen at the next operation."""
        self.events.append(Seen(self.operations + 1, ((name, content),)))
        if content is None:
            self.files.pop(name, None)
        else:
            self.files[name] = content

    def content(self, *dumps: int) -> bytes:
        """The bytes of a file that holds these dumps."""
        return "".join(row + "\n" for dump in dumps for row in self.rows[dump]).encode()

    def write(self, *dumps: int, temp: str = "") -> None:
        """The dumps are written into one file, as they should be."""
        final = self.names[dumps[-1]]
        temp = temp or f"{os.path.dirname(final)}/.{os.path.basename(final)}.tmp"
        for kind in ("open", "write", "fsync", "close"):
            self.operate(kind, temp)
        self.operate("rename", temp, final)
        self.put(final, self.content(*dumps))

    def older(self, name: str, content: bytes) -> None:
        """An earlier run left a file."""
        self.events.append(Older(name, content))
        self.files[name] = content

    def waited(self, call: str, dump: int | None = None) -> None:
        """A call waited for the held disk."""
        self.events.append(Waited(call, dump))

    def log(self, text: str, level: str = "WARNING") -> None:
        """The writer logs a line."""
        self.events.append(Logged(level, text))

    def exit(self, code: int = 0, stderr: str = "") -> None:
        """The process ends."""
        self.events.append(Exited(code, stderr))

    # The judge.

    def history(self, events: tuple[Event, ...] = ()) -> History:
        """The history so far, some events and the files at the end."""
        final = Final(tuple(sorted(self.files.items())))
        return History("told", self.plan, "disk", 0, (*self.events, *events, final))

    def accused(self, law: str) -> tuple[str, ...]:
        """What the judge says of one law."""
        return tuple(violation.message for violation in judge(self.history(), frozenset({law})))


def failed(step: int, cause: BaseException | None = None, *, directory: str = "dump") -> DumpError:
    """The error of a dump that failed, as a correct writer makes it."""
    error = DumpError(f"dump of step {step} to {ROOT}/{directory}/{step}.jsonl failed")
    error.__cause__ = cause
    return error


def refused(step: int, cause: BaseException | None = None) -> DumpError:
    """The error of a dump that was not accepted."""
    error = DumpError(f"dump of step {step} to {ROOT}/dump/{step}.jsonl was not accepted")
    error.__cause__ = cause
    return error


def _raised(error: Any, number: int) -> Any:
    error.injected = number

    def strike() -> None:
        raise error

    def write() -> None:
        strike()

    try:
        write()
    except BaseException as caught:
        return caught
