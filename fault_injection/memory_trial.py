"""Trials in memory: the same scenarios over a fake file system, with the plans that it can make real."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


_BY_DESCRIPTOR = (
    "copy_file_range",
    "posix_fallocate",
    "pread",
    "preadv",
    "pwrite",
    "pwritev",
    "readv",
    "sendfile",
    "splice",
    "writev",
)
"""Functions of `os` that pyfakefs lacks: called with a fake descriptor, they would reach a real file of that number."""


@contextmanager
def _no_real_descriptors() -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSYS, "the fake file system has no such call")

    real = {name: getattr(os, name) for name in _BY_DESCRIPTOR if hasattr(os, name)}
    for name in real:
        setattr(os, name, refuse)
    try:
        yield
    finally:
        for name, call in real.items():
            setattr(os, name, call)


@functools.lru_cache(maxsize=1)
def _memory() -> Memory:
    """The fake file system of this process; setting it up costs more than a trial."""
    return Memory().__enter__()


def leave() -> None:
    """Take down the fake file system of this process, if there is one; the next trial in memory sets it up anew."""
    if _memory.cache_info().currsize:
        _memory().__exit__(None, None, None)
        _memory.cache_clear()


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
        with (
            _no_real_descriptors(),
            listening(trial),
            _memory().trial(plan, observe=trial.observe) as injector,
        ):
            trial.injector = injector
            scenario.run(trial, seed)
            trial.settle()
            trial.finish()
    finally:
        trial.close()
    return finish(trial, injector.fired)
