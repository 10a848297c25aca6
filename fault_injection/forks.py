"""Watches other processes of a trial: they end by themselves, or they sleep for ever and are killed."""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fault_injection.watch import HANGS

if TYPE_CHECKING:
    from fault_injection.trial import Trial

_TICK = 0.01
_LONGEST = 60.0
"""Seconds after which a process is killed even if it is busy; no trial takes a tenth of that.

They are counted in ticks, of which a busy machine gives fewer, to the watcher as to the watched.
"""


def fork() -> int:
    """Fork this process, though it may have threads; returns 0 in the child, which has none of them."""
    with warnings.catch_warnings():
        # Python 3.12 warns of it. The threads are those that a target has left, or its libraries': the child needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def watch_process(
    pid: int, patience: float, reap: Callable[[], int | None], read: int = -1
) -> tuple[int | None, bytes]:
    """Wait for a process while reading what it writes into a pipe.

    Args:
        pid: the process.
        patience: seconds that all of its threads may sleep in a row.
        reap: returns the exit code (minus the signal) once the process has ended, else None.
        read: the reading end of a pipe, or -1.

    Returns:
        The exit code, or None where the process slept for ever and was killed; and all that came through the pipe.
    """
    chunks: list[bytes] = []
    slept = lived = 0.0
    while True:
        _pump(read, chunks)
        code = reap()
        if code is not None:
            _pump(read, chunks)
            return code, b"".join(chunks)
        slept = slept + _TICK if _sleeps(pid) else 0.0
        lived += _TICK
        if slept > patience or lived > _LONGEST:
            os.kill(pid, signal.SIGKILL)
            while reap() is None:
                time.sleep(_TICK)
            _pump(read, chunks)
            return None, b"".join(chunks)
        if read < 0:
            time.sleep(_TICK)


def reaper(pid: int) -> Callable[[], int | None]:
    """A function that collects a forked child's exit code without waiting."""

    def reap() -> int | None:
        done, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None

    return reap


def watch_child(trial: Trial, pid: int, before: dict[str, bytes]) -> None:
    """Wait for a fork of the trial's process, while the disk is held for the parent, and mark what the child did.

    Args:
        trial: the parent's trial; its dumps so far are those that the child must not touch.
        pid: the child.
        before: the files below the root at the fork.
    """
    from fault_injection.history import HandedOver
    from fault_injection.judge.facts import mentions

    code, _ = watch_process(pid, HANGS, reaper(pid))
    if code is None:
        trial.mark("child hung", "every thread of it slept for ever")
    steps = [event.step for event in trial.events if isinstance(event, HandedOver)]
    for name, content in trial.look().items():
        if before.get(name) != content and any(mentions(name, step) for step in steps):
            trial.mark("child wrote", name)


def _pump(read: int, chunks: list[bytes]) -> None:
    while read >= 0 and select.select([read], [], [], 0 if chunks and not chunks[-1] else _TICK)[0]:
        chunk = os.read(read, 1 << 16)
        if not chunk:
            chunks.append(b"")
            time.sleep(_TICK)
            return
        chunks.append(chunk)


def _sleeps(pid: int) -> bool:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        stats = [(task / "stat").read_bytes() for task in tasks]
    except OSError:
        return False
    return bool(stats) and all(stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] == b"S" for stat in stats)
