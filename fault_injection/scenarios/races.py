"""Scenarios whose threads are scheduled: worker against caller, and callers against each other, in every order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from fault_injection.batches import make_batch
from fault_injection.plan import Plan
from fault_injection.scenario import Menu, Scenario
from fault_injection.scenarios.writing import FIRST
from fault_injection.trial import Trial

if TYPE_CHECKING:
    from fault_injection.interleave.trial import SwitchedTrial

_DEADLINE = 0.05
_HOURS = 7_200.0
"""Seconds between two dumps of a training whose steps are long; a worker may have given up waiting by then."""


def _scheduled(trial: Trial) -> SwitchedTrial:
    """The trial as what it is in these scenarios: one whose threads are scheduled."""
    return cast("SwitchedTrial", trial)


def _dump(
    trial: Trial, seed: int, number: int, *, step: int | None = None, folder: str | None = None
) -> None:
    batch = make_batch(seed, number, FIRST + number if step is None else step, rows=1)
    trial.dump(batch, folder)


def two_dumps(trial: Trial, seed: int) -> None:
    """Two dumps and a drain."""
    trial.open()
    for number in range(2):
        _dump(trial, seed, number)
    trial.drain()


def hours_apart(trial: Trial, seed: int) -> None:
    """Two dumps with a long time between them, by the clock of the run; then a drain."""
    trial.open()
    _dump(trial, seed, 0)
    time.sleep(_HOURS)
    _dump(trial, seed, 1)
    trial.drain()


def dump_beside_drain(trial: Trial, seed: int) -> None:
    """Two dumps in one thread, a drain in another; then a drain."""
    trial.open()

    def dumps() -> None:
        for number in range(2):
            _dump(trial, seed, number)

    _scheduled(trial).together(dumps, _scheduled(trial).drain_beside)
    trial.drain()


def after_drain(trial: Trial, seed: int) -> None:
    """A dump and a drain; then a dump in one thread, a drain in another; then a drain."""
    trial.open()
    _dump(trial, seed, 0)
    trial.drain(threads=False)
    _scheduled(trial).together(lambda: _dump(trial, seed, 1), _scheduled(trial).drain_beside)
    trial.drain()


def two_drains(trial: Trial, seed: int) -> None:
    """Two dumps, two drains at the same time, and another."""
    trial.open()
    for number in range(2):
        _dump(trial, seed, number)
    _scheduled(trial).together(_scheduled(trial).drain_beside, _scheduled(trial).drain_beside)
    trial.drain()


def two_callers(trial: Trial, seed: int) -> None:
    """Two threads dump the same step, each into a directory of its own; then a drain."""
    trial.open()
    _scheduled(trial).together(
        lambda: _dump(trial, seed, 0, step=FIRST, folder="dump-a"),
        lambda: _dump(trial, seed, 1, step=FIRST, folder="dump-b"),
    )
    trial.drain()


def deadline(trial: Trial, seed: int) -> None:
    """Two dumps and a drain whose time may run out at any moment; then one without a limit."""
    trial.open()
    for number in range(2):
        _dump(trial, seed, number)
    trial.drain(_DEADLINE, threads=False)
    trial.drain()


_ASYNCHRONOUS = frozenset({"asynchronous"})
_HEALTHY = (Plan(),)
_FAILING = tuple(map(Plan.parse, ("write#1:ENOSPC", "write#2:ENOSPC", "write#1+:ENOSPC")))
_DEATHS = tuple(map(Plan.parse, ("write#1:SystemExit", "write#2:MemoryError", "thread#1:RuntimeError")))
_TOLD = frozenset({"E1", "E2", "E3", "E8"})

SCENARIOS = (
    Scenario(
        "interleaved-drain",
        frozenset({"D1", "D2", "E4", "E5", "E7", "Q4"}) | _TOLD,
        two_dumps,
        Menu((*_HEALTHY, *_FAILING)),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-hours-apart",
        frozenset({"D1", "D2", "E8"}),
        hours_apart,
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-drain-beside",
        frozenset({"D2", "Q4", "Q5"}) | _TOLD,
        dump_beside_drain,
        Menu((*_HEALTHY, *_FAILING[::2])),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-after-drain",
        frozenset({"D2", "Q4", "Q5"}) | _TOLD,
        after_drain,
        Menu((*_HEALTHY, *_FAILING[:2])),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-drains",
        frozenset({"D1", "D2", "Q4"}) | _TOLD,
        two_drains,
        Menu((*_HEALTHY, *_FAILING[::2])),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-dumps",
        frozenset({"D1", "D2", "E8", "Q6"}),
        two_callers,
        Menu((*_HEALTHY, *_FAILING[:1])),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-deadline",
        frozenset({"D2", "E8", "Q3", "Q4"}),
        deadline,
        needs=_ASYNCHRONOUS | {"deadline"},
        place="switch",
    ),
    Scenario(
        "interleaved-deadline-failing",
        frozenset({"D2"}) | _TOLD,
        deadline,
        Menu(_FAILING[::2]),
        needs=_ASYNCHRONOUS | {"deadline"},
        place="switch",
    ),
    Scenario(
        "interleaved-worker-dies",
        frozenset({"D2", "E8"}),
        two_dumps,
        Menu(_DEATHS),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
    Scenario(
        "interleaved-worker-dies-beside",
        frozenset({"D2", "E8"}),
        dump_beside_drain,
        Menu(_DEATHS),
        needs=_ASYNCHRONOUS,
        place="switch",
    ),
)
