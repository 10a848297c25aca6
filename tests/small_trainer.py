"""A small trainer that shares nothing with the reference one, and the adapter that has its `fit()` checked.

`Trainer` stands for any training loop with a writer of its own; `SmallTrainer` is the adapter as its author would write it.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fault_injection import Course, FitTarget


@dataclass
class Samples:
    """What a model has generated: n prompts, answers and rewards."""

    prompts: list[str]
    answers: list[str]
    rewards: list[float]


class SampleLog:
    """Writes samples to `{folder}/{step}.jsonl` in a thread; as a context manager it waits for all of them.

    Args:
        exit_seconds: for how long a stuck disk may hold the end of the process, or of a failed training.
    """

    def __init__(self, exit_seconds: float = 30.0) -> None:
        self.exit_seconds = exit_seconds
        self._errors: list[Exception] = []
        self._jobs: queue.Queue[tuple[str, int, str] | None] = queue.Queue(maxsize=8)
        self._unwritten: list[int] = []
        self._mine: set[str] = set()
        self._thread: threading.Thread | None = None
        atexit.register(self._at_exit)

    def put(self, folder: str, step: int, samples: Samples) -> None:
        """Hand over one step's samples, and raise what has failed before."""
        columns = (samples.prompts, samples.answers, samples.rewards)
        names = ("input", "output", "score", "step")
        rows = (dict(zip(names, (*row, step))) for row in zip(*columns))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="samples", daemon=True)
            self._thread.start()
        self._unwritten.append(step)
        self._jobs.put((folder, step, text))
        self._raise()

    def close(self, seconds: float | None = None) -> None:
        """Wait until everything is on disk, at most so many seconds, and raise what has failed."""
        with self._jobs.all_tasks_done:
            done = self._jobs.all_tasks_done.wait_for(lambda: not self._jobs.unfinished_tasks, seconds)
        if not done:
            late = ", ".join(map(str, self._unwritten))
            self._errors.append(TimeoutError(f"samples of steps {late} are not on disk after {seconds} s"))
        elif self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        self._raise()

    def __enter__(self):
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(self.exit_seconds)
        except Exception as failure:
            # The training's own error is what propagates. The interpreter is silent about a SystemExit.
            error.__notes__ = [*getattr(error, "__notes__", ()), str(failure)]
            if isinstance(error, SystemExit):
                print(failure, file=sys.stderr)

    def _raise(self) -> None:
        # One by one: the thread may add another at any time.
        errors = [self._errors.pop(0) for _ in range(len(self._errors))]
        if errors:
            raise RuntimeError("; ".join(map(str, errors))) from errors[0]

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            folder, step, text = job
            try:
                self._write(f"{folder}/{step}.jsonl", text)
            except BaseException as error:
                self._errors.append(RuntimeError(f"samples of step {step} were lost to {error!r}"))
            self._unwritten.remove(step)
            self._jobs.task_done()
        self._jobs.task_done()

    def _write(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if path in self._mine:
            with open(path) as file:
                text = file.read() + text
        try:
            with open(f"{path}.part", "w") as file:
                file.write(text)
            os.replace(f"{path}.part", path)
        except BaseException:
            with suppress(OSError):
                os.unlink(f"{path}.part")
            raise
        self._mine.add(path)

    def _at_exit(self) -> None:
        try:
            self.close(self.exit_seconds)
        except Exception as error:
            print(error, file=sys.stderr)


class Trainer:
    """Trains for so many steps, or until the data ends, and logs what the model generates.

    Args:
        folder: where the samples of each step go.
        steps: the steps to train for; None: all of the data.
        eval_folder: where the samples of evaluations go; None: none are made.
        eval_only: end after the first evaluation.
        eval_every: evaluate every so many steps.
    """

    def __init__(
        self,
        folder: str,
        steps: int | None,
        eval_folder: str | None = None,
        *,
        eval_only: bool = False,
        eval_every: int = 0,
    ) -> None:
        self.folder, self.steps, self.eval_folder = folder, steps, eval_folder
        self.eval_only, self.eval_every = eval_only, eval_every
        self.step = self.trained = 0
        self.log = SampleLog()

    def train(self) -> None:
        """Train, with every sample on disk or its loss raised at the end, whatever ends it."""
        with ends_on_sigterm(), self.log:
            if self.eval_folder:
                self.evaluate()
                if self.eval_only:
                    return
            for prompts in self.data():
                if self.steps is not None and self.trained >= self.steps:
                    return
                self.step += 1
                self.trained += 1
                samples = self.learn(prompts)
                self.save()
                if self.eval_every and self.step % self.eval_every == 0:
                    self.evaluate()
                self.report(samples)

    def data(self) -> Iterator[list[str]]:
        """The prompts of each step."""
        return itertools.repeat(["what is 2 + 2?"])

    def learn(self, prompts: list[str]) -> Samples:
        """Generate, and take one optimizer step."""
        return Samples(prompts, ["4"] * len(prompts), [1.0] * len(prompts))

    def held_out(self) -> list[Samples]:
        """Generate for the evaluation set."""
        return [Samples(["what is 3 + 3?"], ["6"], [1.0])]

    def evaluate(self) -> None:
        """Evaluate, and log the samples."""
        for samples in self.held_out():
            if self.eval_folder:
                self.keep(self.eval_folder, samples)

    def report(self, samples: Samples) -> None:
        """Log one step's samples."""
        self.keep(self.folder, samples)

    def keep(self, folder: str, samples: Samples) -> None:
        """Hand samples of this step to the log."""
        self.log.put(folder, self.step, samples)

    def save(self) -> None:
        """Save a checkpoint."""


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`, so that `with` blocks are left in order."""

    def leave(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(143)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# What follows is all that the checks need of it.


class Driven(Trainer):
    """The trainer with its compute left out: what it trains on and generates comes from the course."""

    def data(self):
        return iter([[]] * self.course.items)

    def learn(self, prompts):
        self.course.reach("step")
        return self.course.rollout(self.step)

    def held_out(self):
        self.course.reach("validation")
        return self.course.validation()

    def save(self):
        self.course.reach("checkpoint")

    def report(self, batch):
        self.course.reach("logging")
        super().report(batch)

    def keep(self, folder, batch):
        samples = Samples(batch.inputs, batch.outputs, batch.scores)
        self.course.dumping(batch, folder, lambda: Trainer.keep(self, folder, samples))


class SmallTrainer(FitTarget):
    """What `verl-dump check tests/small_trainer.py:SmallTrainer` runs."""

    validates_several = True

    def prepare(self, course: Course) -> None:
        self.trainer = Driven(course.rollout_dir, course.steps, course.validation_dir)
        self.trainer.course, self.trainer.step = course, course.start
        self.trainer.eval_only, self.trainer.eval_every = course.val_only, course.test_freq
        self.trainer.log.exit_seconds = self.exit_deadline or 30.0

    def resume(self, course: Course) -> None:
        self.trainer.steps = course.steps

    def fit(self) -> None:
        self.trainer.train()

    def validate(self) -> None:
        self.trainer.evaluate()
