"""Which trial is armed, and the guard that keeps the harness's own file operations out of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fault_injection.mechanisms.layer import Layer


class _Guard(threading.local):
    depth = 0


class _State:
    layer: Layer | None = None


ARMING = threading.Lock()
"""Held by the one trial that may be armed, whatever its mechanism."""

STATE = _State()
"""The layer of the trial that is armed in this process, if any."""

GUARD = _Guard()
"""Above zero in a thread whose operations are the harness's own."""


def current() -> Layer | None:
    """The armed layer, unless the calling thread bypasses it."""
    layer = STATE.layer
    if layer is None or GUARD.depth or not layer.active:
        return None
    return layer


@contextmanager
def bypass() -> Iterator[None]:
    """What the calling thread does inside runs the original functions and is not counted."""
    GUARD.depth += 1
    try:
        yield
    finally:
        GUARD.depth -= 1


def _forget() -> None:
    # Another thread may have held the injector's lock when this process was forked: asking it could hang the child.
    # The child goes on with the plain functions, and may arm a trial of its own.
    global ARMING  # noqa: PLW0603
    ARMING = threading.Lock()
    if STATE.layer is not None:
        STATE.layer.active = False
    STATE.layer = None
    GUARD.depth = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
