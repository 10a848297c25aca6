"""What a child tells arrives whole, whenever it ends."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from fault_injection import kernel_watch
from fault_injection.forks import fork
from fault_injection.history import Mark, Operated
from fault_injection.kernel_watch import Watch
from fault_injection.op import Op
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


@pytest.mark.parametrize(("step", "hung"), [(40.0, False), (70.0, True)], ids=["steadily", "with-silences"])
def test_only_silence_counts(
    step: float, hung: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that goes on telling is waited for, however long it takes; one that is silent too long is killed."""
    read, write = os.pipe()
    asked, allow = os.pipe()
    child = fork()
    if child == 0:
        for number in range(5):
            os.write(write, pickle.dumps(Mark("event", str(number))))
            os.read(asked, 1)
        os._exit(0)
    os.close(write)
    watch = Watch(child, read, str(tmp_path), Plan())
    pump = watch._pump

    def pump_and_allow() -> None:
        told = len(watch.events)
        pump()
        if len(watch.events) > told:
            os.write(allow, b"x")

    # As much time has gone as there were events.
    clock = SimpleNamespace(monotonic=lambda: step * len(watch.events))
    monkeypatch.setattr(kernel_watch, "time", clock)

    monkeypatch.setattr(watch, "_pump", pump_and_allow)
    code = watch.until_the_end(None)
    monkeypatch.undo()
    for descriptor in (read, asked, allow):
        os.close(descriptor)
    assert watch.hung is hung
    assert code == (-signal.SIGKILL if hung else 0)


def test_a_child_that_asks_for_ever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child whose own watchdog gets no turn cannot go on for ever."""
    monkeypatch.setattr(kernel_watch, "MOST_ASKED", 2)
    read, write = os.pipe()
    child = fork()
    if child == 0:
        os.write(write, pickle.dumps(Mark("event")))
        while True:
            signal.pause()
    os.close(write)
    watch = Watch(child, read, str(tmp_path), Plan())
    watch.asked += [Operated(number, Op("write", "a"), "", 0, 0) for number in range(3)]
    assert watch.until_the_end(None) == -signal.SIGKILL
    assert watch.hung
    os.close(read)
