"""The crew: what a worker is asked for, and how long the others are waited for when a run has ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fault_injection.crew import SPARED, Crew, _Shift
from fault_injection.scenario import Unit
from fault_injection.subject import DEFAULT, Spec
from fault_injection.wire import Depth, Job, Reply


class Worker:
    """Keeps what it is asked for, and whether it was given up."""

    def __init__(self) -> None:
        self.asked: list[Job] = []
        self.killed = False

    def ask(self, job: Job) -> Reply:
        """Answer nothing."""
        self.asked.append(job)
        return Reply()

    def kill(self) -> None:
        """Be given up."""
        self.killed = True


class Thread:
    """A thread that ends when it is waited for, or does not."""

    def __init__(self, *, ends: bool) -> None:
        self._ends, self.waited = ends, -1.0

    def join(self, timeout: float) -> None:
        """Note how long it is waited for."""
        self.waited = timeout

    def is_alive(self) -> bool:
        """Whether it has ended in time."""
        return not (self._ends and self.waited > 0)


def test_a_worker_is_told_all_that_a_unit_needs() -> None:
    """A job names the subject, the seed, the directory, the unit, its laws and the depth."""
    worker, unit, depth = Worker(), Unit("three-dumps"), Depth(examples=3)
    crew = Crew(Spec(DEFAULT), 7, depth, 1)
    result = crew._unit(worker, unit, frozenset({"D1", "E8", "X9"}), "/scratch")  # type: ignore[arg-type]
    assert worker.asked == [Job(Spec(DEFAULT), 7, "/scratch", unit, frozenset({"D1", "E8"}), depth)]
    assert result.unit == unit


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "goes-on"])
def test_a_run_that_is_ended_early_spares_the_others_a_moment(ends: bool) -> None:
    """What is at work when a run ends may come to its end for a moment, and is given up only if it does not."""
    shift = _Shift((Unit("three-dumps"),), None, lambda _: True)
    other: Any = Thread(ends=ends)
    worker, mine = Worker(), Worker()
    shift.busy = {other: worker, threading.current_thread(): mine}  # type: ignore[dict-item]
    shift.hurry()
    assert other.waited == -1
    shift.add(0, None)  # type: ignore[arg-type]
    shift.hurry()
    assert 0 < other.waited <= SPARED
    assert worker.killed is not ends
    assert not mine.killed
