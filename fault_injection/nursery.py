"""Processes that end as part of their trial, forked from one that has loaded the subject already.

The nursery is a fork of its worker, made before the worker's first trial: the subject is imported once for both, however
long that takes. It runs no trial itself, but forks a child for each. A child ends as any program does: what was raised is
raised, `atexit` runs.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from fault_injection.child import enter
from fault_injection.forks import fork, reaper, watch_process
from fault_injection.subject import ready_subject
from fault_injection.tell import Ending
from fault_injection.watch import HANGS
from fault_injection.wire import send

if TYPE_CHECKING:
    from fault_injection.runner import Order

PATIENCE = HANGS + 0.5
"""Seconds that all threads of a child may sleep in a row before it is said to hang."""


class ChildEndsError(BaseException):
    """Takes a child, once its trial is over, out of everything that the worker was at when it was forked."""


class Nursery:
    """One nursery; one trial at a time."""

    def __init__(self) -> None:
        self._pid = 0
        self._orders: IO[bytes] | None = None
        self._answers: IO[bytes] | None = None

    def start(self, inherited: tuple[IO[bytes], ...] = ()) -> None:
        """Fork the nursery, if there is none; in a child of it, this does not return but raises.

        Args:
            inherited: streams of this process that its children must not hold open.

        Raises:
            BaseException: in a child, what the training raised.
            ChildEndsError: in a child, when its trial is over.
        """
        if self._pid:
            return
        orders, my_orders = os.pipe()
        my_answers, answers = os.pipe()
        pid = fork()
        if pid == 0:
            os.close(my_orders)
            os.close(my_answers)
            _forget(inherited)
            _serve(orders, answers)
        os.close(orders)
        os.close(answers)
        self._pid = pid
        self._orders, self._answers = os.fdopen(my_orders, "wb"), os.fdopen(my_answers, "rb")

    def run(self, order: Order, root: str) -> Ending:
        """Run one trial in a child of its own.

        Args:
            order: what to run.
            root: the directory of the trial.

        Raises:
            RuntimeError: the nursery was not started, or itself failed.
        """
        if self._orders is None or self._answers is None:
            raise RuntimeError("the nursery was not started")
        try:
            send(self._orders, (order, root))
            ending: Ending = pickle.load(self._answers)  # noqa: S301 - from our own process
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.close()
            raise RuntimeError("the nursery of child processes died; its last words are on stderr") from None
        if ending.error:
            raise RuntimeError(f"the nursery of child processes broke:\n{ending.error}")
        return ending

    def close(self) -> None:
        """End the process."""
        for stream in (self._orders, self._answers):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        if self._pid:
            os.waitpid(self._pid, 0)
        self._pid, self._orders, self._answers = 0, None, None


NURSERY = Nursery()
"""The nursery of this process."""


def _forget(streams: tuple[IO[bytes], ...]) -> None:
    """Let go of what streams have open; they are closed by those who opened them, as far up as that may be."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(null, stream.fileno())
    os.close(null)


def _serve(orders: int, answers: int) -> None:
    """Serve orders until there are no more, and end; in a child, raise what ends it."""
    with os.fdopen(orders, "rb") as stream:
        while True:
            try:
                order, root = pickle.load(stream)  # noqa: S301 - written by this package's own runner
            except EOFError:
                os._exit(0)
            ending = _bear(order, root, (orders, answers))
            with os.fdopen(answers, "wb", closefd=False) as out:
                send(out, ending)


def _bear(order: Order, root: str, ours: tuple[int, ...]) -> Ending:
    """Fork a child and watch it; in the child, raise when its trial is over."""
    try:
        # Another one than the worker had when it was forked is imported here, for all children to come.
        ready_subject(order.spec)
        read, write = os.pipe()
        errors = os.memfd_create("stderr") if hasattr(os, "memfd_create") else _unnamed()
        pid = fork()
    except Exception:  # noqa: BLE001 - told to the worker, which raises it
        return Ending(0, b"", "", traceback.format_exc())
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in ours:
            os.dup2(null, descriptor)
        for descriptor in (null, read):
            os.close(descriptor)
        os.dup2(errors, 2)
        signal.set_wakeup_fd(-1)
        # What a dying thread says belongs to the trial.
        sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
        enter(write, order, root)
        raise ChildEndsError
    os.close(write)
    code, told = watch_process(pid, PATIENCE, reaper(pid), read)
    os.close(read)
    with os.fdopen(errors, "rb") as file:
        file.seek(0)
        return Ending(code, told, file.read().decode(errors="replace"))


def _unnamed() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
