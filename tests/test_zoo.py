"""The harness is right in both directions: every broken writer is caught by its law, no correct one is accused."""

from __future__ import annotations

import os

import pytest

from fault_injection.crew import Crew, UnitResult
from fault_injection.engine import check, claimed_laws, units_for
from fault_injection.laws import LAWS
from fault_injection.subject import Spec, load_subject
from tests.zoo import BROKEN, CORRECT, UNUSUAL

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(300)]
FULL = os.environ.get("VERL_DUMP_FULL") == "1"


def _spec(cls: type) -> Spec:
    return Spec(f"{cls.__module__}:{cls.__name__}")


@pytest.mark.parametrize("cls", CORRECT, ids=lambda cls: cls.__name__)
def test_correct_writer_is_not_accused(cls: type) -> None:
    """A correct writer, however it is built, violates no law, and none that it claims goes unjudged."""
    spec = _spec(cls)
    # They encode plain JSON values only, as simply as can be: groups S and C are about more.
    laws = frozenset(law for law in LAWS if law[0] in "DEQ")
    verdicts, trials, _ = check(spec, load_subject(spec), laws=laws, quick=not FULL)
    accused = {v.law: v.violations for v in verdicts if v.status == "violated"}
    assert accused == {}
    assert [v.law for v in verdicts if v.status == "skipped"] == []
    assert trials > 500


@pytest.mark.parametrize("cls", UNUSUAL, ids=lambda cls: cls.__name__)
def test_unusual_writer_is_not_accused(cls: type) -> None:
    """A correct writer that does one thing in an unusual way violates none of the laws which that could touch."""
    spec = _spec(cls)
    laws = frozenset({"D1", "D3", "D6"})
    verdicts, _, _ = check(spec, load_subject(spec), laws=laws, quick=True)
    assert {v.law: (v.status, v.violations) for v in verdicts} == dict.fromkeys(laws, ("holds", ()))


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_broken_writer_is_caught_by_its_law(cls: type) -> None:
    """A writer that is broken in one way is caught by the law that names that way."""
    law = cls.broken_law
    spec = _spec(cls)
    subject = load_subject(spec)
    laws = frozenset({law})
    assert laws <= claimed_laws(subject), f"{cls.__name__} does not claim {law}"

    def caught(result: UnitResult) -> bool:
        return any(violation.law == law for each in result.results for violation in each.violations)

    results = Crew(spec, 0).run(units_for(subject, laws, quick=True), laws, caught)
    assert any(map(caught, results)), f"{law} did not fire: {cls.because}"
