"""Numpy arrays of every rank, memory order, byte order and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fault_injection.strategies.scalars import number_dtypes
from fault_injection.strategies.text import texts

Array = np.ndarray[Any, Any]
_STRANGE = ("c8", "c16", "M8[ns]", "M8[D]", "m8[s]", "S3", "V4", "g", "i4,f8", [("a", "O"), ("b", "2i2")])


def shapes(rows: int | None = None) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of small arrays, from rank 0, or of columns.

    Args:
        rows: the size of the first dimension; None: any shape.
    """
    if rows is None:
        return hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    inner = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)
    return inner.map(lambda shape: (rows, *shape))


def number_arrays(shape: st.SearchStrategy[tuple[int, ...]] | None = None) -> st.SearchStrategy[Array]:
    """Arrays of numbers and booleans in every memory layout and byte order; NaN and infinities too.

    Args:
        shape: what shapes; None: any small one.
    """
    filled = st.tuples(number_dtypes(), shapes() if shape is None else shape).flatmap(
        lambda pair: hnp.arrays(*pair)
    )
    return st.builds(lambda array, layout: layout(array), filled, st.sampled_from(_LAYOUTS))


def text_arrays(shape: st.SearchStrategy[tuple[int, ...]] | None = None) -> st.SearchStrategy[Array]:
    """Arrays of text (dtype U), whose elements numpy strips of NUL at the end."""
    return object_arrays(texts(max_size=4), shape).map(lambda array: array.astype(np.str_))


def object_arrays(
    elements: st.SearchStrategy[Any], shape: st.SearchStrategy[tuple[int, ...]] | None = None
) -> st.SearchStrategy[Array]:
    """Arrays of Python objects, as `np.array(..., dtype=object)` in verl's non-tensor batches.

    Args:
        elements: what they hold.
        shape: what shapes; None: any small one.
    """

    def fill(size: tuple[int, ...]) -> st.SearchStrategy[Array]:
        count = int(np.prod(size, dtype=int))
        return st.lists(elements, min_size=count, max_size=count).map(lambda values: _objects(values, size))

    return (shapes() if shape is None else shape).flatmap(fill)


def masked_arrays(shape: st.SearchStrategy[tuple[int, ...]] | None = None) -> st.SearchStrategy[Array]:
    """Arrays some elements of which are masked."""

    def mask(array: Array) -> st.SearchStrategy[Array]:
        masks = hnp.arrays(bool, array.shape)
        return masks.map(lambda chosen: np.ma.masked_array(array, mask=chosen))

    return number_arrays(shape).flatmap(mask)


def strange_arrays(shape: st.SearchStrategy[tuple[int, ...]] | None = None) -> st.SearchStrategy[Array]:
    """Arrays of dtypes that JSON has no type for: complex, dates, bytes, records, long doubles."""
    dtypes = st.sampled_from(_STRANGE)
    return st.builds(
        lambda dtype, size: np.zeros(size, dtype=dtype), dtypes, shapes() if shape is None else shape
    )


def long_arrays() -> st.SearchStrategy[Array]:
    """Arrays of so many elements that numpy prints them with dots in the middle."""
    return st.builds(np.arange, st.integers(1001, 1003))


def arrays(elements: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Array]:
    """Arrays of every kind.

    Args:
        elements: what object arrays hold; None: numbers and text.
    """
    held = st.one_of(st.integers(0, 9), texts(), st.none()) if elements is None else elements
    return st.one_of(
        number_arrays(), text_arrays(), object_arrays(held), masked_arrays(), long_arrays(), strange_arrays()
    )


def _objects(values: list[Any], size: tuple[int, ...]) -> Array:
    # Element by element: numpy would take a list among the values for a dimension.
    flat = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        flat[i] = value
    return flat.reshape(size)


def _fortran(array: Array) -> Array:
    return np.asfortranarray(array)


def _strided(array: Array) -> Array:
    """The same elements, with others between them in memory."""
    if array.ndim == 0:
        return array
    wide = np.repeat(array, 2, axis=0)
    return wide[::2]


def _reversed(array: Array) -> Array:
    return array[::-1] if array.ndim else array


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _broadcast(array: Array) -> Array:
    """One row for all: every row of it is the same memory."""
    return np.broadcast_to(array[:1], array.shape) if array.ndim and len(array) else array


def _as_it_is(array: Array) -> Array:
    return array


_LAYOUTS = (_as_it_is, _fortran, _strided, _reversed, _read_only, _broadcast)
