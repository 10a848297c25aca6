"""The course of one fit(): the way out is taken in its place, once, with the dumps pending that it wants."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import types

import pytest

from fault_injection.course import Course, TrainingError, as_batch
from fault_injection.history import Ended, HandedOver, Mark
from fault_injection.plan import Plan
from fault_injection.targets.errors import TargetError
from fault_injection.targets.fit import FitTarget
from fault_injection.trial import Trial
from fault_injection.ways import PENDING, WAYS

WAY = {way.name: way for way in WAYS}


class Still(FitTarget):
    """A trainer that does nothing."""


@pytest.fixture
def trial(tmp_path):
    made = Trial(Still, str(tmp_path), dict)
    yield made
    made.close()


def course_of(trial: Trial, way: str, pending: str = "one", **options: bool) -> Course:
    return Course(trial, 0, WAY[way], pending, **options)


def hand_over(course: Course, count: int = 1) -> None:
    for _ in range(count):
        batch = course.rollout(course.start + course.handed_over + 1)
        course.dumping(batch, course.rollout_dir, lambda: None)


@pytest.mark.parametrize("pending", PENDING)
@pytest.mark.parametrize("phase", ["step", "validation", "logging", "checkpoint"])
def test_the_way_out_is_taken_in_its_phase_after_its_dumps(trial, phase, pending):
    """An exception comes in the phase of its way, when as many dumps as it wants are handed over, and once."""
    course = course_of(trial, f"{phase}-raises", pending)
    for count in range(PENDING[pending]):
        for each in ("step", "validation", "logging", "checkpoint"):
            course.reach(each)
        hand_over(course)
        assert course.handed_over == count + 1
    for other in {"step", "validation", "logging", "checkpoint"} - {phase}:
        course.reach(other)
    with pytest.raises(TrainingError):
        course.reach(phase)
    assert course.left
    course.reach(phase)
    marks = [event for event in trial.events if isinstance(event, Mark)]
    assert marks == [Mark("way out", "TrainingError")]


@pytest.mark.parametrize(
    ("way", "error"), [("keyboard-interrupt", KeyboardInterrupt), ("system-exit", SystemExit)]
)
def test_an_interrupt_is_the_real_one(trial, way, error):
    """An interrupt and an exit are raised as Python raises them."""
    course = course_of(trial, way)
    hand_over(course)
    with pytest.raises(error):
        course.reach("step")


def test_a_cancellation_is_the_event_loops(trial):
    """The task is cancelled by asyncio, and learns of it where it waits next."""
    course = course_of(trial, "cancelled")
    reached = []

    async def train():
        hand_over(course)
        course.reach("step")
        reached.append("after")
        await asyncio.sleep(0)
        reached.append("never")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(train())
    assert reached == ["after"]


@pytest.mark.parametrize("way", [way for way in WAYS if way.place != "ray"], ids=lambda way: way.name)
@pytest.mark.parametrize("pending", PENDING)
def test_a_course_ends_where_its_way_out_does(trial, way, pending):
    """There are enough steps and items to come to the way out, and as many dumps due as are to be pending."""
    course = Course(trial, 0, way, pending)
    steps = course.items if course.steps is None else min(course.steps, course.items)
    if way.phase:
        assert steps > PENDING[pending]
    validates = course.validation_dir is not None
    assert validates is (way.name in {"val-only", "zero-steps", "undrained"})
    assert course.val_before_train is validates
    if validates:
        assert len(course.validation()) == PENDING[pending]
    else:
        assert steps >= PENDING[pending]
    assert course.due == PENDING[pending] * (2 if way.name == "second-fit" else 1)
    assert (course.steps is None) is (way.name in {"exhausted", "zero-steps"})
    assert (course.test_freq, course.save_freq) == (way.phase == "validation", way.phase == "checkpoint")


def test_every_batch_is_another(trial):
    """No two dumps of a trial hold the same rows, so that one cannot stand in for another."""
    course = course_of(trial, "val-only", "several")
    batches = [*course.validation(), *course.validation(), course.rollout(7), course.rollout(8)]
    assert len({tuple(batch.inputs) for batch in batches}) == len(batches)


def test_the_second_fit_goes_on(trial):
    """For a second fit() there are as many steps again."""
    course = course_of(trial, "second-fit", "several")
    course.grow()
    assert course.steps == 2 * PENDING["several"]
    endless = course_of(trial, "exhausted")
    endless.grow()
    assert endless.steps is None


class Surface:
    """An object with verl's dump method."""

    def __init__(self, error=None):
        self.global_steps, self.error, self.calls = 5, error, []

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        self.calls.append((inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path))
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("by_name", [True, False], ids=["by-name", "by-position"])
def test_record_writes_a_dump_down_and_lets_it_through(trial, by_name):
    """A recorded dump reaches the trainer as it was called, and the history with its step, place and rows."""
    course = course_of(trial, "last-step")
    surface = Surface()
    course.record(surface)
    path = os.path.join(trial.root, "dump")
    given = {
        "inputs": ["i"],
        "outputs": ["o"],
        "gts": ["g"],
        "scores": [1.0],
        "reward_extra_infos_dict": {"acc": [True], "of another length": [1, 2]},
        "dump_path": path,
    }
    surface._dump_generations(**given) if by_name else surface._dump_generations(*given.values())
    assert surface.calls == [tuple(given.values())]
    assert course.handed_over == 1
    (handed,) = [event for event in trial.events if isinstance(event, HandedOver)]
    assert (handed.step, handed.directory) == (5, "dump")
    assert len(handed.rows) == 1
    assert '"acc": true' in handed.rows[0]
    assert "another" not in handed.rows[0]


