"""Trainers of one's own: the adapter's interface, a trainer that shares nothing with the reference one, and correct ones."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import ClassVar

import pytest

from fault_injection.crew import Crew, Pool
from fault_injection.engine import check, claimed_laws, units_for
from fault_injection.subject import Spec, load_subject
from fault_injection.targets.errors import TargetError
from fault_injection.targets.fit import FitTarget, ReferenceFit
from fault_injection.ways import WAYS
from tests import small_trainer
from tests.zoo.correct_fits import CORRECT_FITS
from verl_dump import ReferenceTrainer

LOCAL = frozenset(way.law for way in WAYS if way.place != "ray")
SMALL = Spec("tests.small_trainer:SmallTrainer")


class Bare(FitTarget):
    """An adapter whose author has overridden nothing."""


class Deaf(small_trainer.SmallTrainer):
    """An adapter whose trainer does not tell the course of its checkpoints."""

    def prepare(self, course):
        super().prepare(course)
        self.trainer.save = lambda: None


class Idle(FitTarget):
    """An adapter that dumps nothing."""

    def prepare(self, course):
        pass

    def fit(self):
        pass


class Lacking(small_trainer.SmallTrainer):
    """An adapter of a trainer that has no checkpoints."""

    absent: ClassVar = {"checkpoint-raises": "it saves no checkpoints"}


class Unloadable(FitTarget):
    """An adapter whose libraries are not there."""

    @classmethod
    def load(cls) -> None:
        """Fail as an import does."""
        raise ImportError("no module named gpu")


class Mistaken(small_trainer.SmallTrainer):
    """An adapter that names a way out which there is not."""

    absent: ClassVar = {"checkpoints": "it saves none"}


class OneByOne(small_trainer.SmallTrainer):
    """An adapter of a trainer whose validation dumps once."""

    validates_several = False


class Coroutine(small_trainer.SmallTrainer):
    """An adapter of a trainer whose fit() is a coroutine."""

    coroutine = True


@pytest.fixture(scope="module")
def many() -> Iterator[Pool]:
    """Processes for all ways out of one trainer after the other: such trials wait for most of their time."""
    with Pool(4 * (os.cpu_count() or 1)) as pool:
        yield pool


def spec_of(cls: type) -> Spec:
    return Spec(f"{cls.__module__}:{cls.__name__}")


def statuses(spec: Spec, laws: frozenset[str]) -> dict[str, str]:
    return {verdict.law: verdict.status for verdict in check(spec, load_subject(spec), laws=laws).verdicts}


def test_the_adapter_is_as_short_as_promised() -> None:
    """What the author of a trainer writes is about 30 lines of code."""
    lines = "".join(inspect.getsource(cls) for cls in (small_trainer.Driven, small_trainer.SmallTrainer))
    code = [line for line in lines.splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 35


def test_the_small_trainer_shares_nothing_with_the_reference_one() -> None:
    """The example would show nothing if it were built on the writer that the laws were made with."""
    assert "verl_dump" not in inspect.getsource(small_trainer)
    assert not hasattr(small_trainer.Trainer, "_dump_generations")


@pytest.mark.parametrize("law", ["X2", "X5", "X13"])
def test_the_small_trainer_holds_a_law_of_each_kind(law: str) -> None:
    """A trainer with its own loop and writer holds laws of returns, of exceptions and of signals."""
    assert statuses(SMALL, frozenset({law})) == {law: "holds"}


@pytest.mark.zoo
@pytest.mark.timeout(300)
def test_the_small_trainer_holds_every_law_that_it_has(many: Pool) -> None:
    """A trainer with its own loop and writer holds every cell of every way out."""
    verdicts, trials, exits, _ = check(SMALL, load_subject(SMALL), laws=LOCAL, pool=many)
    assert {v.law: v.violations for v in verdicts if v.status == "violated"} == {}
    assert [(v.law, v.reason) for v in verdicts if v.status != "holds"] == [
        ("X14", "its fit() is no coroutine")
    ]
    assert trials == len(exits) == sum(len(units_for(load_subject(SMALL), frozenset({law}))) for law in LOCAL)


@pytest.mark.zoo
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cls", CORRECT_FITS, ids=lambda cls: cls.__name__)
def test_correct_trainer_is_not_accused(cls: type, many: Pool) -> None:
    """A correct trainer, however it is built, violates no law of the ways out, and none that it has goes unjudged."""
    spec = spec_of(cls)
    subject = load_subject(spec)
    verdicts, trials, exits, _ = check(spec, subject, laws=LOCAL, pool=many)
    assert {v.law: v.violations for v in verdicts if v.status == "violated"} == {}
    assert [v.law for v in verdicts if v.status == "skipped"] == []
    assert {v.law for v in verdicts if v.status == "holds"} == claimed_laws(subject) & LOCAL
    assert all(outcome.mark in {"++", "+."} for outcome in exits)
    assert trials >= 150


def test_an_adapter_of_a_fit_need_not_be_a_writer() -> None:
    """Laws of the writer are not claimed by an adapter that drives fit() only, with what to do about it."""
    subject = load_subject(SMALL)
    assert claimed_laws(subject) & {"D1", "E1", "S1"} == set()
    assert claimed_laws(subject) >= LOCAL - {"X14"}
    (verdict,) = check(SMALL, subject, laws=frozenset({"D1"})).verdicts
    assert verdict.status == "not claimed"
    assert "override open(), dump() and drain()" in verdict.reason


def test_a_way_that_is_absent_is_not_claimed() -> None:
    """A way out that the trainer does not have is not judged, and the report gives the adapter's reason."""
    subject = load_subject(spec_of(Lacking))
    assert "X8" not in claimed_laws(subject)
    assert units_for(subject, frozenset({"X8"})) == ()
    (verdict,) = check(spec_of(Lacking), subject, laws=frozenset({"X8"})).verdicts
    assert (verdict.status, verdict.reason) == ("not claimed", "it saves no checkpoints")


