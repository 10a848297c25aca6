"""Objects that JSON has no type for, those whose own methods raise, and those without a bottom."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import pathlib
import re
import types
import uuid
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from fault_injection.strategies.specimens import (
    BrokenKey,
    BrokenLength,
    BrokenMapping,
    BrokenSequence,
    BrokenText,
    DeepDict,
    DeepList,
    DeepTuple,
    Grade,
    LoudText,
    Point,
    Record,
    Role,
    Verdict,
)

_DAY = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
_UNKNOWN: tuple[Callable[[], Any], ...] = (
    lambda: {1},
    lambda: frozenset({1}),
    lambda: b"b",
    lambda: bytearray(b"b"),
    lambda: memoryview(b"b"),
    lambda: decimal.Decimal("0.1"),
    lambda: decimal.Decimal("NaN"),
    lambda: fractions.Fraction(1, 3),
    lambda: 1j,
    lambda: Verdict.RIGHT,
    Record,
    lambda: _DAY,
    _DAY.date,
    _DAY.time,
    lambda: dt.timedelta(seconds=1),
    lambda: pathlib.PurePosixPath("a/b"),
    lambda: uuid.UUID(int=1),
    lambda: re.compile("a"),
    lambda: iter([1]),
    lambda: (n for n in [1]),
    {"a": 1}.keys,
    {"a": 1}.values,
    lambda: len,
    lambda: int,
    lambda: ...,
    object,
    lambda: types.SimpleNamespace(a=1),
    lambda: ValueError("an error"),
)
_LIKE: tuple[Callable[[], Any], ...] = (
    lambda: Point(1.0, 2.0),
    lambda: Grade.FULL,
    lambda: Role.USER,
    lambda: range(3),
    lambda: deque([1, 2]),
    lambda: UserList([1]),
    lambda: UserDict(a=1),
    lambda: UserString("ab"),
    lambda: OrderedDict(b=1, a=2),
    lambda: defaultdict(list, a=[1]),
    lambda: Counter("a"),
    lambda: ChainMap({"a": 1}, {"b": 2}),
    lambda: types.MappingProxyType({"a": 1}),
    lambda: LoudText("secret"),
)
_BROKEN = (BrokenText, BrokenSequence, BrokenLength, BrokenMapping, lambda: {BrokenKey(): 1})


def unknown_objects() -> st.SearchStrategy[Any]:
    """Objects of types that JSON has no counterpart for: sets, bytes, decimals, enums, dataclasses, dates, paths."""
    return _made(_UNKNOWN)


def like_json() -> st.SearchStrategy[Any]:
    """Objects whose classes derive from a JSON type or behave as one: named tuples, int and str enums, user dicts."""
    return _made(_LIKE)


def broken_objects() -> st.SearchStrategy[Any]:
    """Objects whose `__str__`, `__repr__`, `__len__`, `__getitem__` or `__iter__` raise, also as keys."""
    return _made(_BROKEN)


def circular_objects() -> st.SearchStrategy[Any]:
    """Lists and dicts that contain themselves, directly or through each other."""
    return _made((_circular_list, _circular_dict, _circular_pair))


def deep_objects(depths: tuple[int, ...] = (10, 60, 300, 2000)) -> st.SearchStrategy[Any]:
    """Lists, dicts and tuples nested very deep.

    Args:
        depths: numbers of levels.
    """
    return st.builds(_nest, st.sampled_from((DeepList, DeepDict, DeepTuple)), st.sampled_from(depths))


def bottomless_objects() -> st.SearchStrategy[Any]:
    """What no recursion comes to the end of: circles, and nesting of 2,000 levels."""
    return st.one_of(circular_objects(), deep_objects((2000,)))


def _made(makers: Sequence[Callable[[], Any]]) -> st.SearchStrategy[Any]:
    # Made anew each time: iterators are used up, and a test may change what is mutable.
    return st.sampled_from(makers).map(lambda make: make())


def _circular_list() -> Any:
    circle: list[Any] = [1]
    circle.append(circle)
    return circle


def _circular_dict() -> Any:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    return circle


def _circular_pair() -> Any:
    first: dict[str, Any] = {}
    first["second"] = [{"first": first}]
    return first


def _nest(kind: type, depth: int) -> Any:
    value: Any = 1
    for _ in range(depth - 1):
        value = {"k": value} if kind is DeepDict else [value] if kind is DeepList else (value,)
    return kind({"k": value}) if kind is DeepDict else kind([value])
