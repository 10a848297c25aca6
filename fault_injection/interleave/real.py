"""The real things that a run's stand-ins take the place of."""

from __future__ import annotations

import _thread
import concurrent.futures.thread
import queue
import threading
import time
from typing import Any

REAL: dict[str, Any] = {
    "lock": _thread.allocate_lock,
    "lock-type": type(_thread.allocate_lock()),
    "rlock": _thread.RLock,
    "condition": threading.Condition,
    "event": threading.Event,
    "simple-queue": queue.SimpleQueue,
    "sleep": time.sleep,
    "monotonic": time.monotonic,
    "start": threading.Thread.start,
    "join": threading.Thread.join,
    "is_alive": threading.Thread.is_alive,
}
"""By name; in a dict, since a module's name for any of these stands for the stand-in while a run lasts."""

FUTURES = concurrent.futures.thread
"""The module whose lock is shared by all executors of the process."""
