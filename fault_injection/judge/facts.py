"""What the rules need to know of a history, worked out once."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property

from fault_injection.batches import read_rows
from fault_injection.fault import Fault
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
from fault_injection.op import RETRIED
from fault_injection.plan import Plan

DEATHS = frozenset({"MemoryError", "SystemExit", "RuntimeError"})
"""Faults that end a worker, against faults of the disk."""
_REFUSED = re.compile(
    r"\bnot (been )?(accepted|queued|written|dumped|taken)|\brejected|\brefused", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n")


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
        self._about: dict[int, frozenset[int]] = {}

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
            if isinstance(e, Operated) and (e.errno or e.fault in DEATHS) and not self._retried(e)
        )

    def _retried(self, operated: Operated) -> bool:
        """Whether Python has tried the operation again without a word; through the kernel the second try is seen."""
        return (
            operated.fault == "EINTR" and operated.op.kind in RETRIED and self.history.mechanism != "kernel"
        )

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of the plan."""
        return tuple(rule.fault for rule in Plan.parse(self.history.plan).rules)

    @cached_property
    def shaped(self) -> bool:
        """Whether the plan can make no operation fail (no fault, a short, slow or stuck one)."""
        return not any(
            fault.kind.errno or fault.name in DEATHS or fault.name in {"vanish", "replace", "kill", "torn"}
            for fault in self.faults
        )

    @cached_property
    def deadly(self) -> bool:
        """Whether the plan ends workers instead of making the disk fail."""
        return any(fault.name in DEATHS for fault in self.faults)

    @cached_property
    def killed(self) -> tuple[int, ...]:
        """The positions at which a killed process was found ended, each before the next run went on."""
        return tuple(
            i for i, e in enumerate(self.history.events) if isinstance(e, Mark) and e.name == "killed"
        )

    @cached_property
    def cleared(self) -> bool:
        """Whether the plan takes the dump directory away."""
        return any(fault.name in {"vanish", "replace"} for fault in self.faults)

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
        return rows is not None and holds(rows, dump.rows)

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
        """Whether the file was last seen to hold the dump before a position in the history."""
        content: bytes | None = None
        for event in self.history.events[:position]:
            if isinstance(event, Seen):
                content = dict(event.files).get(dump.name, content)
        rows = None if content is None else read_rows(content)
        return rows is not None and holds(rows, dump.rows)

    def ever_written(self, dump: Dump) -> bool:
        """Whether the file was seen to hold the dump at any time."""
        contents = (dict(event.files).get(dump.name) for event in self.history.of(Seen))
        return any(holds(read_rows(content) or (), dump.rows) for content in contents if content is not None)

    def is_acknowledged(self, dump: Dump) -> bool:
        """Whether a drain of its own run ended without error before the kill, and its call raised nothing."""
        if dump.failure is not None or not self._kill_of(dump):
            return False
        drains = (
            e.failure is None
            for e in self.history.events[dump.end : self._kill_of(dump)]
            if isinstance(e, Ended) and e.call == "drain"
        )
        return next(drains, False) and not self.told_of(dump)

    def died_with(self, dump: Dump) -> bool:
        """Whether the process was killed before it had said that the dump is on disk."""
        return bool(self._kill_of(dump)) and not self.is_acknowledged(dump)

    def outlived(self, dump: Dump) -> bool:
        """Whether the file was whole when the killed process was found, with this dump or what replaced it."""
        files: dict[str, bytes | None] = {}
        for event in self.history.events[: self._kill_of(dump)]:
            # The last look is the one after the process had ended.
            files = dict(event.files) if isinstance(event, Seen) else files
        rows = read_rows(files.get(dump.name) or b"") or ()
        return any(holds(rows, d.rows) for d in self.dumps if d.name == dump.name and d.run >= dump.run)

    def _kill_of(self, dump: Dump) -> int:
        """The position at which the process that made a dump was found killed, 0 for the last run."""
        return next((position for position in self.killed if position > dump.start), 0)

    @cached_property
    def lost(self) -> tuple[Dump, ...]:
        """The dumps whose rows are not on disk at the end, but for those that were taken away from outside."""
        return tuple(
            d
            for d in self.dumps
            if not self.is_written(d) and d.number not in self.superseded and not self._taken_away(d)
        )

    def _taken_away(self, dump: Dump) -> bool:
        """Whether the directory was removed when the file, or what was to become it, was there.

        A writer whose file is open goes on without an error, so it cannot tell anybody; one that renames fails, and
        is judged by whether it says so.
        """
        if self.disturbed < 0:
            return False
        if self.was_written(dump, self.disturbed + 1):
            return True
        events = self.history.events
        mine = [e for e in events if isinstance(e, Operated) and dump.number in self.owners(e)]
        begun = any(e.op.kind == "open" and events.index(e) < self.disturbed for e in mine)
        return begun and not any(e.op.kind == "rename" for e in mine)

    def owners(self, operated: Operated) -> frozenset[int]:
        """The dumps whose step is part of the operation's paths, or of the name that its file is moved to later.

        Empty for a directory, and for a file with a random name that never gets another.
        """
        position = next(i for i, e in enumerate(self.history.events) if e is operated)
        before = [d for d in self.dumps if d.start < position]
        for text in (f"{operated.op.path}\n{operated.op.target}", self._moved_to(operated.op.path, position)):
            if found := frozenset(d.number for d in before if mentions(text, d.step)):
                return found
        return frozenset()

    def _moved_to(self, path: str, position: int) -> str:
        """The name that a file gets after a position, or nothing if it is opened anew before."""
        for event in self.history.events[position + 1 :]:
            if isinstance(event, Operated) and event.op.path == path:
                if event.op.kind == "open":
                    return ""
                if event.op.kind in {"rename", "link"}:
                    return event.op.target
        return ""

    @cached_property
    def owner_of_strike(self) -> dict[int, frozenset[int]]:
        """For each strike's number, its owners."""
        return {operated.number: self.owners(operated) for _, operated in self.strikes}

    def about(self, raised: Raised) -> frozenset[int]:
        """The dumps whose failure this is."""
        if raised.position not in self._about:
            self._about[raised.position] = self._find_about(raised)
        return self._about[raised.position]

    def _find_about(self, raised: Raised) -> frozenset[int]:
        found: set[int] = set()
        for link in raised.failure.links:
            if link.strike is not None:
                found |= self.owner_of_strike.get(link.strike, frozenset())
        words = raised.failure.words
        told = {d.number for d in self.dumps if d.start < raised.position and mentions(words, d.step)}
        own = self.dumps[raised.dump] if raised.dump is not None else None
        others = own is not None and any(self.dumps[number].step != own.step for number in told)
        if own is not None and own.number in told and others:
            # Naming its own step beside another's may only say what became of this batch.
            steps = {
                value for link in raised.failure.links for name, value in link.attributes if name == "step"
            }
            if str(own.step) not in steps and not self.refused(raised):
                told.discard(own.number)
        return frozenset(found | told)

    def refused(self, raised: Raised) -> bool:
        """Whether the failure says that the batch of its own call was not accepted.

        "Step 3 was not written" says so in the call of step 3, but not in the call of step 4.
        """
        if raised.dump is None:
            return False
        if ("accepted", "False") in raised.failure.links[0].attributes:
            return True
        own = self.dumps[raised.dump].step
        others = {dump.step for dump in self.dumps} - {own}
        texts = [text for link in raised.failure.links for text in (link.text, *link.notes)]
        sentences = [s for text in texts for s in _SENTENCE.split(text) if _REFUSED.search(s)]
        return any(mentions(s, own) or not any(mentions(s, step) for step in others) for s in sentences)

    def said_no(self, dump: Dump) -> bool:
        """Whether the dump's own call said that it was not accepted."""
        return any(each.dump == dump.number and self.refused(each) for each in self.raised)

    def loose(self, raised: Raised) -> frozenset[int]:
        """The strikes that the failure shows and that belong to no dump by their paths (a directory, a thread)."""
        return frozenset(
            link.strike
            for link in raised.failure.links
            if link.strike is not None and not self.owner_of_strike.get(link.strike)
        )

    def told_of(self, dump: Dump) -> tuple[Raised, ...]:
        """The failures that are this dump's and came at its call or later.

        Another thread may be told before the dump's own call has returned.
        """
        return tuple(r for r in self.raised if r.position > dump.start and dump.number in self.about(r))

    @cached_property
    def nameless(self) -> tuple[Raised, ...]:
        """The failures that name no dump and show no strike."""
        return tuple(r for r in self.raised if not self.about(r) and not self.loose(r))

    def unreported(self) -> tuple[Dump, ...]:
        """The lost dumps that no failure accounts for.

        A failure that names no dump, or of an operation that shows no step (mkdir, the start of a thread), accounts
        for one dump: that of its own call, else the first that was handed over before.
        """
        silent = [d for d in self.lost if not self.told_of(d)]
        counted: frozenset[int] = frozenset()
        for each in self.raised:
            fresh, counted = self.loose(each) - counted, counted | self.loose(each)
            for _ in range(len(fresh) or (each in self.nameless)):
                own = [d for d in silent if d.number == each.dump]
                earlier = [d for d in silent if d.start < each.position]
                for dump in (own or earlier)[:1]:
                    silent.remove(dump)
        return tuple(silent)


def mentions(text: str, step: int) -> bool:
    """Whether a text holds the step as a number of its own."""
    return re.search(rf"(?<!\d){step}(?!\d)", text) is not None


def names_directory(text: str, dump: Dump) -> bool:
    """Whether a text names the directory of a dump, which alone tells one disk from another."""
    folder = re.escape(os.path.dirname(dump.name))
    return re.search(rf"/{folder}(?![\w-])|(?<![\w.-]){folder}/", text.replace(os.sep, "/")) is not None


def holds(rows: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """Whether rows hold others, in order and without a gap."""
    n = len(part)
    return any(rows[i : i + n] == part for i in range(len(rows) - n + 1))
