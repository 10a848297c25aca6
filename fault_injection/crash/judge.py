"""What the laws say of crash states, and which property of the file system a writer would need for them to hold.

D7 asks whether what was drained is there, complete. D2 asks whether what is under a final name is complete at any instant,
D3 whether a complete file of an earlier run is still there. An unsynced file is damaged before the drain as it is after it:
where D7 finds the bytes of a drained dump damaged, the same damage before the drain is not counted again, as D2. What is
left to D2 are files that were synced, but only after they had their final name, and names that should not match.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from fault_injection.batches import read_rows
from fault_injection.crash.model import PROPERTIES
from fault_injection.crash.states import Choice, State
from fault_injection.history import Ended
from fault_injection.judge.data import in_sight, whole
from fault_injection.judge.facts import Dump, Facts, holds

MOST_WAYS = 3
"""Ways out that are told; there may be more of them, of more properties at once."""


@dataclass(frozen=True)
class Moment:
    """What the judge must know of the moment at which the power is lost.

    Args:
        position: how many events the history had.
        drained: the dumps that a drain has answered for.
        started: how many dumps had been handed over.
    """

    position: int
    drained: tuple[int, ...]
    started: int


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a state.

    Args:
        law: the law that it breaks.
        kind: `missing`, `damaged`, `torn`, `stray` or `gone`; findings of one law and kind are told once.
        name: the file.
        dump: the number of the dump, or -1.
    """

    law: str
    kind: str
    name: str
    dump: int = -1


