"""What happens to undrained dumps when the process ends, and in a process forked from it."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Undrained(Protocol):
    """Something that may hold dumps when the process ends or forks."""

    def at_exit(self, started: float) -> list[str]:
        """Drain what is left; return lines that say what became of it, none when there was nothing."""

    def after_fork(self) -> None:
        """Forget, in the child, what the parent is going to write."""


_watched: weakref.WeakSet[Undrained] = weakref.WeakSet()
_covered: set[int] = set()  # children of multiprocessing


def watch(dumper: Undrained) -> None:
    """Tell `dumper` when the process ends or has been forked."""
    _watched.add(dumper)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end what runs here as `sys.exit(143)` does, so that there is a way out to drain on.

    Schedulers end a job by SIGTERM and kill it a while later. Python's default is to be gone at once. A handler
    that the program has set itself is left alone, and so are threads other than the main one, which get no signals.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or (not _inside and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL):
        yield
        return
    me = object()
    try:
        _inside.add(me)
        if len(_inside) == 1:
            signal.signal(signal.SIGTERM, _end)
        yield
    finally:
        _inside.discard(me)
        # What the program has put there in the meantime is left alone too.
        if not _inside and signal.getsignal(signal.SIGTERM) in (_end, _go_on):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


_inside: set[object] = set()  # the blocks that are terminable now; coroutines leave theirs in any order


def _end(*_: object) -> NoReturn:
    # Once is enough: what follows is the drain, which has a deadline. Not SIG_IGN, which programs started now inherit.
    signal.signal(signal.SIGTERM, _go_on)
    raise SystemExit(128 + signal.SIGTERM)


def _go_on(*_: object) -> None:
    """Ignore the signal."""


def cover_child() -> None:
    """See to it that a child of `multiprocessing`, which skips `atexit`, reports at its end too."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None and os.getpid() not in _covered:
        from multiprocessing import util

        util.Finalize(None, _at_exit, exitpriority=0)
        _covered.add(os.getpid())


def _at_exit() -> None:
    # All dumpers share one start, so that several stuck ones do not add up.
    started = time.monotonic()
    lines = [line for dumper in tuple(_watched) for line in dumper.at_exit(started)]
    if lines:
        # stderr may be closed or None by now; `print` would then take stdout, which is the program's.
        with contextlib.suppress(Exception):
            sys.stderr.writelines(f"verl_dump: {line}\n" for line in lines)


def _after_fork() -> None:
    if _inside:
        # The child is none of the training: an exit would lead it through the parent's blocks.
        _inside.clear()
        if signal.getsignal(signal.SIGTERM) in (_end, _go_on):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for dumper in tuple(_watched):
        dumper.after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
