"""Scenarios in which the process is killed in the middle; a second run follows over the same directory."""

from __future__ import annotations

from fault_injection.batches import make_batch
from fault_injection.scenario import Menu, Scenario, at_every
from fault_injection.scenarios.writing import FIRST, WIDE, lay_older
from fault_injection.trial import Trial


def killed(trial: Trial, seed: int) -> None:
    """Two dumps and a drain, which the plan's kill ends at some operation."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number, wide=WIDE * (number == 1)))
    trial.drain()


def after_kill(trial: Trial, seed: int) -> None:
    """The next run over the directory that the killed one left: it dumps one step again and one new one."""
    for number in range(2, 4):
        trial.dump(make_batch(seed, number, FIRST + number - 1))
    trial.drain()


SCENARIOS = (
    Scenario(
        "killed",
        frozenset({"D2", "D3", "D6"}),
        killed,
        Menu((), (*at_every("kill"), *at_every("torn"))),
        after=after_kill,
        place="fork",
    ),
    Scenario(
        "killed-over-older",
        frozenset({"D2", "D3", "D6"}),
        killed,
        Menu((), (*at_every("kill", ops=("write", "close", "rename")), *at_every("torn"))),
        prepare=lay_older,
        after=after_kill,
        place="fork",
    ),
)
