"""Trials in memory: the same scenarios over a fake file system, with the plans that it can make real."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from fault_injection.mechanisms.memory import FOLDER, ROOT, Memory
from fault_injection.plan import Plan
from fault_injection.trial import Trial, listening

if TYPE_CHECKING:
    from fault_injection.history import History
    from fault_injection.scenario import Scenario
    from fault_injection.subject import Subject


class MemoryLook:
    """Reads the files of the fake file system; only within a trial in memory, where `os` and `open` stand for it."""

    def __call__(self) -> dict[str, bytes]:
        """The content of every file, by its path relative to the root."""
        names = (
            os.path.relpath(os.path.join(folder, file), ROOT)
            for folder, _, files in os.walk(ROOT)
            for file in sorted(files)
        )
        return {name: content for name in names if (content := self.read(name)) is not None}

    def read(self, name: str) -> bytes | None:
        """The content of one file, or None where there is none."""
        try:
            with open(os.path.join(ROOT, name), "rb") as file:
                return file.read()
        except OSError:
            return None


@functools.lru_cache(maxsize=1)
def _memory() -> Memory:
    """The fake file system of this process; setting it up costs more than a trial."""
    return Memory().__enter__()


def run_in_memory(
    subject: Subject,
    scenario: Scenario,
    plan: Plan,
    seed: int,
    finish: Callable[[Trial, int], History],
    on_hang: Callable[[Trial, int], None],
) -> History:
    """Run one trial in memory.

    Args:
        subject: what is tested.
        scenario: the course of events.
        plan: what fails.
        seed: chooses the batches.
        finish: makes the history of a trial and the number of strikes.
        on_hang: called with the same when a call never ends; must not return.

    Returns:
        The history.
    """
    trial = Trial(subject.make, ROOT, MemoryLook(), folder=os.path.basename(FOLDER))
    trial.on_hang = lambda: on_hang(trial, trial.injector.fired if trial.injector else 0)
    trial.target.warn = scenario.warn
    try:
        with listening(trial), _memory().trial(plan, observe=trial.observe) as injector:
            trial.injector = injector
            scenario.run(trial, seed)
            trial.settle()
            trial.finish()
    finally:
        trial.close()
    return finish(trial, injector.fired)
