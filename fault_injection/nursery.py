"""Processes that end as part of their trial, forked from one that has loaded the subject already.

The nursery is a process of a worker that runs no trial itself: it imports the subject once, however long that takes,
and forks a child for each trial. A child ends as any program does: what was raised is raised, `atexit` runs.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from fault_injection.child import enter
from fault_injection.forks import reaper, watch_process
from fault_injection.subject import load_subject
from fault_injection.tell import Ending
from fault_injection.watch import HANGS
from fault_injection.wire import send

if TYPE_CHECKING:
    from fault_injection.runner import Order

PATIENCE = HANGS + 0.5
"""Seconds that all threads of a child may sleep in a row before it is said to hang."""


class Nursery:
    """One nursery, started with the first trial; one trial at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, order: Order, root: str) -> Ending:
        """Run one trial in a child of its own.

        Args:
            order: what to run.
            root: the directory of the trial.

        Raises:
            RuntimeError: the nursery itself failed.
        """
        process = self._running()
        try:
            send(process.stdin, (order, root))  # type: ignore[arg-type]
            ending: Ending = pickle.load(process.stdout)  # type: ignore[arg-type]  # noqa: S301 - from our own process
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.close()
            raise RuntimeError("the nursery of child processes died; its last words are on stderr") from None
        if ending.error:
            raise RuntimeError(f"the nursery of child processes broke:\n{ending.error}")
        return ending

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fault_injection.nursery"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process


NURSERY = Nursery()
"""The nursery of this process."""


def main() -> None:
    """Serve orders from standard input until it ends; in a child, run the trial and come to the end of the program."""
    mine, orders, answers = os.getpid(), os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    with os.fdopen(orders, "rb", closefd=False) as stream:
        while True:
            try:
                order, root = pickle.load(stream)  # noqa: S301 - written by this package's own runner
            except EOFError:
                return
            try:
                load_subject(order.spec)
                ending = _bear(order, root, (orders, answers))
            except Exception:
                if os.getpid() != mine:
                    # A child ends of what its training raised, as any program does.
                    raise
                # Told to the worker, which raises it.
                ending = Ending(0, b"", "", traceback.format_exc())
            if ending is None:
                return
            with os.fdopen(answers, "wb", closefd=False) as out:
                send(out, ending)


def _bear(order: Order, root: str, ours: tuple[int, ...]) -> Ending | None:
    """Fork a child and watch it; None in the child, once its trial is over."""
    read, write = os.pipe()
    errors = os.memfd_create("stderr") if hasattr(os, "memfd_create") else _unnamed()
    with warnings.catch_warnings():
        # Libraries of the subject may have threads; the child has none of them and needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        for descriptor in (read, *ours):
            os.close(descriptor)
        os.dup2(errors, 2)
        signal.set_wakeup_fd(-1)
        enter(write, order, root)
        return None
    os.close(write)
    code, told = watch_process(pid, PATIENCE, reaper(pid), read)
    os.close(read)
    with os.fdopen(errors, "rb") as file:
        file.seek(0)
        return Ending(code, told, file.read().decode(errors="replace"))


def _unnamed() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


if __name__ == "__main__":
    main()
