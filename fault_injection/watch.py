"""Watches the thread that calls the target: does it wait for the held disk, or for nothing at all?

The watchdog looks at what the operating system says of every thread of the process. Only when all of them sleep does
time count, so a slow or busy machine makes no call look stuck.
"""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Callable

from fault_injection.mechanisms import originals

_PATIENCE = 1 if sys.platform == "linux" else 10
"""Elsewhere the system does not say who sleeps, so that only a long wait can be told from a slow machine."""
GRACE = 0.05
"""Seconds that a call may take before the watchdog looks at all."""
WAITS = 0.25 * _PATIENCE
"""Seconds of sleep, with the disk held, after which a call is said to wait for the disk."""
HANGS = 1.2 * _PATIENCE
"""Seconds of sleep, with nothing held, after which a call is said to hang."""
SLEEPS = 12.0
"""The same while a thread is in a timed sleep, which ends by itself (a writer that backs off and tries again)."""
SPINS = 15.0
"""Seconds after which a call that does no operation is said to hang, though some thread is busy.

All of these are counted in ticks, of which a busy machine gives fewer, to the watchdog as to the watched.
"""
ENDLESS = 10_000
"""Operations after which one call is said to hang: it tries again for ever."""
_TICK = 0.01


def asleep(thread: threading.Thread) -> bool | None:
    """Whether a thread sleeps, or None where the system does not say."""
    try:
        with originals.open(f"/proc/self/task/{thread.native_id}/stat", "rb", buffering=0) as file:
            stat = bytes(file.read(512))
    except FileNotFoundError:
        # The thread is gone, or has not started: it does not keep anybody awake.
        return True if sys.platform == "linux" else None
    except OSError:
        return None
    return stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] == b"S"


_FUTEX = {"x86_64": b"202", "aarch64": b"98"}.get(platform.machine(), b"")
"""The number of the system call in which a Python thread waits for a lock, an event or a queue."""


def _naps(thread: threading.Thread) -> bool:
    """Whether a thread's sleep ends by itself: a nanosleep, or a wait with a timeout."""
    try:
        with originals.open(f"/proc/self/task/{thread.native_id}/wchan", "rb", buffering=0) as file:
            if b"nanosleep" in file.read(64):
                return True
        with originals.open(f"/proc/self/task/{thread.native_id}/syscall", "rb", buffering=0) as file:
            words = file.read(256).split()
    except OSError:
        return False
    # The fourth argument of a futex wait is where its timeout is, or null for a wait without one.
    return len(words) > 4 and words[0] == _FUTEX and int(words[4], 16) != 0


class Watchdog:
    """Calls back when the watched call waits for the held disk, or hangs.

    Args:
        progress: a number that grows with every operation.
        held: whether some operation waits at a gate now.
        waits: called (from the watchdog's thread) when the call cannot go on because the disk is held; must open it.
        hangs: called when the call will never end.
    """

    def __init__(
        self,
        progress: Callable[[], int],
        held: Callable[[], bool],
        waits: Callable[[], None],
        hangs: Callable[[], None],
    ) -> None:
        self._progress, self._held, self._waits, self._hangs = progress, held, waits, hangs
        self._stop = threading.Event()
        self._calls = 0
        self._active: set[int] = set()
        self.thread = threading.Thread(target=self._run, name="fault_injection-watchdog", daemon=True)
        self.thread.start()

    def begin(self) -> None:
        """The calling thread begins a call."""
        self._calls += 1
        self._active.add(threading.get_ident())

    def end(self) -> None:
        """The calling thread's call has ended."""
        self._active.discard(threading.get_ident())

    def stop(self) -> None:
        """End the watchdog's thread."""
        self._stop.set()
        self.thread.join()

    def _run(self) -> None:
        while not self._stop.wait(GRACE):
            if self._active:
                self._watch(self._calls)

    def _watch(self, call: int) -> None:
        slept = busy = 0.0
        first = last = self._progress()
        naps = False
        while self._active and self._calls == call and not self._stop.wait(_TICK):
            now = self._progress()
            busy = 0.0 if now != last else busy + _TICK
            if now - first > ENDLESS or busy > SPINS:
                self._hangs()
                return
            if now != last or not self._all_asleep():
                slept, last, naps = 0.0, now, False
                continue
            slept += _TICK
            # Kept for the whole sleep: at the moment that a thread wakes it is seen in no wait at all.
            naps = naps or (slept >= HANGS / 2 and any(map(_naps, self._others())))
            if self._held():
                if slept >= WAITS:
                    self._waits()
                    slept = 0.0
            elif slept >= (SLEEPS if naps else HANGS):
                self._hangs()
                return

    def _others(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread is not self.thread]

    def _all_asleep(self) -> bool:
        return all(asleep(thread) is not False for thread in self._others())
