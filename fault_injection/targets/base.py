"""Targets: what the harness needs of a writer, and the driver of classes that have verl's dump surface."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fault_injection.targets.errors import TargetError

CAPABILITIES: dict[str, str] = {
    "durable": "what was drained survives a power loss",
    "deadline": "drain takes a timeout, and a stuck write cannot hold the exit of the process for ever",
    "warn": "failures of the dump are logged and counted, and training goes on",
}
"""What a target may claim besides the laws that every writer is held to."""


@dataclass(frozen=True)
class Batch:
    """One batch of generations for one step.

    Args:
        step: the global step.
        inputs: n prompts.
        outputs: n responses.
        gts: n ground truths.
        scores: n scores.
        extras: columns of n values by name.
    """

    step: int
    inputs: list[Any]
    outputs: list[Any]
    gts: list[Any]
    scores: list[Any]
    extras: dict[str, Any] = field(default_factory=dict)


class Target:
    """A writer under test; subclass it for a writer that does not have verl's dump surface.

    One instance is made for each run of the writer. Override `open`, `dump` and `drain`, and say in the class
    attributes what the writer claims.
    """

    asynchronous: ClassVar[bool] = True
    """Whether dumps are written in the background; False: the laws of the queue are not claimed."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """Any of `durable`, `deadline`, `warn`."""
    disclaims: ClassVar[frozenset[str]] = frozenset()
    """Identifiers of laws that the writer does not promise, such as `Q7`."""
    policies: ClassVar[Mapping[str, str]] = {}
    """What the writer makes of values that JSON cannot hold, where that is not what the reference writer makes."""

    warn: bool = False
    """Set by the harness before `open` on a target that claims `warn`: failures are logged, not raised."""
    exit_deadline: float | None = None
    """Set by the harness before `open` on a target that claims `deadline`: seconds that the exit may be held."""

    def open(self) -> None:
        """Start the writer, or start it again after a drain."""

    def dump(self, directory: str, batch: Batch) -> None:
        """Hand over one batch.

        Args:
            directory: where the dump's file belongs; it may not exist yet.
            batch: what to write, to `{directory}/{batch.step}.jsonl`.
        """
        raise TargetError(
            f"target {type(self).__name__} does not override dump(directory, batch), so the batch of step "
            f"{batch.step} cannot go to {directory}"
        )

    def drain(self, timeout: float | None = None) -> None:
        """Wait until every accepted dump is on disk or its failure has been raised.

        Args:
            timeout: seconds, given only to targets that claim `deadline`; past it the call must raise.
        """


class SurfaceTarget(Target):
    """Drives a class that has verl's dump surface, without running its `__init__`.

    Args:
        cls: the class with `_dump_generations` and, where it writes in the background, `_init_dump_executor`
            and `_shutdown_dump_executor`.
    """

    def __init__(self, cls: type) -> None:
        self._instance: Any = object.__new__(cls)
        self._takes_gts = takes_gts(cls)

    @property
    def instance(self) -> Any:
        """The object under test."""
        return self._instance

    def open(self) -> None:
        """Create the executor, where the class has one."""
        if self.warn:
            self._instance.dump_on_error = "warn"
        if self.exit_deadline is not None:
            self._instance.dump_exit_timeout = self.exit_deadline
        start = getattr(self._instance, "_init_dump_executor", None)
        if start is not None:
            start()

    def dump(self, directory: str, batch: Batch) -> None:
        """Set `global_steps` and call `_dump_generations` with the arguments it takes."""
        self._instance.global_steps = batch.step
        columns = {"inputs": batch.inputs, "outputs": batch.outputs, "scores": batch.scores}
        if self._takes_gts:
            columns["gts"] = batch.gts
        self._instance._dump_generations(**columns, reward_extra_infos_dict=batch.extras, dump_path=directory)

    def drain(self, timeout: float | None = None) -> None:
        """Call `_shutdown_dump_executor`, where the class has one."""
        stop = getattr(self._instance, "_shutdown_dump_executor", None)
        if stop is None:
            return
        if timeout is None:
            stop()
        else:
            stop(timeout=timeout)


def takes_gts(cls: type) -> bool:
    """Whether `_dump_generations` takes ground truths (verl's does since #2353)."""
    parameters = inspect.signature(cls._dump_generations).parameters  # type: ignore[attr-defined]
    return "gts" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def has_surface(cls: type) -> bool:
    """Whether the class has verl's dump method."""
    return callable(getattr(cls, "_dump_generations", None))


def has_reference_fit(cls: type) -> bool:
    """Whether the class has a `fit()` whose hooks are those of the reference trainer."""
    return any(base.__module__ == "verl_dump.trainer" and "fit" in vars(base) for base in cls.__mro__)


def is_asynchronous(cls: type) -> bool:
    """Whether the class creates or drains an executor; without either it writes within the call."""
    return any(
        callable(getattr(cls, name, None)) for name in ("_init_dump_executor", "_shutdown_dump_executor")
    )
