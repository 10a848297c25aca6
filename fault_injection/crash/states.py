"""The states that a power loss may leave at one moment: which changes of names are kept, and what is left of each file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from fault_injection.crash.data import Variant, Variants, is_exhaustive, subsets, variants
from fault_injection.crash.model import Disk, Entry, File, NameOp, change, visible

MOST_TOGETHER = 4096
"""Combinations of what is left of several files that are all built; of more: each file by itself, the others all whole or all lost."""


@dataclass(frozen=True)
class Choice:
    """What one power loss does.

    Args:
        step: how many steps the run had taken.
        names: the changes of names that are kept, by their step; None: all.
        files: for each file that is not kept whole, its node and the text of its variant.
    """

    step: int
    names: tuple[int, ...] | None = None
    files: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class State:
    """What a power loss leaves.

    Args:
        choice: what it did.
        files: the content of each file that can be reached, by path, sorted.
        lacks: the properties of which each alone would rule it out.
    """

    choice: Choice
    files: tuple[tuple[str, bytes], ...]
    lacks: frozenset[str]


@dataclass
class Cut:
    """How much was left out of the enumeration, and said so.

    Args:
        names: moments with more pending changes of names than have all of their subsets built.
        tears: places inside of writes at which they were not torn.
        together: combinations of the variants of several files.
    """

    names: int = 0
    tears: int = 0
    together: int = 0

    def __str__(self) -> str:
        parts = [
            f"{self.names:,} moments with too many changes of names for every subset" if self.names else "",
            f"{self.tears:,} places to tear a write at" if self.tears else "",
            f"{self.together:,} combinations of several files" if self.together else "",
        ]
        return ", ".join(filter(None, parts)) or "nothing"


class Enumeration:
    """Builds the states of a run, moment by moment.

    Args:
        fine: tear small writes at each byte.
    """

    def __init__(self, *, fine: bool) -> None:
        self.fine = fine
        self.cut = Cut()
        self._variants: dict[int, tuple[File, Variants]] = {}

    def states(self, disk: Disk) -> Iterator[State]:
        """Every state that a power loss at this moment may leave, as far as it is built; the whole one first."""
        pending = disk.names
        if not is_exhaustive(len(pending)):
            self.cut.names += 1
        everything = tuple(range(len(pending)))
        for chosen in (everything, *subsets(len(pending))):
            kept = [pending[i] for i in chosen]
            if allowed(pending, kept):
                names = None if len(kept) == len(pending) else tuple(op.step for op in kept)
                yield from self._with_names(disk, kept, names)

    def _with_names(self, disk: Disk, kept: list[NameOp], names: tuple[int, ...] | None) -> Iterator[State]:
        found = sorted(reached(disk, kept).items())
        excluded = names_lack(disk, kept)
        loose: dict[int, tuple[Variant, ...]] = {}
        for _, entry in found:
            if entry.node not in loose and disk.files[entry.node].ops:
                loose[entry.node] = self._of(entry.node, disk.files[entry.node])
        nodes = list(loose)
        whole = {entry.node: disk.files[entry.node].base for _, entry in found if entry.node not in loose}
        for chosen in self._together([loose[node] for node in nodes]):
            each = dict(zip(nodes, chosen, strict=True))
            files = tuple(
                (path, whole[entry.node] if entry.node in whole else each[entry.node].content)
                for path, entry in found
            )
            texts = tuple((node, variant.text) for node, variant in each.items() if variant.text)
            yield State(Choice(disk.step, names, texts), files, excluded | data_lacks(found, each))

    def _of(self, node: int, file: File) -> tuple[Variant, ...]:
        known = self._variants.get(node)
        if known is None or known[0] is not file or known[1].fine != self.fine:
            known = self._variants[node] = (file, variants(file, fine=self.fine))
            self.cut.tears += known[1].left_out
        return known[1].found

    def _together(self, each: list[tuple[Variant, ...]]) -> Iterator[tuple[Variant, ...]]:
        total = math.prod(map(len, each))
        if total <= MOST_TOGETHER or len(each) < 2:
            yield from itertools.product(*each)
            return
        built = 0
        # The first variant of a file is the whole one; one without any of its changes follows it.
        for end in (0, 1):
            others = [found[min(end, len(found) - 1)] for found in each]
            for i, found in enumerate(each):
                for variant in found:
                    built += 1
                    yield (*others[:i], variant, *others[i + 1 :])
        self.cut.together += max(total - built, 0)


def allowed(pending: list[NameOp], kept: list[NameOp]) -> bool:
    """Whether each change is kept together with the one that it depends on."""
    waiting, there = {op.step for op in pending}, {op.step for op in kept}
    return all(op.after not in waiting or op.after in there for op in kept)


def reached(disk: Disk, kept: list[NameOp]) -> dict[str, Entry]:
    """The files that can be reached when some of the pending changes of names are kept."""
    if not kept:
        return visible(disk.entries, disk.journal.folders, disk.links)
    entries = {folder: dict(names) for folder, names in disk.entries.items()}
    for op in kept:
        change(entries, op)
    return visible(entries, disk.journal.folders, disk.links)


def names_lack(disk: Disk, kept: list[NameOp]) -> frozenset[str]:
    """The properties that rule out that of the pending changes of names just these are kept."""
    there = {op.step for op in kept}
    lacks, gap = set(), False
    for op in disk.names:
        if op.step in there:
            if gap:
                lacks.add("ordered-names")
            continue
        gap = True
        lacks.add("folder" if op.makes_folder else "entry")
        if disk.syncs.get(op.node, 0) > abs(op.step):
            lacks.add("fsync-names")
    return frozenset(lacks)


def data_lacks(found: list[tuple[str, Entry]], each: dict[int, Variant]) -> frozenset[str]:
    """The properties that rule out that of these files just these bytes are left."""
    lacks: set[str] = set()
    for variant in each.values():
        lacks |= variant.lacks
    for _, entry in found:
        if entry.moved and entry.node in each and 0 < each[entry.node].missing < entry.step:
            lacks.add("name-after-data")
    return frozenset(lacks)
