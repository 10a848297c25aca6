"""Scenarios of group Q: the disk is held while batches come."""

from __future__ import annotations

import sys
import threading

from fault_injection.batches import make_batch
from fault_injection.history import Waited
from fault_injection.plan import Plan
from fault_injection.scenario import Menu, Scenario, at_every
from fault_injection.scenarios.writing import FIRST
from fault_injection.targets.base import Batch
from fault_injection.trial import Trial

MOST_DUMPS = 1024
"""How many dumps may wait behind a stalled disk."""
MOST_BYTES = 512 << 20
"""How many bytes may wait behind a stalled disk."""
_LARGE = 16 << 20
_ASYNCHRONOUS = frozenset({"asynchronous"})
_DEADLINE = frozenset({"asynchronous", "deadline"})


def stalled(trial: Trial, seed: int) -> None:
    """Two dumps while an operation is stuck; the disk goes on only when both calls have returned."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number))
        # The writer is as far as it gets: whatever it holds while it writes, it holds now.
        trial.settle()
    trial.release()
    trial.drain()


def stalled_before(trial: Trial, seed: int) -> None:
    """Two dumps while nothing gets through to the disk at all."""
    trial.open()
    with trial.held():
        for number in range(2):
            trial.dump(make_batch(seed, number, FIRST + number))
            trial.settle()
    trial.drain()


def many_wait(trial: Trial, seed: int) -> None:
    """Small dumps without end while the disk is held, until one waits or is refused."""
    trial.open()
    with trial.held():
        for number in range(MOST_DUMPS + 1):
            failure = trial.dump(make_batch(seed, number, FIRST + number, rows=1))
            if failure is not None or _waited(trial):
                break
        else:
            trial.mark("unbounded", f"{MOST_DUMPS + 1:,} dumps")
    trial.drain()


def much_waits(trial: Trial, _: int) -> None:
    """Large dumps without end while the disk is held; afterwards every open fails, so that nothing large is written."""
    trial.open()
    waiting = 0
    with trial.held():
        for number in range(1000):
            # A string of its own for each dump, as a trainer makes it: sharing one would cost the queue nothing.
            text = f"{number}" + "y" * _LARGE
            failure = trial.dump(Batch(FIRST + number, ["p"], [text], ["t"], [1.0]))
            if failure is not None or _waited(trial):
                break
            waiting += len(text)
            if waiting > MOST_BYTES:
                trial.mark("unbounded", f"{waiting >> 20:,} MiB in {number + 1} dumps")
                break
    trial.drain()


def _waited(trial: Trial) -> bool:
    return any(isinstance(event, Waited) for event in trial.events)


def deadline(trial: Trial, seed: int) -> None:
    """Drain with a deadline while a write is stuck; then the disk goes on and drain is called again."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number))
    trial.settle()
    trial.observe_now()
    trial.drain(0.05, threads=False)
    trial.release()
    trial.drain()


def after_drain(trial: Trial, seed: int) -> None:
    """A dump, a drain, and another dump without starting the writer anew."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number))
        trial.settle()
        trial.drain()


def from_threads(trial: Trial, seed: int) -> None:
    """Four threads dump the same steps at the same time, each into a directory of its own."""
    rounds, width = 8, 4
    trial.open()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for step in range(rounds):
            together = threading.Barrier(width)

            def dump(thread: int, step: int = step, together: threading.Barrier = together) -> None:
                batch = make_batch(seed, step * width + thread, FIRST + step, rows=2)
                together.wait()
                trial.dump(batch, f"dump-{'abcd'[thread]}")

            threads = [threading.Thread(target=dump, args=(i,), name=f"dumping-{i}") for i in range(width)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    trial.drain()


SCENARIOS = (
    Scenario(
        "stalled-at", frozenset({"Q1", "D1", "D2"}), stalled, Menu((), at_every("stuck")), needs=_ASYNCHRONOUS
    ),
    Scenario("stalled-before", frozenset({"Q1", "D1", "D2", "Q4"}), stalled_before, needs=_ASYNCHRONOUS),
    Scenario("many-wait", frozenset({"Q2", "Q4"}), many_wait, needs=_ASYNCHRONOUS),
    Scenario(
        "much-waits",
        frozenset({"Q2"}),
        much_waits,
        Menu((Plan.parse("open#1+:ENOSPC"),)),
        needs=_ASYNCHRONOUS,
    ),
    Scenario(
        "drain-deadline", frozenset({"Q3", "D2"}), deadline, Menu((), at_every("stuck")), needs=_DEADLINE
    ),
    Scenario("after-drain", frozenset({"Q5", "D2"}), after_drain, needs=_ASYNCHRONOUS),
    Scenario("from-threads", frozenset({"Q6"}), from_threads, needs=_ASYNCHRONOUS),
)
