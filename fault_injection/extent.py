"""Which part of the contract a run has: all of it, few errnos and cells, or a few trials of everything."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from itertools import groupby

from fault_injection.fault import ERRNO_FAULTS
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.ways import cell_of, is_few


class Extent(Enum):
    """How much of the contract is run; every law is visited in each."""

    WHOLE = "whole"
    FEW = "few"
    """The errnos of `ERRNOS`, few cells of the exit matrix, one preemption."""
    LEAST = "least"
    """Of that a few trials for each scenario, which the seed chooses, and no preemption."""

    @property
    def preemptions(self) -> int:
        """How often a thread is preempted, at most."""
        return {Extent.WHOLE: 2, Extent.FEW: 1, Extent.LEAST: 0}[self]


ERRNOS = frozenset({"ENOSPC", "EACCES", "EIO", "EINTR"})
"""The errnos of a run with few; few writers tell the others apart."""

_TRIALS = 2
"""Trials of one family in the least run."""

_ALIKE = 3
"""Scenarios of one kind (kills, power losses, schedules) in the least run."""

_DEAR = frozenset({"much-waits"} | {name for name, each in SCENARIOS.items() if each.mechanism == "memory"})
"""Scenarios that take a second or more before their first trial, and whose laws others visit as well."""


def chosen(units: Iterable[Unit], extent: Extent, seed: int) -> tuple[Unit, ...]:
    """Those of some units that a run has, in the same order.

    Args:
        units: all of them, those of one scenario side by side.
        extent: how much is run.
        seed: of the run; it chooses where not everything is run.
    """
    if extent is Extent.WHOLE:
        return tuple(units)
    few = [unit for unit in units if _is_few(unit)]
    if extent is Extent.FEW:
        return tuple(few)
    # It only chooses, and chooses the same on every machine.
    draw = random.Random(seed)  # noqa: S311
    kept = _scenarios([*dict.fromkeys(unit.scenario for unit in few)], draw)
    least: list[Unit] = []
    for _, group in groupby((unit for unit in few if unit.scenario in kept), _group):
        least += _least(tuple(group), draw)
    return tuple(least)


def _is_few(unit: Unit) -> bool:
    if unit.family is not None:
        return unit.family.fault.name not in ERRNO_FAULTS or unit.family.fault.name in ERRNOS
    cell = cell_of(unit.scenario, unit.plan or "")
    return cell is None or is_few(cell)


def _scenarios(names: list[str], draw: random.Random) -> set[str]:
    """All but the dear ones, unless there are no others, and few of those that are of one kind."""
    kept = [name for name in names if name not in _DEAR] or names
    for place in ("fork", "power", "switch"):
        alike = [name for name in kept if SCENARIOS[name].place == place]
        spared = draw.sample(alike, max(0, len(alike) - _ALIKE))
        kept = [name for name in kept if name not in spared]
    return set(kept)


def _group(unit: Unit) -> str:
    """The scenario, or of the exit matrix the way out."""
    cell = cell_of(unit.scenario, unit.plan or "")
    return unit.scenario if cell is None else cell.way.name


def _is_healthy(unit: Unit) -> bool:
    cell = cell_of(unit.scenario, unit.plan or "")
    return unit.plan == "none" if cell is None else cell.write == "healthy"


def _least(units: tuple[Unit, ...], draw: random.Random) -> list[Unit]:
    """Of one scenario a run without faults, a plan, and the first trials of a fault at writes and of another one."""
    scenario = SCENARIOS[units[0].scenario]
    plans = [unit for unit in units if unit.family is None]
    healthy = [unit for unit in plans if _is_healthy(unit)]
    struck = [unit for unit in plans if unit not in healthy]
    kept = set(healthy[:1]) | {draw.choice(some) for some in (struck,) if some}
    families = [unit for unit in units if unit.family is not None]
    if scenario.mechanism == "kernel":
        # A short write is thousands of calls, each of which the kernel asks us about.
        families = [unit for unit in families if unit.family and unit.family.fault.kind.errno]
    at_writes = [unit for unit in families if unit.family and unit.family.op == "write"]
    kept |= {replace(draw.choice(some), most=_TRIALS) for some in (at_writes, families) if some}
    order = {unit: position for position, unit in enumerate(units)}
    return sorted(kept, key=lambda unit: order[replace(unit, most=0)])
