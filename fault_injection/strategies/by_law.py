"""The batches that each law of the groups S and C is about."""

from __future__ import annotations

import functools
from collections.abc import Callable

from hypothesis import strategies as st

from fault_injection.strategies.arrays import strange_arrays
from fault_injection.strategies.columns import (
    columns,
    listed,
    no_columns,
    ragged,
    strange_columns,
)
from fault_injection.strategies.generations import (
    PLAIN,
    Extras,
    batches,
    generations,
    one_column,
    uniform,
    with_cells,
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
    strange_numpy_scalars,
)
from fault_injection.strategies.text import line_break_texts, surrogate_texts, texts
from fault_injection.strategies.values import (
    array_values,
    json_values,
    nested,
    refused_values,
    tensor_values,
    writable_values,
)
from fault_injection.targets.base import Batch


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
    return batches(
        extras=lambda rows: one_column(plain_names(), columns(rows, cells, torch=torch, pandas=pandas))
    )


def _columns_of_no_kind(*, torch: bool, pandas: bool) -> st.SearchStrategy[Batch]:
    del torch, pandas
    return batches(extras=lambda rows: one_column(plain_names(), no_columns(rows)))


def _keyed() -> st.SearchStrategy[Batch]:
    single = st.dictionaries(strange_keys(), st.integers(0, 9), min_size=1, max_size=2)
    cells = st.one_of(
        single,
        nested(single, keys(), max_leaves=2),
        colliding_keys().map(lambda pair: dict.fromkeys(pair, 0)),
        unnameable_keys().map(lambda key: {key: 0}),
    )
    # One strange name or two that collide, both with the same values, so that two shrink to one.
    names = st.one_of(strange_keys().map(lambda key: (key,)), colliding_keys())
    return batches(
        extras=lambda rows: st.one_of(
            one_column(plain_names(), listed(rows, cells)),
            names.map(lambda found: {key: [0] * rows for key in found}),
        )
    )


def _spelled(words: st.SearchStrategy[str]) -> st.SearchStrategy[Batch]:
    """Batches with such texts as prompts, as values, and as keys."""

    def extras(rows: int) -> Extras:
        single = st.dictionaries(words, st.just(0), min_size=1, max_size=1)
        return st.one_of(
            st.just({}),
            one_column(plain_names(), listed(rows, st.one_of(nested(words), single))),
            one_column(words, listed(rows, st.just(0))),
        )

    return batches(prompts=st.one_of(PLAIN, words), extras=extras)


def _unequal() -> st.SearchStrategy[Batch]:
    """Batches one base column of which is longer or shorter, or is no column."""

    def shorten(batch: Batch, name: str, change: int) -> Batch:
        given = {key: getattr(batch, key) for key in ("inputs", "outputs", "gts", "scores")}
        column = given[name]
        given[name] = column[:-1] if change < 0 else [*column, column[0]]
        return Batch(step=batch.step, **given)

    names = st.sampled_from(("inputs", "outputs", "gts", "scores"))
    return st.builds(shorten, batches(), names, st.sampled_from((1, -1)))


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
        extras=lambda rows: st.one_of(
            st.just({}), one_column(plain_names(), listed(rows, nested(non_finite())))
        ),
    ),
    "S3": lambda: _spelled(st.one_of(surrogate_texts(), texts())),
    "S4": lambda: with_cells(nested(st.one_of(big_integers(), finite_floats()))),
    "S5": _keyed,
    "S6": lambda: with_cells(tensor_values()),
    "S7": lambda: batches(
        extras=lambda rows: st.one_of(
            one_column(plain_names(), listed(rows, st.one_of(_UNWRITABLE))),
            one_column(plain_names(), strange_columns(rows)),
        )
    ),
    "S8": lambda: _spelled(line_break_texts()),
    "S9": uniform,
    "C1": lambda: batches(extras=lambda rows: one_column(plain_names(), ragged(rows, st.integers(0, 9)))),
    "C2": lambda: batches(
        extras=lambda rows: one_column(st.sampled_from(BASE_NAMES), listed(rows, st.integers(0, 9)))
    ),
    "C3": _unequal,
}
