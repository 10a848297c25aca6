"""Histories: what happened in a trial, in order, as plain data; the judge sees nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar, Union

from fault_injection.op import Op


@dataclass(frozen=True)
class Link:
    """One exception that can be reached from what was raised.

    Args:
        serial: which exception object of the trial it is, from 1; the same object keeps its number.
        types: the names of its class and its bases.
        text: its message.
        errno: its error number, if it has one.
        notes: its notes (PEP 678).
        attributes: the text of its public attributes `step`, `steps`, `path`, `filename`, `accepted`, `pending`.
        strike: the number of the operation at which the fault layer raised it, or None.
        frames: the functions in its traceback, outermost first.
    """

    serial: int
    types: tuple[str, ...]
    text: str
    errno: int | None = None
    notes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    strike: int | None = None
    frames: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Everything that the exception says."""
        return "\n".join([self.text, *self.notes, *(value for _, value in self.attributes)])


@dataclass(frozen=True)
class Failure:
    """What a call raised: the exception itself first, then all that can be reached from it."""

    links: tuple[Link, ...]

    @property
    def words(self) -> str:
        """Everything that any exception of the chain says."""
        return "\n".join(link.words for link in self.links)

    def __str__(self) -> str:
        top = self.links[0]
        return f"{top.types[0]}: {top.text.splitlines()[0] if top.text else ''}"


@dataclass(frozen=True)
class HandedOver:
    """A batch is about to be handed over; `rows` is what an independent encoder makes of it, a JSON text a row."""

    dump: int
    step: int
    directory: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Ended:
    """A call on the target ended: returned, or raised `failure`. `dump` is set for calls of dump."""

    call: str
    dump: int | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Operated:
    """An operation is about to happen; `fault` is what strikes it, or empty."""

    number: int
    op: Op
    fault: str = ""
    errno: int = 0
    room: int = -1


@dataclass(frozen=True)
class Seen:
    """The files whose name ends in `.jsonl`, where they differ from the last look (bytes; None: gone)."""

    number: int
    files: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Waited:
    """A call could not go on while the disk was held: it waited, `by` itself or for somebody who did."""

    call: str
    dump: int | None = None


@dataclass(frozen=True)
class Hung:
    """A call never ended although nothing held the disk."""

    call: str
    dump: int | None = None


@dataclass(frozen=True)
class Threads:
    """The names of the threads that live on after a drain, though they did not exist before the writer was made."""

    alive: tuple[str, ...]


@dataclass(frozen=True)
class Final:
    """Every file below the root after the last call, with its bytes."""

    files: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Older:
    """A complete file that an earlier run left."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Logged:
    """A log record or warning of the writer, or a line on stderr."""

    level: str
    text: str


@dataclass(frozen=True)
class Exited:
    """The process of the trial ended: exit code, or minus the number of the signal."""

    code: int
    stderr: str = ""


@dataclass(frozen=True)
class Mark:
    """A turn of the scenario that the judge needs to know, such as a new run or the fork."""

    name: str
    text: str = ""


Event = Union[  # noqa: UP007 - evaluated at run time on Python 3.10, where a | of forward types would do as well
    HandedOver, Ended, Operated, Seen, Waited, Hung, Threads, Final, Older, Logged, Exited, Mark
]
E = TypeVar("E")


@dataclass(frozen=True)
class History:
    """What happened in one trial.

    Args:
        scenario: the name of the scenario.
        plan: the text of the plan.
        mechanism: `disk`, `memory` or `kernel`.
        seed: the seed of the batches.
        events: in order.
        fired: how many times the plan struck.
        complete: False when the process of the trial died before it could end the history.
    """

    scenario: str
    plan: str
    mechanism: str
    seed: int
    events: tuple[Event, ...] = field(default=())
    fired: int = 0
    complete: bool = True

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind, in order."""
        return (event for event in self.events if isinstance(event, kind))

    def marked(self, name: str) -> bool:
        """Whether the scenario took that turn."""
        return any(mark.name == name for mark in self.of(Mark))
