"""What must come of a whole batch: its rows, or the error that names column, row and type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fault_injection.oracle import native
from fault_injection.oracle.outcome import Leaf, Outcome, Refusal
from fault_injection.oracle.policies import DEFAULTS, Policies
from fault_injection.oracle.values import Expecting, expected_value, type_names

BASE = ("input", "output", "gts", "score", "step")
"""The names of the columns that every row has."""


class BatchLike(Protocol):
    """What is handed over in one dump; `fault_injection.targets.base.Batch` is one."""

    @property
    def step(self) -> int:
        """The global step."""

    @property
    def inputs(self) -> Any:
        """N prompts."""

    @property
    def outputs(self) -> Any:
        """N responses."""

    @property
    def gts(self) -> Any:
        """N ground truths."""

    @property
    def scores(self) -> Any:
        """N scores."""

    @property
    def extras(self) -> Any:
        """Columns of n values by name."""


@dataclass(frozen=True)
class Column:
    """One column of the file.

    Args:
        name: the key that it has in every row.
        outcomes: what must come of the value in each row.
        laws: what is violated where the column is not there; for a column that is refused whole, where it is.
        kind: the type of what was handed over as the column.
        refused: whether the column as a whole must be refused.
        others: other keys that it may have instead, as its name is no text.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    laws: tuple[str, ...]
    kind: str
    refused: bool = False
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expectation:
    """What must come of a batch.

    Args:
        step: the global step.
        rows: the number of lines; None where the base columns do not agree.
        columns: in the order in which they were handed over.
        refusals: the errors that may come instead; of those with `must` one has to come.
    """

    step: int
    rows: int | None
    columns: tuple[Column, ...]
    refusals: tuple[Refusal, ...]

    @property
    def refused(self) -> bool:
        """Whether the batch must not be written."""
        return any(refusal.must for refusal in self.refusals)


def expect(batch: BatchLike, policies: Policies = DEFAULTS, *, gts: bool = True) -> Expectation:
    """Say what must come of a batch; call it before the batch is handed over, as the writer may change it.

    Args:
        batch: what is handed over.
        policies: what the writer declares.
        gts: whether the writer takes ground truths.
    """
    return _Building(policies).expectation(batch, gts=gts)


class _Building:
    """Builds the columns of one batch; the refusals met on the way are collected."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.refusals: list[Refusal] = []

    def expectation(self, batch: BatchLike, *, gts: bool) -> Expectation:
        base = {"input": batch.inputs, "output": batch.outputs, "gts": batch.gts, "score": batch.scores}
        if not gts or batch.gts is None:
            del base["gts"]
        found = {name: self.rows(name, values, None) for name, values in base.items()}
        lengths = {len(values) for values in found.values() if values is not None}
        count = lengths.pop() if len(lengths) == 1 else None
        if lengths:
            sizes = tuple((name, len(rows)) for name, rows in found.items() if rows is not None)
            reason = f"base columns differ in length ({', '.join(f'{name} {size}' for name, size in sizes)})"
            self.refusals.append(Refusal(reason, (), ("C3",), at_call=True, lengths=sizes))
        columns = {
            name: self.column(name, base[name], rows, ("D1",))
            for name, rows in found.items()
            if rows is not None
        }
        if count is not None:
            step = Outcome(Leaf(batch.step, ("C2", "D1"), "int"))
            columns["step"] = Column("step", (step,) * count, ("D1",), "int")
            self.extras(batch.extras, count, columns)
        return Expectation(batch.step, count, tuple(columns.values()), tuple(dict.fromkeys(self.refusals)))

    def extras(self, extras: Any, count: int, columns: dict[str, Column]) -> None:
        if extras is None:
            return
        if not isinstance(extras, Mapping):
            reason = "the extras are no dict of columns"
            self.refusals.append(Refusal(reason, (type(extras).__name__, "dict"), ("C4",), at_call=True))
            return
        expecting = Expecting(self.policies)
        texts = [(key, values, expecting.texts(key)) for key, values in list(extras.items())]
        self.refusals += expecting.refusals
        named = [each for each in texts if each[2]]
        keys, spelled = [key for key, _, _ in named], [names for _, _, names in named]
        for (names, other), (key, values, own) in zip(
            expecting.names(keys, spelled, BASE), named, strict=True
        ):
            text = own[0]
            if other is not None:
                law = "C2" if other < 0 else "S5"
                reason = f"two columns are named {text!r}"
                self.refusals.append(Refusal(reason, (), (law,), must=not names, column=text, others=own))
            if names:
                plain = isinstance(key, str) and names[0] == text
                laws = ("C2",) if text in BASE else ("C1",) if plain else ("S5",)
                self.extra_column(names, laws, values, count, columns)

    def extra_column(
        self,
        names: tuple[str, ...],
        laws: tuple[str, ...],
        values: Any,
        count: int,
        columns: dict[str, Column],
    ) -> None:
        name, others = names[0], names[1:]
        begin = len(self.refusals)
        column = self.fitting(name, laws, values, self.rows(name, values, count), count)
        # An error may name the column by any of its names.
        self.refusals[begin:] = [replace(each, others=others) for each in self.refusals[begin:]]
        columns[name] = replace(column, others=others)

    def fitting(
        self, name: str, laws: tuple[str, ...], values: Any, rows: list[Any] | None, count: int
    ) -> Column:
        """An extra column of the batch, refused where it has not a value for each row."""
        if rows is None:
            return Column(name, (), ("C4",), type(values).__name__, refused=True)
        if len(rows) < count and self.policies.ragged == "pad":
            rows = [*rows, *[None] * (count - len(rows))]
        if len(rows) != count:
            reason = f"column {name!r} has {len(rows)} values for {count} rows"
            self.refusals.append(Refusal(reason, (), ("C1",), column=name))
            return Column(name, (), ("C1",), type(values).__name__, refused=True)
        return self.column(name, values, rows, laws)

    def rows(self, name: str, values: Any, count: int | None) -> list[Any] | None:
        """The rows of what was handed over as a column; None where it is none."""
        try:
            rows = native.rows(values) if native.is_native(values) else _sequence(values)
        except Exception:  # noqa: BLE001 - an object's own method may raise anything
            rows = None
        if rows is None and count is not None and self.policies.scalar == "repeat":
            return [values] * count
        if rows is None:
            kind = type(values).__name__
            reason = f"a {kind} is no column"
            self.refusals.append(Refusal(reason, type_names(values), ("C4",), column=name, at_call=True))
        return rows

    def column(self, name: str, values: Any, rows: list[Any], laws: tuple[str, ...]) -> Column:
        """Work out each value; refusals of a typed array concern the column, and need not name a row."""
        outcomes = []
        typed = native.is_native(values) and not _holds_objects(values)
        for row, value in enumerate(rows):
            outcome = expected_value(value, self.policies)
            outcomes.append(outcome)
            self.refusals += [
                replace(
                    refusal,
                    column=name,
                    row=None if typed else row,
                    types=(*refusal.types, *type_names(values)) if typed else refusal.types,
                )
                for refusal in outcome.refusals
            ]
        return Column(name, tuple(outcomes), laws, type(values).__name__)


def _holds_objects(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "kind", "") == "O" or native.is_a(
        values, "pandas", "Series"
    )


def _sequence(values: Any) -> list[Any] | None:
    """The rows of a list, a tuple or another sequence that is no text."""
    if isinstance(values, (str, bytes, bytearray, memoryview)) or type(values).__name__ == "UserString":
        return None
    return list(values) if isinstance(values, Sequence) else None
