"""What a report says of the schedules that were run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fault_injection.sweep import Schedules

if TYPE_CHECKING:
    from fault_injection.crew import UnitResult


@dataclass(frozen=True)
class Interleaved:
    """The schedules of one scenario under one plan.

    Args:
        scenario: its name.
        plan: what failed.
        schedules: how many were run.
    """

    scenario: str
    plan: str
    schedules: Schedules


def interleaved(results: Iterable[UnitResult]) -> tuple[Interleaved, ...]:
    """The schedules among the results of a run."""
    return tuple(
        Interleaved(each.unit.scenario, each.unit.plan or "none", result.schedules)
        for each in results
        for result in each.results
        if result.schedules is not None
    )


def as_text(found: tuple[Interleaved, ...]) -> list[str]:
    """The lines of a report: how many schedules there were, with how many preemptions, and what was left out."""
    known = [each for each in found if not each.schedules.unknown]
    lines = []
    if known:
        levels = max(len(each.schedules.runs) for each in known)
        by_level = [
            sum(each.schedules.runs[i : i + 1][0] for each in known if len(each.schedules.runs) > i)
            for i in range(levels)
        ]
        counts = ", ".join(f"{n:,} with {i} preemption{'s' * (i != 1)}" for i, n in enumerate(by_level))
        lines.append(
            f"interleavings: {sum(by_level):,} schedules of {len(known)} scenarios and plans ({counts})"
        )
        if cut := [each for each in known if each.schedules.left_out]:
            missing = sum(each.schedules.left_out for each in cut)
            names = ", ".join(dict.fromkeys(each.scenario for each in cut))
            lines.append(f"       {missing:,} more with {levels - 1} left out, beyond the cap, in {names}")
    lines += [f"       {each.scenario}: {each.schedules.unknown}" for each in found if each.schedules.unknown]
    return list(dict.fromkeys(lines))


def as_values(found: tuple[Interleaved, ...]) -> list[dict[str, Any]]:
    """The same as JSON values, an object for each scenario and plan."""
    return [
        {
            "scenario": each.scenario,
            "plan": each.plan,
            "schedules": list(each.schedules.runs),
            "left_out": each.schedules.left_out,
            "watched": list(each.schedules.watched),
            **({"unknown": each.schedules.unknown} if each.schedules.unknown else {}),
        }
        for each in found
    ]
