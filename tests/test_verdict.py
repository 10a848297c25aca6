"""Verdicts: a law holds by trials, is violated by one, and says why where it was not judged."""

from __future__ import annotations

import pytest

from fault_injection.crew import UnitResult
from fault_injection.judge import Violation
from fault_injection.laws import LAWS
from fault_injection.scenario import Unit
from fault_injection.subject import Subject
from fault_injection.sweep import TrialResult
from fault_injection.targets.base import Target
from fault_injection.targets.fit import FitTarget
from fault_injection.verdict import SHOWN, Found, Verdict, verdicts_of

UNIT = Unit("three-dumps", plan="none")


def subject(
    *,
    asynchronous: bool = True,
    fit: bool = True,
    claims: object = ("warn", "deadline"),
    disclaims: object = (),
) -> Subject:
    """A subject with these features."""
    return Subject(
        "w", Target, asynchronous, FitTarget if fit else None, frozenset(claims), frozenset(disclaims)
    )


def result(plan: str, *laws: str, broken: tuple[tuple[str, str], ...] = ()) -> UnitResult:
    """A unit with one trial."""
    return UnitResult(UNIT, (TrialResult(plan, laws, tuple(Violation(*each) for each in broken)),))


def verdict_on(law: str, *results: UnitResult, of: Subject | None = None) -> Verdict:
    """The verdict on one law."""
    (verdict,) = verdicts_of(of or subject(), frozenset({law}), results)
    return verdict


def test_a_law_holds_by_the_trials_that_bear_on_it() -> None:
    """A law without a violation holds, by as many trials as counted for it."""
    results = (result("none", "D1", "D2"), result("write#1:EIO", "D2"))
    assert verdict_on("D2", *results) == Verdict("D2", "holds", 2)
    assert verdict_on("D1", *results) == Verdict("D1", "holds", 1)


def test_one_violation_among_many_trials_violates_a_law() -> None:
    """A law that one trial breaks is violated, with the number of trials on both sides."""
    broken = result("write#1:EIO", "D2", broken=(("D2", "a"), ("D2", "b")))
    verdict = verdict_on("D2", result("none", "D2"), broken)
    assert (verdict.status, verdict.trials, verdict.violated) == ("violated", 2, 1)
    assert verdict.violations == (
        Found("a", "three-dumps", "write#1:EIO"),
        Found("b", "three-dumps", "write#1:EIO"),
    )


def test_a_law_without_a_trial_is_skipped_and_never_held() -> None:
    """Where no trial bears on a law, it is skipped with a reason."""
    verdict = verdict_on("D2")
    assert (verdict.status, verdict.trials) == ("skipped", 0)
    assert verdict.reason


@pytest.mark.parametrize(
    ("law", "of", "reason"),
    [
        pytest.param("Q1", subject(asynchronous=False), "writes within the call", id="synchronous"),
        pytest.param("E6", subject(fit=False), "no fit()", id="no-fit"),
        pytest.param("E9", subject(claims=()), "does not claim 'warn'", id="no-warn"),
        pytest.param("Q3", subject(claims=("warn",)), "does not claim 'deadline'", id="no-deadline"),
        pytest.param("D2", subject(disclaims=("D2",)), "disclaimed by the target", id="disclaimed"),
    ],
)
def test_what_is_not_claimed_is_neither_held_nor_violated(law: str, of: Subject, reason: str) -> None:
    """A law that needs what the target does not have is not claimed, whatever its trials showed."""
    verdict = verdict_on(law, result("none", law, broken=((law, "a"),)), of=of)
    assert verdict.status == "not claimed"
    assert reason in verdict.reason
    assert verdict.violations == ()


def test_few_violations_are_shown_the_simplest_plan_first() -> None:
    """Violations that differ in their numbers only are one; of the rest the simplest plans are shown."""
    results = [
        result("write#1+:ENOSPC;close#2:EIO", "D2", broken=(("D2", "step 7 is torn"),)),
        result("write#1:EIO", "D2", broken=(("D2", "step 8 is torn"),)),
        *(result(f"open#{i}:ENOSPC", "D2", broken=(("D2", f"kind {'abcdef'[i]}"),)) for i in range(6)),
    ]
    verdict = verdict_on("D2", *results)
    assert verdict.violated == 8
    assert len(verdict.violations) == SHOWN
    assert verdict.violations[0] == Found("step 8 is torn", "three-dumps", "write#1:EIO")
    assert len({found.message for found in verdict.violations}) == SHOWN


def test_verdicts_come_in_the_order_of_the_laws() -> None:
    """However the laws were asked for, the report's order is that of the contract."""
    verdicts = verdicts_of(subject(), frozenset(LAWS), ())
    assert [verdict.law for verdict in verdicts] == list(LAWS)
