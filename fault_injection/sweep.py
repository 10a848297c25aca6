"""Sweeps: k = 1, 2, 3, … until nothing fires; each history is judged, and a trial in which no fault struck is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fault_injection.history import History, Hung, Operated
from fault_injection.judge import Violation, judge, relevant
from fault_injection.plan import Plan
from fault_injection.scenario import Unit


@dataclass(frozen=True)
class Schedules:
    """How many schedules of the threads of one scenario were run.

    Args:
        runs: by the number of their preemptions.
        left_out: how many more were known.
        watched: the attributes whose uses were points of choice, since threads share them without a lock.
        unknown: why there are none, where a thread waits in something that cannot be scheduled.
    """

    runs: tuple[int, ...] = ()
    left_out: int = 0
    watched: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True)
class TrialResult:
    """What the judge says of one trial.

    Args:
        plan: the text of its plan.
        laws: the laws it counts for.
        violations: what was violated.
        hung: whether a call never ended.
        states: how many trials it stands for; more than one for crash states of one run, and for schedules.
        schedules: where it stands for those, how many were run.
    """

    plan: str
    laws: tuple[str, ...]
    violations: tuple[Violation, ...]
    hung: bool = False
    states: int = 1
    schedules: Schedules | None = None


class VacuousTrialError(AssertionError):
    """A plan that should have struck did not: the harness would have passed a trial that tested nothing."""


def judged(history: History, laws: frozenset[str]) -> TrialResult:
    """Judge a history by the laws it is relevant for.

    Args:
        history: what happened.
        laws: the laws of the scenario that the target claims.
    """
    chosen = relevant(history, laws)
    hung = any(True for _ in history.of(Hung))
    return TrialResult(history.plan, tuple(sorted(chosen)), judge(history, chosen), hung)


def kinds_of(history: History) -> frozenset[str]:
    """The kinds of operations in a history; `bytes` stands for writes past a total."""
    kinds = {event.op.kind for event in history.of(Operated)}
    return frozenset(kinds | {"bytes"} if "write" in kinds else kinds)


def sweep(
    unit: Unit, run: Callable[[str], History], laws: frozenset[str], kinds: frozenset[str] | None = None
) -> Iterator[tuple[int, TrialResult]]:
    """Run every trial of a unit.

    Args:
        unit: a scenario with one plan or a family of plans.
        run: runs the scenario under a plan's text.
        laws: the laws to judge by.
        kinds: the kinds of operations in a run without faults. Up to its first strike a run is that run, so a family
            of another kind can never strike and is passed over.

    Yields:
        k and the result, for every trial in which the plan struck (a plan without faults always counts).

    Raises:
        VacuousTrialError: the sweep has no end.
    """
    if unit.family is None:
        history = run(unit.plan or "none")
        if history.fired or not Plan.parse(history.plan):
            yield 1, judged(history, laws)
        return
    if kinds is not None and unit.family.op not in kinds:
        return
    for k in unit.ks:
        history = run(str(unit.family.plan(k)))
        if not history.fired:
            return
        yield k, judged(history, laws)
    see_ended(unit)


def see_ended(unit: Unit) -> None:
    """Refuse a sweep that has come to its last k and still fires, unless no more of it were asked for.

    Raises:
        VacuousTrialError: it has no end.
    """
    if not unit.most:
        raise VacuousTrialError(f"{unit} still fires at k = {unit.ks[-1]:,}; the sweep has no end")
