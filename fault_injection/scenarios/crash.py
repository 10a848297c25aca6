"""Scenarios in which the process is killed at every operation; a second run follows over the same directory."""

from __future__ import annotations

from dataclasses import replace

from fault_injection.batches import make_batch
from fault_injection.fault import Fault
from fault_injection.scenario import Family, Menu, Scenario, at_every
from fault_injection.scenarios.writing import FIRST, WIDE, lay_older
from fault_injection.trial import Trial


def killed(trial: Trial, seed: int) -> None:
    """Three dumps and a drain, which the plan's kill ends at some operation."""
    trial.open()
    for number in range(3):
        trial.dump(make_batch(seed, number, FIRST + number, wide=WIDE * (number == 1)))
    trial.drain()


def killed_between_drains(trial: Trial, seed: int) -> None:
    """A dump and a drain, three times over: what was drained must outlive a kill in what follows."""
    for number in range(3):
        trial.open()
        trial.dump(make_batch(seed, number, FIRST + number, wide=WIDE * (number == 1)))
        trial.drain()


def killed_same_step(trial: Trial, seed: int) -> None:
    """One step is dumped three times, drained in between: each time its file must stay whole."""
    for number in range(3):
        trial.open()
        trial.dump(make_batch(seed, number, FIRST, wide=WIDE * (number == 1)))
        trial.drain()


def killed_in_two_folders(trial: Trial, seed: int) -> None:
    """Rollouts and validations go to two directories, step by step."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, 2 * number, FIRST + number))
        trial.dump(make_batch(seed, 2 * number + 1, FIRST + number, wide=WIDE), "validation")
    trial.drain()


def killed_while_waiting(trial: Trial, seed: int) -> None:
    """Six dumps wait at a held disk before the first of them is written."""
    trial.open()
    with trial.held():
        for number in range(6):
            trial.dump(make_batch(seed, number, FIRST + number, wide=WIDE * (number % 2)))
    trial.drain()


def killed_after_restart(trial: Trial, seed: int) -> None:
    """A fresh writer in the same process dumps the step again that the writer before it has drained."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number))
    trial.drain()
    trial.new_run()
    for number in range(2, 4):
        trial.dump(make_batch(seed, number, FIRST + number - 1))
    trial.drain()


def after_kill(trial: Trial, seed: int) -> None:
    """The next run over the directory that the killed one left: it dumps one step again and one new one."""
    for number in range(10, 12):
        trial.dump(make_batch(seed, number, FIRST + number - 9))
    trial.drain()


_LAWS = frozenset({"D1", "D2", "D3", "D6"})
_EVERYWHERE = Menu((), (Family("any", Fault("kill")), *at_every("torn")))
_KILLED = Scenario("killed", _LAWS, killed, _EVERYWHERE, after=after_kill, place="fork")

SCENARIOS = (
    _KILLED,
    replace(_KILLED, name="killed-between-drains", run=killed_between_drains),
    replace(_KILLED, name="killed-same-step", run=killed_same_step),
    replace(_KILLED, name="killed-in-two-folders", run=killed_in_two_folders),
    replace(_KILLED, name="killed-over-older", prepare=lay_older),
    replace(_KILLED, name="killed-while-waiting", run=killed_while_waiting),
    replace(_KILLED, name="killed-after-restart", run=killed_after_restart),
    # Of the process before it remain whole files, a torn one and whatever it had open.
    replace(_KILLED, name="killed-over-leftovers", prior="write#2:torn"),
    # The same deaths, dealt out by the kernel at the system calls themselves.
    replace(_KILLED, name="killed-by-the-kernel", mechanism="kernel"),
)