def test_record_raises_what_the_dump_raised(trial):
    """What a recorded dump raises is written down and comes out as the same object."""
    course = course_of(trial, "last-step")
    error = OSError(28, "full")
    surface = Surface(error)
    course.record(surface)
    with pytest.raises(OSError, match="full") as caught:
        surface._dump_generations([], [], None, [], None, os.path.join(trial.root, "dump"))
    assert caught.value is error
    (ended,) = [event for event in trial.events if isinstance(event, Ended)]
    assert ended.failure is not None


def test_record_takes_any_keywords(trial):
    """A dump method with `**kwargs` is recorded like one that names its arguments."""
    course = course_of(trial, "last-step")
    seen = []

    class Loose:
        global_steps = 3

        def _dump_generations(self, **kwargs):
            seen.append(sorted(kwargs))

    loose = Loose()
    course.record(loose)
    loose._dump_generations(
        inputs=["i"], outputs=["o"], scores=[1], dump_path=os.path.join(trial.root, "dump")
    )
    assert seen == [["dump_path", "inputs", "outputs", "scores"]]
    assert course.handed_over == 1


def test_arguments_become_a_batch():
    """Without ground truths each row has none, and what is no column of the batch's length is left out."""
    batch = as_batch(4, {"inputs": ("a", "b"), "outputs": ["c", "d"], "scores": [1, 2], "gts": None})
    assert (batch.step, batch.inputs, batch.gts, batch.extras) == (4, ["a", "b"], [None, None], {})


@pytest.mark.parametrize("failed", [True, False], ids=["failed", "returned"])
def test_a_way_out_that_was_never_taken_is_refused(trial, failed):
    """A fit() that returned without coming to its way out has tested nothing, and one line says what to do."""
    course = course_of(trial, "checkpoint-raises", "several")
    with contextlib.ExitStack() as stack:
        if not failed:
            caught = stack.enter_context(pytest.raises(TargetError))
        course.see_left(failed=failed)
    if not failed:
        message = str(caught.value)
        assert "\n" not in message
        assert "course.reach('checkpoint')" in message
        assert "name the way in absent" in message
        assert "after 3 dumps" in message


def test_a_way_out_that_was_taken_is_fine(trial):
    """A fit() that took its way out, or needs none but its own end, is not refused."""
    course = course_of(trial, "step-raises")
    hand_over(course)
    with pytest.raises(TrainingError):
        course.reach("step")
    course.see_left(failed=False)
    course_of(trial, "last-step").see_left(failed=False)


@pytest.mark.parametrize(("pending", "holds"), [("none", False), ("one", True), ("several", True)])
def test_the_disk_is_held_while_dumps_are_to_be_pending(trial, pending, holds):
    """With dumps pending the disk is held until fit() is left; with none it is not held at all."""
    course = course_of(trial, "last-step", pending)
    passed = threading.Event()

    def write():
        trial._hold.wait()
        passed.set()

    thread = threading.Thread(target=write)
    with course.held():
        thread.start()
        if holds:
            assert trial._hold.await_arrival()
            assert not passed.is_set()
        else:
            assert passed.wait(10)
    thread.join()
    assert passed.is_set()


@pytest.mark.parametrize("strikes_at", [1, 3, None], ids=["at-once", "later", "never"])
def test_a_way_out_by_death_waits_for_the_fault(trial, monkeypatch, strikes_at):
    """A process is not ended before its fault has struck, however often the writer seems to rest, but not for ever."""
    rests = []
    trial.injector = types.SimpleNamespace(plan=Plan.parse("write#1:ENOSPC"), fired=0, operations=0)

    def settle():
        rests.append(None)
        trial.injector.fired = int(len(rests) == strikes_at)

    monkeypatch.setattr(trial, "settle", settle)
    monkeypatch.setattr("fault_injection.course._take", lambda way: None)
    course = course_of(trial, "sigkill")
    with course.held():
        assert not trial._hold.is_open
        hand_over(course)
        assert trial._hold.is_open
        course.reach("step")
    assert len(rests) == (strikes_at or 50)
    assert course.left
    trial.injector = None


def test_releasing_lets_the_disk_go_on_before_the_way_out(trial):
    """Asked to, the course opens the held disk just before training fails."""
    course = course_of(trial, "step-raises", releases=True)
    with course.held():
        hand_over(course)
        assert not trial._hold.is_open
        with pytest.raises(TrainingError):
            course.reach("step")
        assert trial._hold.is_open
