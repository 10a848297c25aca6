"""Scalars of Python and numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fault_injection.strategies.text import texts

NON_FINITE = (math.nan, math.inf, -math.inf, -math.nan)
"""The doubles that JSON cannot hold."""
_EDGES = (2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30 + 1, 10**400)
_FLOATS = (0.1, -0.0, 1e16, 1e22, 1e23, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1 / 3, 100.0)
_NUMBERS = "?bBhHiIlLqQefd"


def big_integers() -> st.SearchStrategy[int]:
    """Integers beyond 64 bits, or at the edge of them."""
    return st.one_of(
        st.integers(2**64, 2**70), st.sampled_from(_EDGES), st.integers(2**64, 2**200).map(lambda n: -n)
    )


def finite_floats() -> st.SearchStrategy[float]:
    """Doubles, among them those that printing and parsing get wrong first."""
    return st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(_FLOATS))


def non_finite() -> st.SearchStrategy[Any]:
    """NaN and the infinities, as Python's and as numpy's floats of each width."""
    kinds = st.sampled_from((float, np.float64, np.float32, np.float16, np.longdouble))
    return st.builds(lambda kind, value: kind(value), kinds, st.sampled_from(NON_FINITE))


def python_scalars() -> st.SearchStrategy[Any]:
    """What Python's own JSON has a type for: None, bool, int, float, str; NaN and big integers too."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        finite_floats(),
        texts(),
        st.sampled_from(NON_FINITE),
        big_integers(),
    )


def number_dtypes(byte_order: str = "?") -> st.SearchStrategy[np.dtype[Any]]:
    """The dtypes of numpy whose values are JSON numbers or booleans.

    Args:
        byte_order: `<`, `>`, or `?` for either.
    """
    orders = st.sampled_from(("=", ">", "<") if byte_order == "?" else (byte_order,))
    return st.builds(
        lambda char, order: np.dtype(char).newbyteorder(order), st.sampled_from(_NUMBERS), orders
    )


def number_scalars() -> st.SearchStrategy[Any]:
    """Numpy scalars that are JSON numbers or booleans: every width, the long double left out."""
    return number_dtypes("=").flatmap(_scalars_of)


def numpy_scalars() -> st.SearchStrategy[Any]:
    """Numpy scalars of every dtype: numbers, text, and those that JSON has no type for."""
    return st.one_of(number_scalars(), st.builds(np.str_, texts()), strange_numpy_scalars())


def strange_numpy_scalars() -> st.SearchStrategy[Any]:
    """Numpy scalars that JSON has no type for: long doubles, complex, dates, durations, bytes, records."""
    units = st.sampled_from(("D", "s", "ns"))
    return st.one_of(
        st.builds(np.longdouble, st.sampled_from((0.5, "0.1", math.nan))),
        st.builds(np.complex64, st.integers(0, 3)),
        st.builds(np.complex128, st.complex_numbers(max_magnitude=10)),
        st.builds(np.datetime64, st.integers(0, 10), units),
        st.builds(np.timedelta64, st.integers(0, 10), units),
        st.builds(lambda: np.datetime64("NaT", "s")),
        st.builds(np.bytes_, st.binary(max_size=3)),
        st.builds(lambda: np.void(b"ab")),
        st.builds(lambda: np.zeros((), dtype=[("a", "i4"), ("b", "f8")])[()]),
    )


def _scalars_of(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    return hnp.from_dtype(dtype).map(dtype.type)