def test_what_cannot_be_loaded_is_refused_and_the_process_goes_on_with_the_next() -> None:
    """The refusal of one adapter says what it raised, and does not stick to the process that has met it."""
    laws = frozenset({"X2"})
    with Pool() as pool:
        with pytest.raises(TargetError, match=r"its load\(\) raised ImportError: no module named gpu$"):
            Crew(spec_of(Unloadable), 0, size=1, pool=pool).replay("exit-last-step-one", "none", laws)
        result, _ = Crew(SMALL, 0, size=1, pool=pool).replay("exit-last-step-one", "none", laws)
    assert result is not None
    assert result.violations == ()


def test_an_unknown_way_is_refused() -> None:
    """An adapter that names a way out which there is not is refused with those that there are."""
    with pytest.raises(TargetError, match=r"lacks 'checkpoints', which is no way out; .*checkpoint-raises"):
        load_subject(spec_of(Mistaken))


def test_several_pending_of_a_validation_that_dumps_once_are_not_asked_for() -> None:
    """Of a trainer whose validation dumps once no more than one dump is wanted where only validations dump."""
    laws = frozenset({"X1", "X2"})
    some = {unit.scenario for unit in units_for(load_subject(spec_of(OneByOne)), laws)}
    every = {unit.scenario for unit in units_for(load_subject(SMALL), laws)}
    assert every - some == {"exit-val-only-several"}


def test_a_coroutine_claims_its_cancellation() -> None:
    """The law of the cancelled task is that of coroutines."""
    assert "X14" in claimed_laws(load_subject(spec_of(Coroutine)))
    assert "X14" not in claimed_laws(load_subject(SMALL))


@pytest.mark.parametrize(
    ("cls", "law", "words"),
    [
        (Bare, "X2", "target Bare does not override prepare(course)"),
        (Idle, "X2", "fit() ended without a dump; call course.record(trainer) in prepare()"),
        (Deaf, "X8", "fit() ended without calling course.reach('checkpoint') after 1 dumps"),
    ],
    ids=["nothing-overridden", "no-dump", "way-out-not-taken"],
)
def test_an_adapter_that_tests_nothing_is_refused(cls: type, law: str, words: str) -> None:
    """An adapter with a piece missing is refused in one line, and never judged as holding a law."""
    with pytest.raises(TargetError) as caught:
        statuses(spec_of(cls), frozenset({law}))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["fit", "validate"])
def test_what_is_not_overridden_says_so(method: str) -> None:
    """A method that the author has forgotten names itself."""
    with pytest.raises(TargetError, match=rf"target Bare does not override {method}\(\)"):
        getattr(Bare(), method)()


def test_the_reference_trainer_is_prepared_as_the_course_says() -> None:
    """Its steps end where the course's do, after those that were done before, and its writer is opened with its options."""
    course = SimpleNamespace(
        steps=3, start=10, val_before_train=False, val_only=False, test_freq=0, save_freq=2,
        rollout_dir="dump", validation_dir=None, record=lambda trainer: None,
    )  # fmt: skip
    target = ReferenceFit(ReferenceTrainer)
    target.exit_deadline = 4.5
    target.prepare(course)
    trainer = target.instance
    assert (trainer.global_steps, trainer.config.total_training_steps) == (10, 13)
    assert (trainer.config.save_freq, trainer.config.rollout_data_dir) == (2, "dump")
    assert trainer.dump_exit_timeout == 4.5
    target.drain()
