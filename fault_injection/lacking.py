"""What a machine lacks for a run: such units are left out, counted, and named once with the way to get the means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fault_injection.mechanisms import kernel
from fault_injection.plan import Plan
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS


@dataclass(frozen=True)
class Lack:
    """One thing that this machine lacks.

    Args:
        line: what, why, and how to get it.
        units: how many units of the run need it.
    """

    line: str
    units: int

    def __str__(self) -> str:
        return f"{self.line}; {self.units} unit{'s' * (self.units != 1)} left out"


def sort_out(units: tuple[Unit, ...], miss: Callable[[Lack], object] | None = None) -> tuple[Unit, ...]:
    """Leave out what this machine cannot run.

    Args:
        units: of the run.
        miss: called with each thing that is lacking.

    Returns:
        Those that can be run.
    """
    reasons = {unit: _why_not(unit) for unit in units}
    counts = Counter(reason for reason in reasons.values() if reason)
    if miss is not None:
        for line, count in counts.items():
            miss(Lack(line, count))
    return tuple(unit for unit in units if not reasons[unit])


def _why_not(unit: Unit) -> str:
    scenario = SCENARIOS[unit.scenario]
    if scenario.mechanism != "kernel":
        return ""
    if scenario.place == "power":
        return kernel.missing().get("strace", "")
    return kernel.lacks(unit.family.plan(1) if unit.family is not None else Plan.parse(unit.plan or "none"))
