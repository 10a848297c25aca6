"""The watchdog tells a wait that ends by itself from one that does not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

from fault_injection.watch import HANGS, Watchdog


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a thread waits in")
@pytest.mark.parametrize(
    ("wait", "hangs"),
    [
        pytest.param(lambda event: event.wait(HANGS * 2), False, id="event-with-timeout"),
        pytest.param(lambda event: event.wait(), True, id="event-for-ever"),
    ],
)
def test_a_wait_with_a_timeout_is_no_hang(wait: Callable[[threading.Event], object], hangs: bool) -> None:
    """A writer that waits before it tries again is not taken for one that hangs."""
    event, noticed = threading.Event(), threading.Event()

    def hung() -> None:
        noticed.set()
        event.set()

    watchdog = Watchdog(lambda: 0, lambda: False, lambda: None, hung)
    watchdog.begin()
    wait(event)
    watchdog.end()
    watchdog.stop()
    assert noticed.is_set() is hangs
