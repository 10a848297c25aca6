"""Whole batches as trainers dump them, and one strategy for each law."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from fault_injection.strategies.arrays import strange_arrays
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
    colliding_keys,
    keys,
    plain_names,
    strange_keys,
    unnameable_keys,
)
from fault_injection.strategies.objects import bottomless_objects, broken_objects, unknown_objects
from fault_injection.strategies.scalars import (
    big_integers,
    finite_floats,
    non_finite,
    python_scalars,
    strange_numpy_scalars,
)
from fault_injection.strategies.text import line_break_texts, long_texts, surrogate_texts, texts
from fault_injection.strategies.values import (
    array_values,
    json_values,
    messages,
    nested,
    refused_values,
    tensor_values,
    values,
    writable_values,
)
from fault_injection.targets.base import Batch

Extras = st.SearchStrategy[dict[Any, Any]]
_PLAIN = st.sampled_from(("a", "b", ""))
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
    written = _PLAIN if prompts is None else prompts
    points = st.sampled_from((0.0, 1.0)) if scores is None else scores

    def build(rows: int) -> st.SearchStrategy[Batch]:
        return st.builds(
            Batch,
            step=st.integers(0, 3),
            inputs=listed(rows, written),
            outputs=listed(rows, written),
            gts=listed(rows, written),
            scores=listed(rows, points),
            extras=st.just({}) if extras is None else extras(rows),
        )

    # Made once for each number of rows: to make them anew for each example takes longer than to draw from them.
    sizes = {rows: build(rows) for rows in range(min_rows, MAX_ROWS + 1)}
    return st.sampled_from(sorted(sizes, key=lambda rows: (rows == 0, rows))).flatmap(sizes.__getitem__)


def with_cells(cells: st.SearchStrategy[Any], **options: Any) -> st.SearchStrategy[Batch]:
    """Batches with one extra column that lists these values.

    Args:
        cells: the values.
        **options: as for `batches`.
    """
    return batches(extras=lambda rows: _one(plain_names(), listed(rows, cells)), **options)


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
            st.dictionaries(keys(), fitting, max_size=2), _one(keys(), misfits), _one(names, fitting)
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


@functools.cache
def for_law(law: str, *, torch: bool = False, pandas: bool = False) -> st.SearchStrategy[Batch]:
    """The batches that one law of the groups S and C is about.

    Args:
        law: its identifier, S1 to S9 or C1 to C5.
        torch: whether tensors may be among them; S6 is about nothing else, and needs it.
        pandas: whether Series may be among them.

    Raises:
        ValueError: there is no such law, or S6 is asked for without torch.
    """
    if law == "S6" and not torch:
        raise ValueError("S6 is about tensors: ask for it with torch=True")
    if law in {"C5", "S1", "C4"}:
        return {"C5": generations, "S1": _typed, "C4": _columns_of_no_kind}[law](torch=torch, pandas=pandas)
    if law not in _LAWS:
        raise ValueError(f"{law!r} is no law of the groups S and C with a strategy")
    return _LAWS[law]()


def _typed(*, torch: bool, pandas: bool) -> st.SearchStrategy[Batch]:
    cells = st.one_of(array_values(), json_values(), writable_values(torch=torch))
    return batches(extras=lambda rows: _one(plain_names(), columns(rows, cells, torch=torch, pandas=pandas)))


def _columns_of_no_kind(*, torch: bool, pandas: bool) -> st.SearchStrategy[Batch]:
    del torch, pandas
    return batches(extras=lambda rows: _one(plain_names(), no_columns(rows)))


def _keyed() -> st.SearchStrategy[Batch]:
    single = st.dictionaries(strange_keys(), st.integers(0, 9), min_size=1, max_size=2)
    cells = st.one_of(
        single,
        nested(single, keys(), max_leaves=2),
        colliding_keys().map(lambda pair: dict.fromkeys(pair, 0)),
        unnameable_keys().map(lambda key: {key: 0}),
    )
    numbers = st.integers(0, 9)
    return batches(
        extras=lambda rows: st.one_of(
            _one(plain_names(), listed(rows, cells)),
            _one(strange_keys(), listed(rows, numbers)),
            colliding_keys().map(lambda pair: {key: [0] * rows for key in pair}),
        )
    )


def _spelled(words: st.SearchStrategy[str]) -> st.SearchStrategy[Batch]:
    """Batches with such texts as prompts, as values, and as keys."""

    def extras(rows: int) -> Extras:
        single = st.dictionaries(words, st.just(0), min_size=1, max_size=1)
        return st.one_of(
            st.just({}),
            _one(plain_names(), listed(rows, st.one_of(nested(words), single))),
            _one(words, listed(rows, st.just(0))),
        )

    return batches(prompts=st.one_of(_PLAIN, words), extras=extras)


def _unequal() -> st.SearchStrategy[Batch]:
    """Batches one base column of which is longer or shorter, or is no column."""

    def shorten(batch: Batch, name: str, change: int) -> Batch:
        given = {key: getattr(batch, key) for key in ("inputs", "outputs", "gts", "scores")}
        column = given[name]
        given[name] = column[:-1] if change < 0 else [*column, column[0]]
        return Batch(step=batch.step, **given)

    names = st.sampled_from(("inputs", "outputs", "gts", "scores"))
    return st.builds(shorten, batches(), names, st.sampled_from((1, -1)))


def _one(names: st.SearchStrategy[Any], column: st.SearchStrategy[Any]) -> Extras:
    return st.tuples(names, column).map(lambda pair: {pair[0]: pair[1]})


_UNWRITABLE = (
    unknown_objects(),
    broken_objects(),
    strange_numpy_scalars(),
    strange_arrays(),
    bottomless_objects(),
    refused_values(),
)
_LAWS: dict[str, Callable[[], st.SearchStrategy[Batch]]] = {
    "S2": lambda: batches(
        scores=st.one_of(st.just(0.0), non_finite()),
        extras=lambda rows: st.one_of(st.just({}), _one(plain_names(), listed(rows, nested(non_finite())))),
    ),
    "S3": lambda: _spelled(st.one_of(surrogate_texts(), texts())),
    "S4": lambda: with_cells(nested(st.one_of(big_integers(), finite_floats()))),
    "S5": _keyed,
    "S6": lambda: with_cells(tensor_values()),
    "S7": lambda: batches(
        extras=lambda rows: st.one_of(
            _one(plain_names(), listed(rows, st.one_of(_UNWRITABLE))),
            _one(plain_names(), strange_columns(rows)),
        )
    ),
    "S8": lambda: _spelled(line_break_texts()),
    "S9": uniform,
    "C1": lambda: batches(extras=lambda rows: _one(plain_names(), ragged(rows, st.integers(0, 9)))),
    "C2": lambda: batches(
        extras=lambda rows: _one(st.sampled_from(BASE_NAMES), listed(rows, st.integers(0, 9)))
    ),
    "C3": _unequal,
}
