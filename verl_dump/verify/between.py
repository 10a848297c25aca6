"""Checks what lies between the dumps of one directory: gaps, equal files, keys that change."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from verl_dump.verify.content import Contents, changed_keys
from verl_dump.verify.scan import Dump
from verl_dump.verify.tally import Tally
from verl_dump.verify.words import counted, shown_path

_RANGES = 8


class Between:
    """Takes the dumps of one directory in the order of their steps; holds a fingerprint of each.

    Args:
        tally: takes the findings.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._names: dict[tuple[int, int], str] = {}
        self._keys: frozenset[str] | None = None
        self._keys_of = ""

    def take(self, dump: Dump, contents: Contents) -> None:
        """Compare one dump with those before it."""
        if not contents.rows:
            return
        twin = self._names.setdefault((contents.rows, contents.digest), dump.name)
        if twin != dump.name:
            rows = counted(contents.rows, "row")
            self._tally.add(
                "equal-files", dump.name, f"its {rows} are those of {shown_path(twin)}, apart from the step"
            )
        if contents.keys is None:
            return
        if self._keys is not None and contents.keys != self._keys:
            change = changed_keys(self._keys, contents.keys)
            self._tally.add("keys-between-files", dump.name, f"{change} against {shown_path(self._keys_of)}")
        self._keys, self._keys_of = contents.keys, dump.name


def stride_of(steps: Sequence[int]) -> int | None:
    """Return the distance that at least half of the neighbours have, None if none prevails.

    One that occurs once prevails only if the others are multiples of it.

    Args:
        steps: ascending, each once.
    """
    distances = Counter(later - earlier for earlier, later in itertools.pairwise(steps))
    if not distances:
        return None
    often = max(distances.values())
    stride = min(each for each, count in distances.items() if count == often)
    if often * 2 < len(steps) - 1 or (often == 1 and any(each % stride for each in distances)):
        return None
    return stride


def missing_steps(steps: Sequence[int], stride: int) -> list[range]:
    """Return the steps that are missing from a stride, gap by gap.

    A step off the stride, such as the last one of a run, is no gap.

    Args:
        steps: ascending, each once.
        stride: see `stride_of`.
    """
    grid = Counter(step % stride for step in steps).most_common(1)[0][0]
    gaps = []
    for earlier, later in itertools.pairwise(steps):
        first = earlier + 1 + (grid - earlier - 1) % stride
        if first < later:
            gaps.append(range(first, later, stride))
    return gaps


def as_ranges(gaps: Sequence[range]) -> str:
    """Return `4, 7..9`, and how many more there are."""
    parts = [f"{gap[0]}" if gap[0] == gap[-1] else f"{gap[0]}..{gap[-1]}" for gap in gaps[:_RANGES]]
    more = f" and {counted(len(gaps) - _RANGES, 'more gap')}" if len(gaps) > _RANGES else ""
    return ", ".join(parts) + more