class Judge:
    """Judges the crash states of one run.

    Args:
        facts: what happened in the run.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._names = {dump.name for dump in facts.dumps} | facts.older.keys()
        self._rows: dict[bytes, tuple[str, ...] | None] = {}
        self._whole: dict[tuple[str, bytes, int], bool] = {}

    def moment(self, position: int) -> Moment:
        """The moment at which the history has so many events."""
        dumps = self.facts.dumps
        drained = tuple(dump.number for dump in dumps if self._is_answered(dump, position))
        return Moment(position, drained, sum(dump.start < position for dump in dumps))

    def _is_answered(self, dump: Dump, position: int) -> bool:
        """Whether a drain has ended since, and nobody was told that the dump failed or might have."""
        events = self.facts.history.events[:position]
        drains = (e for e in events[dump.end + 1 :] if isinstance(e, Ended) and e.call.startswith("drain"))
        if not any(True for _ in drains) or self.facts.said_no(dump):
            return False
        raised = [r for r in self.facts.raised if dump.start < r.position < position]
        return not any(dump.number in self.facts.about(r) or not self.facts.about(r) for r in raised)

    def findings(self, state: State, moment: Moment) -> tuple[Finding, ...]:
        """What is wrong with a state."""
        files = dict(state.files)
        bytes_lost = bool(state.lacks & {"data", "retry"})
        return (
            *self._durable(files, moment, "damaged" if bytes_lost else "missing"),
            *self._complete(files, moment),
            *self._older(files),
        )

    def told(self, finding: Finding, state: State) -> str:
        """What a power loss does, in words, to complete "a power loss ..."."""
        name, content = finding.name, dict(state.files).get(finding.name)
        dump = self.facts.dumps[finding.dump] if finding.dump >= 0 else None
        if finding.kind == "stray":
            return f"leaves {name}, which matches *.jsonl but is no dump"
        if finding.kind == "gone":
            return f"takes the complete {name} of an earlier run away"
        if content is None:
            return f"takes {name} away"
        if content == self.facts.older.get(name):
            return f"brings back the {name} of an earlier run"
        if content and read_rows(content) is not None and dump is not None:
            return f"takes rows of {dump} out of {name}"
        return f"leaves {_amount(content, dump)} in {name}"

    def _durable(self, files: dict[str, bytes], moment: Moment, changed: str) -> Iterable[Finding]:
        for number in moment.drained:
            dump = self.facts.dumps[number]
            content = files.get(dump.name)
            if content is None:
                yield Finding("D7", "missing", dump.name, number)
            elif not self._holds(content, dump) and not self._is_replaced(content, dump, moment):
                kind = "missing" if content == self.facts.older.get(dump.name) else changed
                yield Finding("D7", kind, dump.name, number)

    def _complete(self, files: dict[str, bytes], moment: Moment) -> Iterable[Finding]:
        drained = {self.facts.dumps[number].name for number in moment.drained}
        for name, content in files.items():
            if not name.endswith(".jsonl"):
                continue
            if name not in self._names:
                if in_sight(self.facts, name):
                    yield Finding("D2", "stray", name)
            elif name not in drained and not self._is_whole(name, content, moment):
                number = next((d.number for d in self.facts.dumps if d.name == name), -1)
                yield Finding("D2", "torn", name, number)

    def _older(self, files: dict[str, bytes]) -> Iterable[Finding]:
        for name in self.facts.older:
            if name not in files:
                yield Finding("D3", "gone", name)

    def _is_replaced(self, content: bytes, dump: Dump, moment: Moment) -> bool:
        later = self.facts.dumps[dump.number + 1 : moment.started]
        return any(d.name == dump.name and d.run > dump.run and self._holds(content, d) for d in later)

    def _holds(self, content: bytes, dump: Dump) -> bool:
        if content not in self._rows:
            self._rows[content] = read_rows(content)
        rows = self._rows[content]
        return rows is not None and holds(rows, dump.rows)

    def _is_whole(self, name: str, content: bytes, moment: Moment) -> bool:
        key = (name, content, moment.started)
        if key not in self._whole:
            self._whole[key] = whole(self.facts, name, content, moment.position)
        return self._whole[key]


def _amount(content: bytes, dump: Dump | None) -> str:
    of = f" of {len(dump.rows)} row{'s' * (len(dump.rows) != 1)}" if dump is not None else ""
    if not content:
        return f"nothing{of}"
    if not content.strip(b"\0"):
        return f"zeros{of and ' instead' + of}"
    rows = [line for line in content.split(b"\n")[:-1] if read_rows(line + b"\n") is not None]
    broken = "" if content.endswith(b"\n") and b"\0" not in content else " and a broken one"
    return f"{len(rows)}{broken}{of}"


@dataclass
class Group:
    """All states of a run that break one law in one way.

    Args:
        law: the law.
        kind: the kind of finding.
        finding: the simplest.
        state: in which it is found.
        seen: every pair of a state and what had been promised by then in which it is found.
        lacks: every set of properties of which each alone would rule out some of them.
    """

    law: str
    kind: str
    finding: Finding
    state: State
    seen: set[object] = field(default_factory=set)
    lacks: set[frozenset[str]] = field(default_factory=set)

    def add(self, finding: Finding, state: State, promised: object = None) -> None:
        """Count one more state."""
        self.seen.add(promised)
        self.lacks.add(state.lacks)
        if _weight(state.choice) < _weight(self.state.choice):
            self.finding, self.state = finding, state

    def message(self, judging: Judge) -> str:
        """One sentence, with what the writer would need."""
        when = "after drain has returned, a power loss " if self.law == "D7" else "a power loss "
        return f"{when}{judging.told(self.finding, self.state)}; {needs(self.lacks)}"


def _weight(choice: Choice) -> tuple[int, int, int]:
    # An empty file shows more than one with its last byte gone, and the fewest changes say the most.
    lost = 0 if choice.names is None else 1
    return (
        lost + len(choice.files),
        sum(text not in {"cut(0+0)", ""} for _, text in choice.files),
        choice.step,
    )


def sufficient(lacks: Iterable[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of properties that rule out every state: each takes at least one from every set given.

    Args:
        lacks: for each state, the properties of which each alone rules it out.

    Returns:
        The sets, none of which holds another; empty when no property rules out some state.
    """
    wanted = set(lacks)
    if not all(wanted):
        return ()
    names = [name for name in PROPERTIES if any(name in each for each in wanted)]
    found: list[tuple[str, ...]] = []
    for size in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, size):
            smaller = any(set(each) <= set(chosen) for each in found)
            if not smaller and all(each & set(chosen) for each in wanted):
                found.append(chosen)
    return tuple(found)


def needs(lacks: Iterable[frozenset[str]]) -> str:
    """What a writer needs of the file system for none of the states to come about, in words."""
    found = sufficient(lacks)
    if not found:
        return "no property of a file system helps"
    ways = (" and ".join(PROPERTIES[name] for name in each) for each in found[:MOST_WAYS])
    return "needs: " + ", or ".join(ways)


def attributed(groups: Iterable[Group]) -> tuple[Group, ...]:
    """The groups without those that are another's defect seen earlier: what is never synced is told by D7 alone."""
    found = list(groups)
    never_synced = any((group.law, group.kind) == ("D7", "damaged") for group in found)
    return tuple(g for g in found if not (never_synced and (g.law, g.kind) == ("D2", "torn")))
