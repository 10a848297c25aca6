"""Dict keys and column names of every hashable kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fault_injection.strategies.specimens import BrokenKey, Grade, Point, Role, Verdict
from fault_injection.strategies.text import texts

BASE_NAMES = ("score", "input", "output", "gts", "step")
"""Names that the columns of every row have."""
_NAMES = ("acc", "pred", "reward", "format_ok", "answer")
_STRANGE = (
    1,
    0,
    -1,
    True,
    False,
    None,
    1.5,
    1.0,
    1e16,
    2**70,
    math.inf,
    -math.inf,
    (1, "a"),
    (),
    b"b",
    frozenset({1}),
    Grade.FULL,
    Role.USER,
    Verdict.RIGHT,
    Point(1.0, 2.0),
    np.int64(7),
    np.uint8(7),
    np.bool_(True),
    np.float32(0.1),
    np.float64(0.5),
    np.str_("s"),
    np.datetime64("2026-01-01"),
)
_COLLIDING = (
    (1, "1"),
    (True, "true"),
    (None, "null"),
    (1.5, "1.5"),
    (np.int64(1), "1"),
    ((1,), "(1,)"),
    (b"b", "b'b'"),
    (Grade.FULL, "1"),
    ("\ud800", "\ud801"),
    ("\ud800", "\ufffd"),
    (Verdict.RIGHT, "Verdict.RIGHT"),
)


def plain_names() -> st.SearchStrategy[str]:
    """Names as reward functions give them."""
    return st.sampled_from(_NAMES)


def text_keys() -> st.SearchStrategy[str]:
    """Keys that are text, with every trouble of texts; none is the name of a base column."""
    return st.one_of(plain_names(), texts(max_size=4)).filter(lambda key: key not in BASE_NAMES)


def strange_keys() -> st.SearchStrategy[Any]:
    """Hashable keys that are no text: numbers, None, booleans, NaN, tuples, bytes, enums, numpy scalars."""
    # Each NaN is a key of its own, so it is made anew.
    nan = st.builds(float, st.just("nan"))
    return st.one_of(st.sampled_from(_STRANGE), nan)


def unnameable_keys() -> st.SearchStrategy[Any]:
    """Keys whose `str` raises."""
    return st.builds(BrokenKey)


def keys() -> st.SearchStrategy[Any]:
    """Keys of every hashable kind that has a text."""
    return st.one_of(text_keys(), strange_keys())


def colliding_keys() -> st.SearchStrategy[tuple[Any, Any]]:
    """Two different keys that are one as text, such as 1 and "1"."""
    two_nans = st.builds(lambda: (float("nan"), float("nan")))
    return st.one_of(st.sampled_from(_COLLIDING), two_nans)
