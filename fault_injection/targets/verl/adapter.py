"""What the adapters of verl's trainers have in common: the real object, its dump surface, and how it is prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from fault_injection.targets.base import Batch
from fault_injection.targets.errors import TargetError
from fault_injection.targets.fit import FitTarget
from fault_injection.targets.verl.config import configuration
from fault_injection.targets.verl.doubles import Loader, Row, Tokenizer, rows_of
from fault_injection.targets.verl.real import DUMP_SURFACE, real_class

if TYPE_CHECKING:
    from fault_injection.course import Course


class VerlTarget(FitTarget):
    """Drives an object of a trainer class of verl through its own `fit()`.

    The object is of verl's class itself, not of a subclass. What needs a GPU is replaced on the object: each name in
    `stubbed` by the adapter's method `stub` + name. Nothing else of the class is.

    Raises:
        TargetError: there is no verl, or one of another shape.
    """

    where: ClassVar[str]
    """The class of verl, as `module:Class`."""
    stubbed: ClassVar[tuple[str, ...]]
    """Every method that is replaced; all others are verl's."""
    real: ClassVar[Mapping[str, tuple[str, ...]]]
    """The methods that must run as they are besides the dump surface, with their arguments."""
    file: ClassVar[str]
    """The configuration file that verl ships for it."""
    overrides: ClassVar[tuple[str, ...]] = ()
    """What the class needs to be different in the configuration."""
    note: ClassVar[str] = ""
    """What a reader of the report has to know of this class."""

    tokenizer: Tokenizer
    """What the trainer decodes its tokens with."""

    def __init__(self) -> None:
        self.cls: Any = real_class(self.where, {**DUMP_SURFACE, **self.real}, self.stubbed)
        self._instance: Any = object.__new__(self.cls)
        self._course: Course | None = None
        self._made = False
        self.tokenizer = Tokenizer()

    @classmethod
    def load(cls) -> None:
        """Import verl and compose the configuration ahead, which takes seconds the first time in a process."""
        cls()
        configuration(cls.file, cls.overrides)

    @property
    def instance(self) -> Any:
        """The object under test."""
        return self._instance

    @property
    def course(self) -> Course:
        """What the trainer was prepared for."""
        if self._course is None:
            raise TargetError(f"{type(self).__name__} was not prepared for a course")
        return self._course

    def open(self) -> None:
        """Create the executor as verl does."""
        self._instance._init_dump_executor()

    def dump(self, directory: str, batch: Batch) -> None:
        """Set `global_steps` and call `_dump_generations`."""
        self._instance.global_steps = batch.step
        self._instance._dump_generations(
            inputs=batch.inputs,
            outputs=batch.outputs,
            gts=batch.gts,
            scores=batch.scores,
            reward_extra_infos_dict=batch.extras,
            dump_path=directory,
        )

    def drain(self, timeout: float | None = None) -> None:  # noqa: ARG002 - verl's takes none
        """Call `_shutdown_dump_executor`."""
        self._instance._shutdown_dump_executor()

    def prepare(self, course: Course) -> None:
        """Build the object as verl does, as far as a CPU can, and put the course's hooks into it.

        Args:
            course: what is to be trained, dumped and validated, and where.
        """
        self._course = course
        trainer = self._instance
        for name in self.stubbed:
            setattr(trainer, name, getattr(self, f"stub{name}"))
        if not self._made:
            self._made = True
            self.build()
        self._begin_logging()
        self.place(course.start)
        # The one that is to write it down may have been another before.
        vars(trainer).pop("_dump_generations", None)
        course.record(trainer)

    def resume(self, course: Course) -> None:
        """Make the trainer ready for a second `fit()`, as after the checkpoint of the last step that it has done.

        Args:
            course: the same, with more steps.
        """
        self._course = course
        self.place(self.done())

    def done(self) -> int:
        """The last global step that the trainer has done."""
        return int(self._instance.global_steps) - 1

    def build(self) -> None:
        """Run verl's `__init__`, and set what its workers would have made."""
        raise TargetError(f"{type(self).__name__} does not override build()")

    def place(self, start: int) -> None:
        """Set the configuration and the data for a `fit()` that goes on after a step.

        Args:
            start: the global steps that were done before.
        """
        raise TargetError(f"{type(self).__name__} does not override place() for step {start}")

    def fit(self) -> object:
        """Run verl's `fit()`."""
        return self._instance.fit()

    def validate(self) -> object:
        """Run verl's `_validate()`."""
        return self._instance._validate()

    def total(self) -> int:
        """The last global step; one that is never reached where the data is to end the training."""
        course = self.course
        return course.start + (course.items + 1 if course.steps is None else course.steps)

    def loader(self, start: int, batches: Callable[[list[Row]], Any], *, endless: bool = False) -> Loader:
        """The data loader of training: what is left of an epoch of which `start` batches were used.

        Args:
            start: the global steps that were done before.
            batches: makes what the loader gives out of the rows of one step.
            endless: go on after the items of the course.
        """
        course = self.course

        def left() -> Iterator[Any]:
            steps: Iterable[int] = count(start + 1) if endless else range(start + 1, start + 1 + course.items)
            for step in steps:
                yield batches(rows_of(course.rollout(step)))

        return Loader(start + course.items, left)

    def validation_loader(self, batches: Callable[[list[Row]], Any]) -> Loader:
        """The data loader of validation: the course's first batch, since verl dumps one validation as one.

        Args:
            batches: makes what the loader gives out of the rows of one batch.
        """
        course = self.course
        return Loader(
            1,
            lambda: (batches(rows_of(batch)) for batch in course.validation()[:1]),
            lambda: course.reach("validation"),
        )

    def _begin_logging(self) -> None:
        """Let the course know when verl's `_log_rollout_data` begins, which then runs as it is."""
        trainer, real = self._instance, self.cls._log_rollout_data

        def begin(*arguments: Any, **keywords: Any) -> Any:
            self.course.reach("logging")
            return real(trainer, *arguments, **keywords)

        trainer._log_rollout_data = begin
