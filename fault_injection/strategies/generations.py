"""Whole batches as trainers dump them, and one strategy for each law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from fault_injection.strategies.columns import (
    columns,
    holes,
    listed,
    no_columns,
    ragged,
    strange_columns,
)
from fault_injection.strategies.keys import (
    BASE_NAMES,
    keys,
    plain_names,
)
from fault_injection.strategies.scalars import (
    finite_floats,
    python_scalars,
)
from fault_injection.strategies.text import long_texts, texts
from fault_injection.strategies.values import (
    messages,
    values,
    writable_values,
)
from fault_injection.targets.base import Batch

Extras = st.SearchStrategy[dict[Any, Any]]
PLAIN = st.sampled_from(("a", "b", ""))
MAX_ROWS = 3
"""Rows of a batch at most: a defect of one row shows in one."""


def batches(
    *,
    prompts: st.SearchStrategy[Any] | None = None,
    scores: st.SearchStrategy[Any] | None = None,
    extras: Callable[[int], Extras] | None = None,
    min_rows: int = 1,
) -> st.SearchStrategy[Batch]:
    """Batches of 1 to 3 rows whose base columns are lists; they shrink to one row and no extra column.

    Args:
        prompts: the values of inputs, outputs and ground truths; None: plain short texts.
        scores: the scores; None: 0.0 and 1.0.
        extras: makes the extra columns for a number of rows; None: there are none.
        min_rows: rows at least.
    """
    written = PLAIN if prompts is None else prompts
    points = st.sampled_from((0.0, 1.0)) if scores is None else scores
    # Row by row, so that a row less is one choice less to the shrinker; the extra columns come after all that it moves.
    bases = st.lists(
        st.tuples(written, written, written, points), min_size=max(min_rows, 1), max_size=MAX_ROWS
    )
    if min_rows == 0:
        bases = st.one_of(bases, st.just([]))
    # Made once for each number of rows: to make them anew for each example takes longer than to draw from them.
    beside = {rows: st.just({}) if extras is None else extras(rows) for rows in range(min_rows, MAX_ROWS + 1)}

    @st.composite
    def build(draw: st.DrawFn) -> Batch:
        rows = draw(bases)
        inputs, outputs, gts, given = ([row[at] for row in rows] for at in range(4))
        return Batch(
            step=draw(st.integers(0, 3)),
            inputs=inputs,
            outputs=outputs,
            gts=gts,
            scores=given,
            extras=draw(beside[len(rows)]),
        )

    return build()


def with_cells(cells: st.SearchStrategy[Any], **options: Any) -> st.SearchStrategy[Batch]:
    """Batches with one extra column that lists these values.

    Args:
        cells: the values.
        **options: as for `batches`.
    """
    return batches(extras=lambda rows: one_column(plain_names(), listed(rows, cells)), **options)


def generations(*, torch: bool = False, pandas: bool = False) -> st.SearchStrategy[Batch]:
    """Batches of every kind: all values, keys, columns, misfits and name collisions.

    Args:
        torch: whether tensors are among them.
        pandas: whether Series are among them.
    """

    def extras(rows: int) -> Extras:
        cells = values(torch=torch)
        fitting = columns(rows, cells, torch=torch, pandas=pandas)
        misfits = st.one_of(ragged(rows, cells), no_columns(rows), strange_columns(rows))
        names = st.one_of(keys(), st.sampled_from(BASE_NAMES))
        return st.one_of(
            st.dictionaries(keys(), fitting, max_size=2),
            one_column(keys(), misfits),
            one_column(names, fitting),
        )

    return batches(prompts=st.one_of(texts(), messages()), scores=python_scalars(), extras=extras, min_rows=0)


def writable(*, torch: bool = False, pandas: bool = False) -> st.SearchStrategy[Batch]:
    """Batches as reward functions really return them, all of which can be written.

    Args:
        torch: whether dense tensors are among them.
        pandas: whether Series are among them.
    """

    def extras(rows: int) -> Extras:
        cells = st.one_of(writable_values(torch=torch), messages())
        fitting = columns(rows, cells, torch=torch, pandas=pandas)
        return st.dictionaries(plain_names(), st.one_of(fitting, holes(rows, cells)), max_size=2)

    return batches(prompts=texts(), scores=finite_floats(), extras=extras)


def uniform() -> st.SearchStrategy[Batch]:
    """Batches each column of which holds values of one type, as columnar readers want them."""
    kinds: tuple[st.SearchStrategy[Any], ...] = (
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
        st.booleans(),
        texts(),
        st.lists(st.integers(0, 9), max_size=2),
        st.fixed_dictionaries({"a": st.integers(0, 9), "b": texts()}),
    )

    def extras(rows: int) -> Extras:
        column = st.sampled_from(kinds).flatmap(
            lambda kind: st.one_of(listed(rows, kind), listed(rows, st.one_of(kind, st.none())))
        )
        return st.dictionaries(plain_names(), column, max_size=2)

    return batches(prompts=st.one_of(texts(), long_texts(70_000)), extras=extras)


def one_column(names: st.SearchStrategy[Any], column: st.SearchStrategy[Any]) -> Extras:
    """Extras of one column.

    Args:
        names: what it is called.
        column: what it holds.
    """
    return st.tuples(names, column).map(lambda pair: {pair[0]: pair[1]})
