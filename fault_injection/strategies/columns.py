"""Columns of a batch in every form that trainers hand over, and what is none."""

from __future__ import annotations

import importlib
import importlib.util
from collections import UserString, deque
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fault_injection.strategies.arrays import (
    masked_arrays,
    number_arrays,
    object_arrays,
    shapes,
    strange_arrays,
    text_arrays,
)
from fault_injection.strategies.tensors import dense_tensors
from fault_injection.strategies.text import texts


def has_pandas() -> bool:
    """Whether pandas is installed; it is not imported to find out."""
    return importlib.util.find_spec("pandas") is not None


def listed(rows: int, cells: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A list with a value for each row.

    Args:
        rows: the number of rows.
        cells: the values.
    """
    return st.lists(cells, min_size=rows, max_size=rows)


def columns(
    rows: int, cells: st.SearchStrategy[Any], *, torch: bool = False, pandas: bool = False
) -> st.SearchStrategy[Any]:
    """A column of any form, the right number of values in it; it shrinks to a list.

    Args:
        rows: the number of rows.
        cells: the values of lists, tuples and object arrays.
        torch: whether tensors are among the forms.
        pandas: whether Series are among the forms.
    """
    values = listed(rows, cells)
    forms = [values, values.map(tuple), object_arrays(cells, st.just((rows,))), values.map(deque)]
    forms += [number_columns(rows), text_arrays(st.just((rows,))), masked_arrays(shapes(rows))]
    forms += [dense_tensors(rows)] if torch else []
    forms += [series(rows, cells)] if pandas else []
    return st.one_of(forms)


def number_columns(rows: int) -> st.SearchStrategy[Any]:
    """A column that is an array of numbers, of rank 1 or more.

    Args:
        rows: the number of rows.
    """
    return number_arrays(shapes(rows))


def strange_columns(rows: int) -> st.SearchStrategy[Any]:
    """A column that is an array of a dtype that JSON has no type for.

    Args:
        rows: the number of rows.
    """
    return strange_arrays(shapes(rows))


def series(rows: int, cells: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A column that is a `pd.Series`: of objects, of a numpy dtype or of a nullable one, with an index from 1.

    Args:
        rows: the number of rows.
        cells: the values of a Series of objects.
    """

    def make(values: list[Any], dtype: str) -> Any:
        pandas = importlib.import_module("pandas")
        # An index that does not start at 0 tells whoever takes the labels for positions.
        return pandas.Series(values, index=range(1, rows + 1), dtype=dtype)

    numbers = listed(rows, st.integers(0, 9))
    return st.one_of(
        st.builds(make, numbers, st.sampled_from(("int64", "float32", "category"))),
        st.builds(make, listed(rows, st.one_of(st.integers(0, 9), st.none())), st.just("Int64")),
        st.builds(make, listed(rows, cells), st.just("object")),
    )


def holes(rows: int, cells: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """A column in which some rows have no value: None, or NaN as pandas marks it.

    Args:
        rows: the number of rows.
        cells: the values of the others.
    """
    return listed(rows, st.one_of(cells, st.none(), st.just(float("nan"))))


def ragged(rows: int, cells: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A column with fewer or more values than rows: none, one less, one more, or one for each of n samples.

    Args:
        rows: the number of rows.
        cells: the values.
    """
    sizes = [size for size in dict.fromkeys((rows + 1, 0, rows - 1, 2 * rows)) if size >= 0 and size != rows]
    lists = st.sampled_from(sizes).flatmap(lambda size: listed(size, cells))
    return st.one_of(lists, lists.map(tuple), st.sampled_from(sizes).map(np.zeros))


def no_columns(rows: int) -> st.SearchStrategy[Any]:
    """What is no column: scalars, 0-d arrays, None, dicts, sets, and texts that have a character for each row.

    Args:
        rows: the number of rows.
    """
    return st.one_of(
        st.just("x" * rows),
        texts(),
        st.sampled_from((1, 0.5, True, None, b"b" * rows)),
        st.builds(dict.fromkeys, st.just(range(rows)), st.just(0)),
        st.builds(dict, st.just([("mean", 0.5)])),
        st.builds(np.array, st.integers(0, 3)),
        st.builds(np.float32, st.just(0.5)),
        st.builds(np.str_, st.just("x" * rows)),
        st.builds(lambda: set(range(rows))),
        st.builds(lambda: iter(range(rows))),
        st.builds(UserString, st.just("x" * rows)),
    )
