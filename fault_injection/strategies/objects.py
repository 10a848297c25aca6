"""Objects that JSON has no type for, those whose own methods raise, and those without a bottom."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import pathlib
import re
import types
import uuid
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from hypothesis import strategies as st


class Verdict(enum.Enum):
    """An enum of no JSON type."""

    RIGHT = "right"
    WRONG = 0


class Grade(enum.IntEnum):
    """An enum whose members are integers."""

    NONE = 0
    FULL = 1


class Role(str, enum.Enum):
    """An enum whose members are text."""

    USER = "user"
    ASSISTANT = "assistant"


class Point(NamedTuple):
    """A tuple with names."""

    x: float
    y: float


@dataclass(frozen=True)
class Record:
    """A dataclass."""

    name: str = "n"
    value: int = 1


class _Shown:
    """Lets Hypothesis report an object that cannot show itself."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - the hook's own signature
        printer.text(f"{type(self).__name__}()")


class BrokenText(_Shown):
    """An object that can be neither shown nor measured nor iterated."""

    def _raise(self, *_: Any) -> NoReturn:
        raise RuntimeError("this object raises")

    __str__ = __repr__ = __len__ = __getitem__ = __iter__ = _raise


class BrokenSequence(_Shown, Sequence[Any]):
    """A sequence that raises when it is read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> NoReturn:
        raise RuntimeError("this sequence raises")


class BrokenLength(_Shown, list[Any]):
    """A list whose length cannot be had."""

    def __len__(self) -> int:
        raise RuntimeError("this length raises")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("this list raises")


class BrokenMapping(_Shown, Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["k"])

    def __getitem__(self, key: str) -> NoReturn:
        raise RuntimeError("this mapping raises")


class BrokenKey(_Shown):
    """A key that cannot be shown."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("this key raises")

    __repr__ = __str__


class _Deep(_Shown):
    """Lets a report show what is nested deeper than Python can show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DeepList(_Deep, list[Any]):
    """The outermost of many lists, one in another."""


class DeepDict(_Deep, dict[str, Any]):
    """The outermost of many dicts, one in another."""


class DeepTuple(_Deep, tuple[Any, ...]):
    """The outermost of many tuples, one in another."""

    __slots__ = ()


class LoudText(str):
    """A text whose `str()` is not itself, as of classes that mask secrets."""

    __slots__ = ()

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__


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
