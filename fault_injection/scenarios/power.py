"""Scenarios whose crash states are built: what a power loss leaves, at any moment, of a run that claims to be durable."""

from __future__ import annotations

from fault_injection.batches import make_batch
from fault_injection.fault import Fault
from fault_injection.plan import Plan
from fault_injection.scenario import Family, Menu, Scenario
from fault_injection.scenarios.crash import after_kill
from fault_injection.scenarios.writing import FIRST, WIDE, dump_and_settle, lay_older, same_step
from fault_injection.trial import Trial


def drained_and_more(trial: Trial, seed: int) -> None:
    """Two dumps into a new directory and a drain; then the next run dumps a third step and drains."""
    trial.open()
    for number in range(2):
        # The first is torn at each of its bytes, over more than a page; the second at blocks and rows.
        wide = number == 1
        batch = make_batch(seed, number, FIRST + number, rows=3 if wide else 22, wide=WIDE * wide)
        dump_and_settle(trial, batch)
    trial.drain()
    trial.mark("next run")
    trial.open()
    dump_and_settle(trial, make_batch(seed, 3, FIRST + 3, rows=2))
    trial.drain()


def over_older(trial: Trial, seed: int) -> None:
    """Two dumps over complete files of an earlier run, and a drain."""
    trial.open()
    for number in range(2):
        dump_and_settle(trial, make_batch(seed, number, FIRST + number, rows=2))
    trial.drain()


_LAWS = frozenset({"D2", "D3", "D7"})
_DURABLE = frozenset({"durable"})
_SYNCS = (
    Family("fsync", Fault("lost")),
    Family("fsync", Fault("EIO")),
    Family("fsyncdir", Fault("EIO")),
    Family("rename", Fault("EIO")),
)

SCENARIOS = (
    Scenario(
        "power-loss",
        _LAWS,
        drained_and_more,
        Menu((Plan(),), _SYNCS),
        after=after_kill,
        needs=_DURABLE,
        place="power",
    ),
    Scenario(
        "power-loss-over-older",
        _LAWS,
        over_older,
        Menu((Plan(),), _SYNCS),
        prepare=lay_older,
        after=after_kill,
        needs=_DURABLE,
        place="power",
    ),
    Scenario(
        "power-loss-same-step",
        _LAWS,
        same_step,
        Menu((Plan(),)),
        after=after_kill,
        needs=_DURABLE,
        place="power",
    ),
    Scenario(
        "power-loss-through-strace",
        _LAWS,
        drained_and_more,
        after=after_kill,
        needs=_DURABLE,
        place="power",
        mechanism="kernel",
    ),
    Scenario(
        "power-loss-over-older-through-strace",
        _LAWS,
        over_older,
        prepare=lay_older,
        after=after_kill,
        needs=_DURABLE,
        place="power",
        mechanism="kernel",
    ),
)
