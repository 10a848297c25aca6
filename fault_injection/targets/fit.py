"""Trainers under test: what the harness needs of a `fit()`, and the driver of the reference trainer's hooks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fault_injection.targets.base import Batch, SurfaceTarget, Target
from fault_injection.targets.errors import TargetError

if TYPE_CHECKING:
    from fault_injection.course import Course


class FitTarget(Target):
    """A trainer under test; subclass it for a `fit()` whose hooks are not those of the reference trainer.

    Override `prepare` and `fit`; with `open`, `dump` and `drain` as well, the trainer is also judged as a writer.
    """

    coroutine: ClassVar[bool] = False
    """Whether `fit()` is a coroutine function."""
    validates_several: ClassVar[bool] = False
    """Whether one validation dumps each of the course's batches, not only the first."""
    absent: ClassVar[Mapping[str, str]] = {}
    """Ways out that the trainer does not have, each with the reason, such as `{"val-only": "it never validates"}`."""

    note: ClassVar[str] = ""
    """What a reader of the report has to know of how the trainer is driven."""

    @classmethod
    def load(cls) -> None:
        """Import what takes long to import; called once in each process before its first trial."""

    def prepare(self, course: Course) -> None:
        """Make the trainer ready to be run as the course says.

        Call `course.record(trainer)`, and see to it that the trainer calls `course.reach` in its phases.

        Args:
            course: what is to be trained, dumped and validated, and where.
        """
        raise TargetError(
            f"target {type(self).__name__} does not override prepare(course), so {course.steps} steps cannot be run"
        )

    def resume(self, course: Course) -> None:
        """Make the trainer ready for a second `fit()` on the same object, after `course.steps` and `course.items` grew."""

    def fit(self) -> object:
        """Run the trainer's own `fit()`; it may return the coroutine."""
        raise TargetError(f"target {type(self).__name__} does not override fit()")

    def validate(self) -> object:
        """Validate once outside of `fit()`, which dumps; it may return a coroutine."""
        raise TargetError(
            f"target {type(self).__name__} does not override validate(); do, or name the way out 'undrained' in absent"
        )


class ReferenceFit(SurfaceTarget, FitTarget):
    """Drives a class with the hooks of the reference trainer, without running its `__init__`.

    Args:
        cls: the class.
    """

    # Of a class that overrides a hook, each is asked for; the harness does not know which are coroutine functions.
    validates_several = True

    def prepare(self, course: Course) -> None:
        """Set the configuration and the data, and put the course's hooks before the trainer's own."""
        from verl_dump.trainer import TrainerConfig

        self.open()
        trainer = self.instance
        total = None if course.steps is None else course.start + course.steps
        trainer.config = TrainerConfig(
            total_training_steps=total,
            val_before_train=course.val_before_train,
            val_only=course.val_only,
            test_freq=course.test_freq,
            save_freq=course.save_freq,
            rollout_data_dir=course.rollout_dir,
            validation_data_dir=course.validation_dir,
        )
        trainer.global_steps = course.start
        trainer.train_dataloader = _Items(course, trainer)
        trainer.val_dataloader = _Validations(course)
        for hook, phase in _PHASES.items():
            _put_before(trainer, hook, course, phase)
        course.record(trainer)

    def resume(self, course: Course) -> None:
        """Set the new number of steps."""
        from dataclasses import replace

        trainer = self.instance
        total = None if course.steps is None else course.start + course.steps
        trainer.config = replace(trainer.config, total_training_steps=total)

    def fit(self) -> object:
        """Run the class's own `fit()`."""
        return self.instance.fit()

    def validate(self) -> object:
        """Run the class's own `_validate()`."""
        return self.instance._validate()


class CoroutineFit(ReferenceFit):
    """The same for a `fit()` that is a coroutine function."""

    coroutine = True


def drives_reference(cls: type) -> type[ReferenceFit]:
    """The driver of a class with the reference trainer's hooks."""
    return CoroutineFit if inspect.iscoroutinefunction(cls.fit) else ReferenceFit  # type: ignore[attr-defined]


_PHASES = {
    "step": "step",
    "_validate": "validation",
    "_log_rollout_data": "logging",
    "_save_checkpoint": "checkpoint",
}


class _Items:
    """The data loader: as many items as the course has, counted anew at each `fit()`."""

    def __init__(self, course: Course, trainer: Any) -> None:
        self._course, self._trainer = course, trainer

    def __iter__(self) -> Any:
        for _ in range(self._course.items):
            yield _as_trained(self._course.rollout(self._trainer.global_steps + 1))


class _Validations:
    """The validation set: its batches come from the course each time anew."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def __iter__(self) -> Any:
        return map(_as_trained, self._course.validation())


def _as_trained(batch: Batch) -> Any:
    from verl_dump.trainer import Batch as Trained

    return Trained(batch.inputs, batch.outputs, batch.gts, batch.scores, batch.extras)


def _put_before(trainer: Any, name: str, course: Course, phase: str) -> None:
    """Let the course know when a hook begins, in the same way (called or awaited) as the hook itself is."""
    original = getattr(trainer, name)
    if inspect.iscoroutinefunction(type(trainer).fit):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            import asyncio

            course.reach(phase)
            # Here a cancellation comes through.
            await asyncio.sleep(0)
            result = original(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        setattr(trainer, name, awaited)
        return

    def called(*args: Any, **kwargs: Any) -> Any:
        course.reach(phase)
        return original(*args, **kwargs)

    setattr(trainer, name, called)
