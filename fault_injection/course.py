"""The course of one `fit()`: what is trained, dumped and validated, and where which way out is taken."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from fault_injection.batches import make_batch
from fault_injection.targets.base import Batch
from fault_injection.targets.errors import TargetError
from fault_injection.ways import PENDING

if TYPE_CHECKING:
    from fault_injection.trial import Trial
    from fault_injection.ways import Way

ROLLOUTS, VALIDATIONS = "dump", "validation"
"""Where the dumps of training and of validation go, relative to the root of the trial."""
_START = 7_000_000
"""The steps that were done before; those of the trial lie above any process identifier."""


_TRIES = 50
"""How many times the writer may seem to rest before the fault has struck."""


class TrainingError(Exception):
    """What training fails of in these scenarios; nothing else raises it."""


class Course:
    """What one trial wants of a trainer; an adapter reads it, and calls `reach` and `record`.

    Args:
        trial: the trial.
        seed: the seed of the batches.
        way: the way out that is taken.
        pending: a key of `PENDING`.
        releases: let a held disk go on just before the way out, so that nobody has to be seen waiting for it.

    Attributes:
        start: the global steps that were done before, where the trainer can begin after some.
        steps: the steps after which the training ends, not counting `start`; None: the data ends it.
        items: the batches in the data loader, for one epoch.
        val_before_train: validate before the first step.
        val_only: return after that.
        test_freq: validate every so many steps; 0 never.
        save_freq: save a checkpoint every so many steps; 0 never.
        rollout_dir: the directory for the dumps of training, or None.
        validation_dir: the directory for the dumps of validation, or None.
    """

    def __init__(self, trial: Trial, seed: int, way: Way, pending: str, *, releases: bool = False) -> None:
        self._trial, self._seed, self._way, self._releases = trial, seed, way, releases
        self._settles = pending == "none"
        self._due = PENDING[pending]
        self._validated = 0
        self.handed_over = 0
        """Dumps that were handed over so far."""
        self.left = False
        self.reached = threading.Event()
        """Whether the way out was taken."""
        validates = way.training in {"val-only", "zero-steps", "undrained"}
        self.start = _START
        self.steps: int | None = self._due if way.phase == "" else self._due + 2
        self.items = self._due + 3
        if way.name == "exhausted":
            self.steps, self.items = None, self._due
        if way.name == "zero-steps":
            self.steps, self.items = None, 0
        if way.name == "dump-raises":
            self.steps = self._due + 2
        if way.name == "thread":
            self.steps = self._due + 1
        self.val_before_train = validates
        self.val_only = way.name == "val-only"
        self.test_freq = 1 if way.phase == "validation" else 0
        self.save_freq = 1 if way.phase == "checkpoint" else 0
        self.rollout_dir: str | None = os.path.join(trial.root, ROLLOUTS)
        self.validation_dir: str | None = os.path.join(trial.root, VALIDATIONS) if validates else None

    def rollout(self, step: int) -> Batch:
        """The generations of one step.

        Args:
            step: its global step.
        """
        return make_batch(self._seed, step, step)

    def validation(self) -> tuple[Batch, ...]:
        """The generations of one validation: several batches where several dumps are to be pending after it."""
        count = self._due if self.validation_dir else 1
        first, self._validated = self._validated, self._validated + count
        return tuple(make_batch(self._seed, 1000 + first + i, self.start) for i in range(count))

    def reach(self, phase: str) -> None:
        """Take the way out if this is its place.

        Args:
            phase: `step`, `validation`, `logging` or `checkpoint`: what begins now.

        Raises:
            TrainingError, KeyboardInterrupt, SystemExit: whatever the way out is.
        """
        if phase != self._way.phase or self.left or self.handed_over < self._due:
            return
        self.left = True
        self.reached.set()
        if self._ripens():
            self._ripen()
        if self._releases:
            self._trial.release()
        self._trial.mark("way out", self._way.raises)
        _take(self._way)

    def record(self, trainer: Any) -> None:
        """Write down every dump that the trainer makes, and what it raises, by wrapping `_dump_generations` on it.

        Args:
            trainer: an object with verl's dump surface.
        """
        original = trainer._dump_generations
        signature = inspect.signature(original)

        def dump(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs).arguments
            given = {**given, **given.pop("kwargs", {}), **given.pop("columns", {})}
            batch = as_batch(int(trainer.global_steps), given)
            self.dumping(batch, str(given["dump_path"]), lambda: original(*args, **kwargs))

        trainer._dump_generations = dump

    def dumping(self, batch: Batch, directory: str, call: Any) -> None:
        """Write down one dump, for trainers whose dump method is none of verl's.

        Args:
            batch: what is handed over.
            directory: where it is to go.
            call: the trainer's own call, without arguments; what it raises is written down and raised on.
        """
        trial = self._trial
        if self._way.name == "dump-raises" and self.handed_over:
            # The first dump's failure has happened by now, and whatever waits then is held again.
            with trial.free():
                trial.settle()
        self.handed_over += 1
        trial.dump_within(batch, call, os.path.relpath(directory, trial.root).replace(os.sep, "/"))
        if self._settles:
            trial.settle()
        elif self.handed_over >= self._due and self._ripens():
            # Not earlier: whether a call already meets the failure of what it hands over must not hang on the moment.
            trial.let_go()

    def held(self) -> Any:
        """What holds the disk while `fit()` runs, as far as the way out wants dumps to be pending."""
        return self._trial.held(hold=not self._settles)

    def see_left(self, *, failed: bool) -> None:
        """See to it that the way out was taken, unless something else ended the training.

        Args:
            failed: whether `fit()` raised.

        Raises:
            TargetError: the trainer never came to the place of the way out, so that nothing was tested.
        """
        if self._way.phase and not self.left and not failed:
            raise TargetError(
                f"fit() ended without calling course.reach({self._way.phase!r}) after {self._due} dumps, so it was "
                f"not left by way {self._way.name!r}; call it where that phase begins, or name the way in absent"
            )

    def grow(self) -> None:
        """Let the training go on for as many steps as before, for a second `fit()`."""
        if self.steps is not None:
            self.steps += self._due

    @property
    def due(self) -> int:
        """Dumps that must have been handed over when nothing fails."""
        return self._due * (2 if self._way.name == "second-fit" else 1)

    def _ripen(self) -> None:
        """Wait until the fault has struck, and a stuck write is stuck; a writer that writes later is not waited for."""
        injector = self._trial.injector
        for _ in range(_TRIES):
            # A thread that waits for the disk seems to rest.
            self._trial.settle()
            if injector is None or injector.fired:
                return

    def _ripens(self) -> bool:
        """Whether the fault is to strike before the way out, since afterwards it could not or would not be awaited."""
        rules = () if self._trial.injector is None else self._trial.injector.plan.rules
        dies = self._way.training in {"sigterm", "os-exit", "sigkill"}
        return any(dies or rule.fault.name == "stuck" for rule in rules)


def as_batch(step: int, given: dict[str, Any]) -> Batch:
    """What was handed over to a dump method with verl's arguments.

    Args:
        step: the global step.
        given: the arguments by name.
    """
    inputs = list(given["inputs"])
    extras = dict(given.get("reward_extra_infos_dict") or {})
    return Batch(
        step,
        inputs,
        list(given["outputs"]),
        list(given.get("gts") or [None] * len(inputs)),
        list(given["scores"]),
        {name: column for name, column in extras.items() if len(column) == len(inputs)},
    )


def _take(way: Way) -> None:
    if way.raises == "TrainingError":
        raise TrainingError("the loss is not finite")
    if way.raises == "KeyboardInterrupt":
        raise KeyboardInterrupt
    if way.raises == "SystemExit":
        sys.exit(3)
    if way.name == "cancelled":
        import asyncio

        task = asyncio.current_task()
        if task is not None:
            task.cancel()
    elif way.name == "thread":
        threading.main_thread().join()
    elif way.name == "ray-kill":
        # The driver does it, once it has read that this point is reached.
        threading.Event().wait()
    elif way.name == "os-exit":
        os._exit(3)
    else:
        # To the process and not to this thread: whichever thread waits for signals is to get it.
        os.kill(
            os.getpid(),
            {"sigint": signal.SIGINT, "sigterm": signal.SIGTERM, "sigkill": signal.SIGKILL}[way.name],
        )
