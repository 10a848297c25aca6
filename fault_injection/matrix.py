"""The exit matrix of one trainer: for each way out of `fit()` and each cell, whether data and errors came through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fault_injection.judge.exits import DATA, ERRORS
from fault_injection.ways import NOBODY, PENDING, WAYS, Cell, cell_of, cells_of, writes_of

if TYPE_CHECKING:
    from fault_injection.crew import UnitResult


@dataclass(frozen=True)
class Outcome:
    """What became of one cell.

    Args:
        cell: the cell.
        data: what was lost, or empty.
        errors: what was not told, or empty.
    """

    cell: Cell
    data: str = ""
    errors: str = ""

    @property
    def mark(self) -> str:
        """Two signs, of the data and of the errors: `+` came through, `L` lost, `.` not demanded."""
        return ("L" if self.data else "+") + (
            "L" if self.errors else "." if self.cell.errors == NOBODY else "+"
        )


def outcomes(results: Iterable[UnitResult]) -> tuple[Outcome, ...]:
    """The cells that a run has judged, in the order of the matrix.

    Args:
        results: of every unit of the run.
    """
    found: dict[tuple[str, str, str], Outcome] = {}
    for each in results:
        for result in each.results:
            cell = cell_of(each.unit.scenario, result.plan)
            if cell is None or cell.way.law not in result.laws:
                continue
            said = [v.message for v in result.violations if v.law == cell.way.law]
            outcome = Outcome(cell, _first(said, DATA), _first(said, ERRORS))
            found[cell.way.name, cell.pending, cell.write] = outcome
    return tuple(
        found[key]
        for way in WAYS
        for cell in cells_of(way)
        if (key := (way.name, cell.pending, cell.write)) in found
    )


def _first(messages: list[str], kind: str) -> str:
    return next((message.removeprefix(kind) for message in messages if message.startswith(kind)), "")


COLUMNS: tuple[tuple[str, str], ...] = tuple(
    (pending, write) for pending in PENDING for write in writes_of(WAYS[0], pending)
)
"""The columns of the matrix: what is pending, and what becomes of its write."""

NOT_STRUCK = "--"
"""The sign of a cell that was not judged: the trainer has no such operation, or was not to be run that far."""
LEGEND = "+ came through, L lost, . not demanded, -- not judged"
"""What the signs mean."""
_HEADS = {"none": "none", "one": "one pending", "several": "several pending"}


def as_table(found: tuple[Outcome, ...]) -> list[str]:
    """The matrix for people: a line for each way out, two signs a cell.

    Args:
        found: the outcomes of one trainer.
    """
    if not found:
        return []
    marks = {(o.cell.way.name, o.cell.pending, o.cell.write): o.mark for o in found}
    short = {write: write.replace("failing twice", "twice")[:7] for _, write in COLUMNS}
    width = max(len(way.name) for way in WAYS) + 1
    head = [f"exits of fit(): data, then errors ({LEGEND})"]
    groups = "".ljust(width)
    for pending in PENDING:
        columns = [write for p, write in COLUMNS if p == pending]
        groups += _HEADS[pending].ljust(8 * len(columns))
    head += [
        f"  {groups}".rstrip(),
        f"  {''.ljust(width)}" + "".join(short[w].ljust(8) for _, w in COLUMNS).rstrip(),
    ]
    lines = []
    for way in WAYS:
        cells = [marks.get((way.name, pending, write), "") for pending, write in COLUMNS]
        cells = [
            cell or (NOT_STRUCK if write in writes_of(way, pending) and pending in way.pending else "")
            for cell, (pending, write) in zip(cells, COLUMNS, strict=True)
        ]
        if any(cell not in {"", NOT_STRUCK} for cell in cells):
            lines.append(f"  {way.name.ljust(width)}" + "".join(cell.ljust(8) for cell in cells).rstrip())
    return head + lines


def as_values(found: tuple[Outcome, ...]) -> list[dict[str, str]]:
    """The matrix as JSON values: an object for each cell, with what was lost in it."""
    return [
        {
            "way": o.cell.way.name,
            "pending": o.cell.pending,
            "write": o.cell.write,
            "data": o.data or "held",
            "errors": "not demanded" if o.cell.errors == NOBODY else o.errors or "held",
        }
        for o in found
    ]
