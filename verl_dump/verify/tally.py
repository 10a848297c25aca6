"""Counts every finding, and keeps a few of each kind to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from verl_dump.verify.kinds import KINDS, Level

GROUPS = 20
"""Files shown of each kind in one directory; the others are counted."""


@dataclass(frozen=True)
class Example:
    """One finding.

    Attributes:
        message: what is there.
        line: of the file, from 1; None where it is no matter of a line.
        byte: of the file, from 0; None where it is no matter of a byte.
    """

    message: str
    line: int | None = None
    byte: int | None = None


@dataclass
class Group:
    """The findings of one kind in one file, or in the directory itself.

    Attributes:
        kind: name of the kind.
        file: name of the file, empty for the directory itself.
        count: of all findings.
        examples: the first of them.
    """

    kind: str
    file: str
    count: int = 0
    examples: list[Example] = field(default_factory=list)

    @property
    def level(self) -> Level:
        """Whether these are errors or warnings."""
        return KINDS[self.kind].level


@dataclass
class Total:
    """All findings of one kind.

    Attributes:
        count: of the findings.
        files: of the files that have some.
    """

    count: int = 0
    files: int = 0


@dataclass
class Outcome:
    """What is known of one directory.

    Attributes:
        path: as the user named it.
        groups: the findings that are shown.
        totals: all findings, by kind.
        files: dumps read; their `rows` and `bytes`.
        first: lowest step, with the highest as `last`, the prevailing `stride`, and the number `missing` from it.
        seconds: that it took.
    """

    path: str
    groups: list[Group] = field(default_factory=list)
    totals: dict[str, Total] = field(default_factory=dict)
    files: int = 0
    rows: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None
    stride: int | None = None
    missing: int = 0
    seconds: float = 0.0

    def count(self, level: Level) -> int:
        """Return the number of errors, or of warnings."""
        return sum(total.count for kind, total in self.totals.items() if KINDS[kind].level == level)


class Tally:
    """Takes the findings of one directory, file by file.

    Args:
        outcome: where they go.
        show: examples kept of each kind and file.
        tell: is told each group that is shown, once its file is done.
    """

    def __init__(self, outcome: Outcome, show: int, tell: Callable[[Group], None]) -> None:
        self._outcome = outcome
        self._show = show
        self._tell = tell
        self._groups: dict[str, Group] = {}

    def add(
        self, kind: str, file: str, message: str, line: int | None = None, byte: int | None = None
    ) -> None:
        """Count one finding."""
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = Group(kind, file)
        group.count += 1
        if len(group.examples) < self._show:
            group.examples.append(Example(message, line, byte))

    def close(self) -> None:
        """End a file: what follows belongs to another one; its errors are told before its warnings."""
        for kind, group in sorted(self._groups.items(), key=lambda each: each[1].level):
            total = self._outcome.totals.setdefault(kind, Total())
            total.count += group.count
            total.files += 1
            if total.files <= GROUPS:
                self._outcome.groups.append(group)
                self._tell(group)
        self._groups.clear()
