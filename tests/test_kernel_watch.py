"""What a child tells arrives whole, whenever it ends."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from fault_injection.forks import fork
from fault_injection.history import Mark
from fault_injection.kernel_watch import Watch
from fault_injection.plan import Plan

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the kernel mechanism needs fork")


@pytest.mark.parametrize("count", [0, 1, 400], ids=["nothing", "one", "many"])
def test_what_a_child_told_just_before_its_end_is_not_lost(count: int, tmp_path: Path) -> None:
    """Events that are read together with the end of the pipe are part of the history."""
    told = [Mark("event", str(number)) for number in range(count)]
    read, write = os.pipe()
    child = fork()
    if child == 0:
        os.write(write, b"".join(map(pickle.dumps, told)))
        os._exit(0)
    os.close(write)
    # It has ended, and is left to be collected, before anybody reads.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    watch = Watch(child, read, str(tmp_path), Plan())
    assert watch.until_the_end(None) == 0
    os.close(read)
    assert watch.events == told
