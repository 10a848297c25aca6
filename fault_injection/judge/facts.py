"""What the rules need to know of a history, worked out once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from fault_injection.batches import read_rows
from fault_injection.fault import CATALOGUE
from fault_injection.history import (
    Ended,
    Failure,
    Final,
    HandedOver,
    History,
    Mark,
    Older,
    Operated,
    Seen,
)

DEATHS = frozenset({"MemoryError", "SystemExit", "RuntimeError"})
"""Faults that end a worker, against faults of the disk."""
_REFUSED = re.compile(
    r"\bnot (been )?(accepted|queued|written|dumped|taken)|\brejected|\brefused", re.IGNORECASE
)


@dataclass(frozen=True)
class Dump:
    """One batch that was handed over.

    Args:
        number: its position in the trial, from 0.
        step: its step.
        name: the file it belongs to, relative to the root.
        rows: what must be read back.
        run: how many runs had ended before.
        start: the position in the history at which its call began.
        end: the position at which its call had ended, or the length of the history where it never did.
        failure: what its call raised.
    """

    number: int
    step: int
    name: str
    rows: tuple[str, ...]
    run: int
    start: int
    end: int
    failure: Failure | None

    def __str__(self) -> str:
        return f"dump {self.number + 1} (step {self.step})"


@dataclass(frozen=True)
class Raised:
    """One failure that a call raised.

    Args:
        position: where in the history.
        call: `dump`, `drain`, `open`, …
        dump: the number of the dump whose call it was, or None.
        failure: what came.
    """

    position: int
    call: str
    dump: int | None
    failure: Failure

    def __str__(self) -> str:
        return f"the call of dump {self.dump + 1}" if self.dump is not None else self.call


class Facts:
    """A history with what follows from it.

    Args:
        history: what happened.
    """

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def dumps(self) -> tuple[Dump, ...]:
        """The batches, in the order in which they were handed over."""
        ends = {
            e.dump: (i, e.failure)
            for i, e in enumerate(self.history.events)
            if isinstance(e, Ended) and e.dump is not None
        }
        found, run = [], 0
        for i, event in enumerate(self.history.events):
            if isinstance(event, Mark) and event.name == "new run":
                run += 1
            if isinstance(event, HandedOver):
                end, failure = ends.get(event.dump, (len(self.history.events), None))
                name = f"{event.directory}/{event.step}.jsonl"
                found.append(Dump(event.dump, event.step, name, event.rows, run, i, end, failure))
        return tuple(found)

    @cached_property
    def raised(self) -> tuple[Raised, ...]:
        """Every failure that a call raised, in order."""
        return tuple(
            Raised(i, e.call, e.dump, e.failure)
            for i, e in enumerate(self.history.events)
            if isinstance(e, Ended) and e.failure is not None
        )

    @cached_property
    def strikes(self) -> tuple[tuple[int, Operated], ...]:
        """Every operation that a fault made fail, with its position in the history."""
        return tuple(
            (i, e)
            for i, e in enumerate(self.history.events)
            if isinstance(e, Operated) and e.room <= 0 and (e.errno or e.fault in DEATHS)
        )

    @cached_property
    def shaped(self) -> bool:
        """Whether the plan can make no operation fail (no fault, a short, slow or stuck one)."""
        return not any(
            CATALOGUE[name].errno or name in DEATHS or name in {"vanish", "replace", "kill", "torn"}
            for name in re.findall(r":(\w+)", self.history.plan)
        )

    @cached_property
    def deadly(self) -> bool:
        """Whether the plan ends workers instead of making the disk fail."""
        return any(name in DEATHS for name in re.findall(r":(\w+)", self.history.plan))

    @cached_property
    def final(self) -> dict[str, bytes]:
        """Every file at the end."""
        return dict(next(iter(self.history.of(Final)), Final(())).files)

    @cached_property
    def older(self) -> dict[str, bytes]:
        """The files of an earlier run."""
        return {event.name: event.content for event in self.history.of(Older)}

    @cached_property
    def on_disk(self) -> dict[str, tuple[str, ...] | None]:
        """The rows of every file at the end; None for a torn one."""
        return {name: read_rows(content) for name, content in self.final.items()}

    def is_written(self, dump: Dump) -> bool:
        """Whether the file holds every row of the dump, in order and without a gap."""
        rows = self.on_disk.get(dump.name)
        return rows is not None and _holds(rows, dump.rows)

    @cached_property
    def superseded(self) -> frozenset[int]:
        """The dumps that a later run was allowed to replace."""
        return frozenset(
            d.number
            for d in self.dumps
            if any(o.name == d.name and o.run > d.run and self.is_written(o) for o in self.dumps)
        )

    @cached_property
    def disturbed(self) -> int:
        """The position at which the dump directory was removed or replaced from outside; -1 if never."""
        positions = [
            i
            for i, e in enumerate(self.history.events)
            if isinstance(e, Operated) and e.fault in {"vanish", "replace"}
        ]
        return positions[-1] if positions else -1

    def was_written(self, dump: Dump, position: int) -> bool:
        """Whether the file was seen to hold the dump before a position in the history."""
        content: bytes | None = None
        for event in self.history.events[:position]:
            if isinstance(event, Seen):
                content = dict(event.files).get(dump.name, content)
        rows = None if content is None else read_rows(content)
        return rows is not None and _holds(rows, dump.rows)

    @cached_property
    def lost(self) -> tuple[Dump, ...]:
        """The dumps whose rows are not on disk at the end, but for those that were there and were taken away."""
        return tuple(
            d
            for d in self.dumps
            if not self.is_written(d)
            and d.number not in self.superseded
            and not (self.disturbed >= 0 and self.was_written(d, self.disturbed + 1))
        )

    def owners(self, operated: Operated) -> frozenset[int]:
        """The dumps whose step is part of the operation's paths; empty for a directory or a random name."""
        text = f"{operated.op.path}\n{operated.op.target}"
        position = next(i for i, e in enumerate(self.history.events) if e is operated)
        return frozenset(d.number for d in self.dumps if d.start < position and mentions(text, d.step))

    @cached_property
    def owner_of_strike(self) -> dict[int, frozenset[int]]:
        """For each strike's number, its owners."""
        return {operated.number: self.owners(operated) for _, operated in self.strikes}

    def about(self, raised: Raised) -> frozenset[int]:
        """The dumps whose failure this is."""
        found: set[int] = set()
        for link in raised.failure.links:
            if link.strike is not None:
                found |= self.owner_of_strike.get(link.strike, frozenset())
        words = raised.failure.words
        told = {d.number for d in self.dumps if d.start < raised.position and mentions(words, d.step)}
        own = self.dumps[raised.dump] if raised.dump is not None else None
        if own is not None and own.number in told and told - {own.number}:
            # Naming its own step beside another's may only say what became of this batch.
            steps = {
                value for link in raised.failure.links for name, value in link.attributes if name == "step"
            }
            if str(own.step) not in steps and not self.refused(raised):
                told.discard(own.number)
        return frozenset(found | told)

    def refused(self, raised: Raised) -> bool:
        """Whether the failure says that the batch of its own call was not accepted."""
        top = raised.failure.links[0]
        if ("accepted", "False") in top.attributes:
            return True
        return any(
            _REFUSED.search(line) for link in raised.failure.links for line in (link.text, *link.notes)
        )

    def loose(self, raised: Raised) -> frozenset[int]:
        """The strikes that the failure shows and that belong to no dump by their paths (a directory, a thread)."""
        return frozenset(
            link.strike
            for link in raised.failure.links
            if link.strike is not None and not self.owner_of_strike.get(link.strike)
        )

    def told_of(self, dump: Dump) -> tuple[Raised, ...]:
        """The failures that are this dump's and came at its call or later."""
        return tuple(r for r in self.raised if r.position >= dump.end and dump.number in self.about(r))

    def unreported(self) -> tuple[Dump, ...]:
        """The lost dumps that no failure accounts for.

        A failure of an operation that shows no step (mkdir, the start of a thread) accounts for one dump.
        """
        silent = [d for d in self.lost if not self.told_of(d)]
        spare = frozenset().union(*(self.loose(r) for r in self.raised), frozenset())
        # A call that raised something of its own and left nothing behind has told its caller.
        natural = [r for r in self.raised if not self.about(r) and not self.loose(r)]
        return tuple(silent[len(spare) + len(natural) :])


def mentions(text: str, step: int) -> bool:
    """Whether a text holds the step as a number of its own."""
    return re.search(rf"(?<!\d){step}(?!\d)", text) is not None


def _holds(rows: tuple[str, ...], part: tuple[str, ...]) -> bool:
    n = len(part)
    return any(rows[i : i + n] == part for i in range(len(rows) - n + 1))
