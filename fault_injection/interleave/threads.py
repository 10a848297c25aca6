"""What stands for the methods of `threading.Thread`: a thread that a run's thread starts is one of the run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fault_injection.interleave.primitives import here
from fault_injection.interleave.real import REAL
from fault_injection.interleave.scheduler import AbandonedError, Scheduler, Task

_KEY = "_fault_injection_task"
PLACE = "threads"
BESIDE = "beside-"
"""What the names of the scenario's own threads begin with."""


class _Started:
    """Says that a thread has begun; real for every thread, since the start is one step of the run."""

    def __init__(self) -> None:
        self._lock = REAL["lock"]()
        self._lock.acquire()
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._lock.release()

    def wait(self, _: float | None = None) -> bool:
        with self._lock:
            pass
        # Whoever asks again finds it open.
        return self._set


def task_of(thread: threading.Thread) -> Task | None:
    """The task of a thread that belongs to a run."""
    return thread.__dict__.get(_KEY)


def start(thread: threading.Thread) -> None:
    """Start a thread, as one of the run where the calling thread is one."""
    at = here()
    if at is None or task_of(thread) is not None or not hasattr(thread, "_started"):
        REAL["start"](thread)
        return
    scheduler, caller = at
    task = Task(len(scheduler.tasks), thread.name)
    before = thread._started, thread.__dict__.get("run")  # type: ignore[attr-defined]
    thread._started = _Started()  # type: ignore[attr-defined]
    thread.run = _running(scheduler, task, thread.run)  # type: ignore[method-assign]
    try:
        REAL["start"](thread)
    except BaseException:
        thread._started = before[0]  # type: ignore[attr-defined]
        del thread.run
        raise
    thread.__dict__[_KEY] = task
    scheduler.started(task, caller)
    scheduler.did(caller, PLACE)
    scheduler.reach(caller, "going on after a thread was started")


def _running(scheduler: Scheduler, task: Task, run: Callable[[], Any]) -> Callable[[], None]:
    def body() -> None:
        try:
            scheduler.enter(task)
            # The scenario's own threads trace what the calls on the target do.
            sys.settrace(None if task.name.startswith(BESIDE) else scheduler.trace)
            try:
                run()
            finally:
                sys.settrace(None)
        except AbandonedError:
            pass
        finally:
            scheduler.leave(task)

    return body


def join(thread: threading.Thread, timeout: float | None = None) -> None:
    """Wait for a thread."""
    at, task = here(), task_of(thread)
    if at is None or task is None or task is at[1]:
        REAL["join"](thread, timeout)
        return
    if at[0].reach(at[1], f"{task.name} is joined", lambda: task.done, timeout):
        REAL["join"](thread)
        at[0].hear(at[1], task)
    at[0].did(at[1], PLACE)


def is_alive(thread: threading.Thread) -> bool:
    """Whether a thread has begun and not ended."""
    at, task = here(), task_of(thread)
    if at is None or task is None:
        return bool(REAL["is_alive"](thread))
    at[0].reach(at[1], f"{task.name} is looked at")
    at[0].did(at[1], PLACE)
    if task.done:
        at[0].hear(at[1], task)
    return not task.done


def quietly(_: Any) -> None:
    """What stands for `threading.excepthook`: how a worker died is in the history."""
    with suppress(AttributeError):
        del _
