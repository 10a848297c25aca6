"""What stands for the locks, conditions, events and queues of a trial's threads, so that a waiting one is known to wait.

Made by a thread that is not of the run, each is the real thing. Used by such a thread, or when the run is over, a
stand-in does what it can do without waiting.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fault_injection.interleave.real import REAL
from fault_injection.interleave.scheduler import AbandonedError, Scheduler, Task

if TYPE_CHECKING:
    from typing_extensions import Self


class _Current:
    scheduler: Scheduler | None = None
    outside = 0


CURRENT = _Current()
"""The run of this process, if there is one."""


def here() -> tuple[Scheduler, Task] | None:
    """The run and the task of the calling thread; None for a thread that is not of the run."""
    scheduler = CURRENT.scheduler
    task = None if scheduler is None else scheduler.task()
    return None if scheduler is None or task is None else (scheduler, task)


def new_place() -> tuple[int, int]:
    """What names a new lock or queue, the same in every run that makes it in the same place."""
    at = here()
    if at is None:
        CURRENT.outside += 1
        return (-1, CURRENT.outside)
    at[1].made += 1
    return (at[1].number, at[1].made)


def reach(what: str, ready: Callable[[], bool] | None = None, timeout: float | None = None) -> bool:
    """Come to a point of choice; see `Scheduler.reach`."""
    at = here()
    if at is not None:
        return at[0].reach(at[1], what, ready, timeout)
    if ready is None or ready():
        return True
    if timeout is not None:
        return False
    raise AbandonedError


def did(place: object) -> None:
    """Note that something visible was done; see `Scheduler.did`."""
    at = here()
    if at is not None:
        at[0].did(at[1], place)


def tell(place: object) -> None:
    """See `Scheduler.tell`."""
    at = here()
    if at is not None:
        at[0].tell(at[1], place)


def hear(place: object) -> None:
    """See `Scheduler.hear`."""
    at = here()
    if at is not None:
        at[0].hear(at[1], place)


def is_over() -> bool:
    """Whether the run is over, so that what is left of it only has to end."""
    return CURRENT.scheduler is None or CURRENT.scheduler.over


def _me() -> object:
    at = here()
    return threading.get_ident() if at is None else at[1]


class Lock:
    """Stands for `threading.Lock`."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self.place = new_place()

    def _is_free(self) -> bool:
        return self._owner is None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        if timeout >= 0 and not blocking:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if blocking:
            reach("a lock is taken", self._is_free, timeout if timeout >= 0 else None)
        else:
            reach("a lock is tried")
        did(self.place)
        if not self._is_free():
            return False
        self._take(_me(), 1)
        return True

    def release(self) -> None:
        """Give it back."""
        self.drop()
        reach("going on without the lock")

    def locked(self) -> bool:
        """Whether somebody has it."""
        reach("a lock is looked at")
        did(self.place)
        return not self._is_free()

    def drop(self) -> int:
        """Give it back, however often it was taken, and go on at once; returns how often."""
        if self._owner is None and not is_over():
            raise RuntimeError("release unlocked lock")
        depth = self._depth
        if isinstance(self._owner, Task) and self in self._owner.held:
            self._owner.held.remove(self)
        self._owner, self._depth = None, 0
        did(self.place)
        return depth

    def retake(self, depth: int) -> None:
        """Take it again after `drop`."""
        if not is_over():
            reach("a lock is taken again", self._is_free)
            did(self.place)
        self._take(_me(), depth)

    def is_mine(self) -> bool:
        """Whether it is taken, by the calling thread where that can be told."""
        return self._owner is not None

    def _take(self, owner: object, depth: int) -> None:
        self._owner, self._depth = owner, depth
        if isinstance(owner, Task):
            owner.held.append(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._owner, self._depth = None, 0


class RLock(Lock):
    """Stands for `threading.RLock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, once more where the thread has it."""
        if self._owner is not None and self._owner == _me():
            self._depth += 1
            return True
        return super().acquire(blocking, timeout)

    def release(self) -> None:
        """Give it back once."""
        if self._owner != _me():
            if is_over():
                return
            raise RuntimeError("cannot release un-acquired lock")
        if self._depth > 1:
            self._depth -= 1
            return
        super().release()

    def is_mine(self) -> bool:
        """Whether the calling thread has it."""
        return self._owner is not None and self._owner == _me()

    _is_owned = is_mine


class _Outside:
    """Makes the real thing where the calling thread is not of a run."""

    real = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__module__ == __name__ and here() is None:
            return REAL[cls.real](*args, **kwargs)
        return object.__new__(cls)


class Condition(_Outside, threading.Condition):
    """Stands for `threading.Condition`."""

    real = "condition"

    def __new__(cls, lock: Any = None) -> Any:  # noqa: D102
        # A lock that was made before the run is the real one, and so is a condition over it.
        if lock is not None and not isinstance(lock, Lock):
            return REAL["condition"](lock)
        return super().__new__(cls, lock)

    def __init__(self, lock: Any = None) -> None:
        self._inner: Lock = RLock() if lock is None else lock
        self._tokens: deque[list[bool]] = deque()
        self.acquire = self._inner.acquire  # type: ignore[method-assign]
        self.release = self._inner.release  # type: ignore[method-assign]

    def __enter__(self) -> bool:
        return self._inner.__enter__()

    def __exit__(self, *_: object) -> None:
        self._inner.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock back and wait until notified."""
        if not self._inner.is_mine():
            raise RuntimeError("cannot wait on un-acquired lock")
        token = [False]
        self._tokens.append(token)
        depth = self._inner.drop()
        try:
            return (
                reach("going on after a wait", lambda: token[0] and self._inner._is_free(), timeout)
                or token[0]
            )
        finally:
            if token[0]:
                hear(self)
            else:
                self._tokens.remove(token)
            self._inner.retake(depth)

    def notify(self, n: int = 1) -> None:
        """Wake threads that wait."""
        if not self._inner.is_mine():
            raise RuntimeError("cannot notify on un-acquired lock")
        for _ in range(min(n, len(self._tokens))):
            self._tokens.popleft()[0] = True
        tell(self)
        did(self._inner.place)

    def notify_all(self) -> None:
        """Wake every thread that waits."""
        self.notify(len(self._tokens))

    def _at_fork_reinit(self) -> None:
        self._inner._at_fork_reinit()
        self._tokens.clear()


class Event(_Outside, threading.Event):
    """Stands for `threading.Event`."""

    real = "event"

    def __init__(self) -> None:
        self._flag = False
        self.place = new_place()

    def is_set(self) -> bool:
        """Whether it is set."""
        reach("an event is looked at")
        did(self.place)
        if self._flag:
            hear(self)
        return self._flag

    def set(self) -> None:
        """Set it."""
        reach("an event is set")
        self._flag = True
        tell(self)
        did(self.place)
        reach("going on after an event was set")

    def clear(self) -> None:
        """Take it back."""
        reach("an event is cleared")
        self._flag = False
        did(self.place)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        reach("an event is waited for", lambda: self._flag, timeout)
        did(self.place)
        if self._flag:
            hear(self)
        return self._flag

    def _at_fork_reinit(self) -> None:
        self._flag = False


class SimpleQueue:
    """Stands for `queue.SimpleQueue`."""

    def __new__(cls) -> Any:  # noqa: D102
        return object.__new__(cls) if here() is not None else REAL["simple-queue"]()

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self.place = new_place()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ARG002
        """Add an item; never waits."""
        reach("a queue is filled")
        self._items.append(item)
        tell(self)
        did(self.place)
        reach("going on after a queue was filled")

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take an item."""
        reach(
            "a queue is emptied", (lambda: bool(self._items)) if block else None, timeout if block else None
        )
        did(self.place)
        if not self._items:
            raise queue.Empty
        item = self._items.popleft()
        hear(self)
        reach("going on after a queue was emptied")
        return item

    def put_nowait(self, item: Any) -> None:
        """Add an item."""
        self.put(item)

    def get_nowait(self) -> Any:
        """Take an item if there is one."""
        return self.get(block=False)

    def empty(self) -> bool:
        """Whether there is none."""
        return not self.qsize()

    def qsize(self) -> int:
        """How many there are."""
        reach("a queue is looked at")
        did(self.place)
        return len(self._items)

    def __class_getitem__(cls, _: Any) -> type[Self]:
        return cls


def make_lock() -> Any:
    """What stands for `threading.Lock` and its other names."""
    return REAL["lock"]() if here() is None else Lock()


def make_rlock() -> Any:
    """What stands for the type behind `threading.RLock`."""
    return REAL["rlock"]() if here() is None else RLock()


def sleep(seconds: float) -> None:
    """What stands for `time.sleep`."""
    if here() is None:
        REAL["sleep"](seconds)
    else:
        reach("a sleep ends", lambda: False, seconds)
        did("clock")


def monotonic() -> float:
    """What stands for `time.monotonic`: the clock of the run."""
    at = here()
    if at is None:
        return float(REAL["monotonic"]())
    # A loop that looks at the clock until a time has passed must come to its end.
    at[0].clock += _LOOK
    return float(1_000.0 + at[0].clock)


_LOOK = 0.001
"""Seconds of the run's clock that pass with each look at it."""
