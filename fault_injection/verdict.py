"""Verdicts: a law judged over all of its trials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fault_injection.laws import LAWS
from fault_injection.scenarios import SCENARIOS
from fault_injection.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fault_injection.crew import UnitResult
    from fault_injection.subject import Subject
    from fault_injection.targets.fit import FitTarget

SHOWN = 3
"""Violations of one law that are kept, each with another message."""


@dataclass(frozen=True)
class Found:
    """One violation, with what replays it.

    Args:
        message: one plain sentence of what happened.
        scenario: the name of the scenario.
        plan: the text of the plan.
    """

    message: str
    scenario: str
    plan: str


@dataclass(frozen=True)
class Verdict:
    """What the run says of one law.

    Args:
        law: its identifier.
        status: `holds`, `violated`, `not claimed`, or `skipped`.
        trials: how many trials it was judged by.
        violated: in how many of them it was violated.
        violations: some of the violations, the simplest first.
        reason: why it is not claimed or was skipped.
    """

    law: str
    status: str
    trials: int = 0
    violated: int = 0
    violations: tuple[Found, ...] = ()
    reason: str = ""


def verdicts_of(subject: Subject, laws: frozenset[str], results: Iterable[UnitResult]) -> tuple[Verdict, ...]:
    """The verdict of every law.

    Args:
        subject: what was tested.
        laws: the laws that were asked for.
        results: of every unit.
    """
    trials = dict.fromkeys(LAWS, 0)
    violated = dict.fromkeys(LAWS, 0)
    found: dict[str, list[Found]] = {law: [] for law in LAWS}
    for each in results:
        for result in each.results:
            for law in result.laws:
                trials[law] += result.states
            for law in {violation.law for violation in result.violations}:
                violated[law] += result.states
            for violation in result.violations:
                found[violation.law].append(Found(violation.message, each.unit.scenario, result.plan))
    return tuple(
        _verdict(subject, law, trials[law], violated[law], found[law]) for law in LAWS if law in laws
    )


def _verdict(subject: Subject, law: str, trials: int, violated: int, found: list[Found]) -> Verdict:
    if reason := why_unclaimed(subject, law):
        return Verdict(law, "not claimed", reason=reason)
    if found:
        return Verdict(law, "violated", trials, violated, _shown(found))
    if not trials:
        return Verdict(law, "skipped", reason=_unvisited(law))
    return Verdict(law, "holds", trials)


def _unvisited(law: str) -> str:
    needs = [scenario.needs for scenario in SCENARIOS.values() if law in scenario.laws]
    if needs and all("torch" in each for each in needs):
        return "no tensor was handed over; install torch and give --torch"
    if needs and all("ray" in each for each in needs):
        return "no Ray was started; install ray and give --ray"
    return "no trial of this run bears on it"


def why_unclaimed(subject: Subject, law: str) -> str:
    """Why a subject is not judged by a law, or the empty text where it is.

    Args:
        subject: what is tested.
        law: the identifier of the law.
    """
    if law in subject.disclaims:
        return "disclaimed by the target"
    needs = LAWS[law].needs
    if needs == "fit" and subject.fit is not None:
        return _lacks(subject.fit, law)
    if needs != "fit" and not subject.writes:
        return "its adapter drives fit() only; override open(), dump() and drain() as well"
    if not needs or needs in subject.features:
        return ""
    if needs == "asynchronous":
        return "the target writes within the call"
    if needs == "fit":
        return "the target has no fit() that the harness can drive"
    return f"the target does not claim {needs!r}"


def _lacks(fit: type[FitTarget], law: str) -> str:
    """Why a trainer does not have a way out."""
    for way in WAYS:
        if way.law == law:
            if way.needs == "coroutine" and not fit.coroutine:
                return "its fit() is no coroutine"
            return fit.absent.get(way.name, "")
    return ""


def _shown(found: list[Found]) -> tuple[Found, ...]:
    """The simplest first, and of those that differ in numbers and in quoted errors only, one."""
    shown: dict[str, Found] = {}
    for each in sorted(found, key=lambda f: (SCENARIOS[f.scenario].place != "here", len(f.plan))):
        kind = re.sub(r"( or )?\d+|rows?\b", "", each.message.split(": ")[0])
        shown.setdefault(kind, each)
    return tuple(list(shown.values())[:SHOWN])
