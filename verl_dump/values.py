"""Values of any kind as JSON's own types, by declared policies."""

from __future__ import annotations

import math
import re
import sys
from collections import UserString
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar

from verl_dump import native
from verl_dump.policies import Policies

MAX_DEPTH = 100
"""Levels of lists and dicts in one value: a limit of its own, whatever stack the caller has left."""
# The digits that `int` converts to text by default; a longer number could not be read back either.
_MAX_INT_BITS = 14_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONSTANTS = {None: "null", True: "true", False: "false"}
T = TypeVar("T")
_UNCHANGED = frozenset((str, bool, NoneType))
_NO_SEQUENCES = (str, bytes, bytearray, memoryview, UserString)


def whole(text: str) -> str:
    """Replace lone surrogates, which neither UTF-8 nor a strict JSON parser takes, by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class Copier:
    """Copies values to JSON's own types, and adds up the bytes that the copies hold.

    What cannot be copied raises `TypeError` or `ValueError` with the reason.
    """

    def __init__(self, policies: Policies) -> None:
        self.size = 0
        self._policies = policies
        self._depth = 0
        self._by_type: dict[type, Callable[[Any], Any]] = {
            **dict.fromkeys((bool, NoneType), _as_it_is),
            # Of these very classes no value has to be asked for its number; `_way` finds what copies the others.
            int: self._integer,
            float: self._floating,
        }

    def rows(self, values: Any) -> list[Any] | None:
        """Return the values of a column as a new list; None when it is no column."""
        if isinstance(values, _NO_SEQUENCES):
            return None
        if isinstance(values, Sequence):
            return asked(values, list[Any])
        if native.is_array(values) and asked(values, lambda array: array.ndim):
            return list(self._native(values))
        return None

    def names(self, keys: Sequence[Any], owner: str, reserved: Sequence[str] = ()) -> list[str]:
        """Return keys of any kind as different texts, none of them reserved.

        Args:
            keys: the keys of one dict.
            owner: what has them, in the words of an error.
            reserved: names that others have.
        """
        texts = [self._key(key) for key in keys]
        self.size += sum(map(sys.getsizeof, texts))
        if len({*texts, *reserved}) == len(texts) + len(reserved):
            return texts
        if self._policies.collide == "error":
            text = next(text for i, text in enumerate(texts) if text in reserved or text in texts[:i])
            raise ValueError(f"{owner} has two keys {text!r}, as text: rename one")
        # Keys that are this very text keep it, in whatever order they come.
        first = {text: i for i, text in reversed(list(enumerate(texts))) if text not in reserved}
        first |= {text: i for i, text in enumerate(texts) if _is_text(keys[i], text) and text not in reserved}
        taken = {*texts, *reserved}
        for i, text in enumerate(texts):
            if text in reserved or first[text] != i:
                stem = f"extra_{text}" if text in reserved else f"{text} ({type(keys[i]).__name__})"
                texts[i], number = stem, 1
                while texts[i] in taken:
                    texts[i], number = f"{stem}_{number + 1}", number + 1
                taken.add(texts[i])
        return texts

    def flat(self, items: list[Any]) -> list[Any] | None:
        """Take over a list of scalars of one kind without a call for each, which is what makes a copy cheap."""
        self.size += sys.getsizeof(items)
        kinds = set(map(type, items))
        if (
            kinds <= _UNCHANGED
            or (kinds == {float} and math.isfinite(sum(items)))  # one that overflows only goes the long way
            or (kinds == {int} and max(*items, -min(items)).bit_length() <= _MAX_INT_BITS)
        ):
            self.size += sum(map(sys.getsizeof, items))
            return items
        return None

    def value(self, value: Any) -> Any:
        """Copy one value at any depth."""
        copy = self._by_type.get(type(value))
        if copy is None:
            copy = self._way(value)
            # Nearly all values of a dump are of a few classes; a proxy has that of what it stands for.
            if value.__class__ is type(value):
                self._by_type[type(value)] = copy
        return copy(value)

    def _way(self, value: Any) -> Callable[[Any], Any]:
        """Return what copies values of that class."""
        if isinstance(value, (str, UserString)):
            return self._text
        if isinstance(value, int):
            return lambda value: self._integer(asked(value, int.__index__))
        if isinstance(value, float):
            return lambda value: self._floating(asked(value, float.__float__))
        if isinstance(value, Mapping):
            return self._mapping
        if isinstance(value, Sequence) and not isinstance(value, _NO_SEQUENCES):
            return self._sequence
        if native.is_array(value) or native.is_a(value, "numpy", "generic"):
            return lambda value: self.value(self._native(value))
        return _as_it_is if native.is_missing(value) else self._unknown

    def _text(self, value: str | UserString) -> str:
        if type(value) is not str:
            # Through the class itself: what a subclass makes of `str` may be another text.
            value = asked(value, lambda text: str.__str__(text if isinstance(text, str) else text.data))
        self.size += sys.getsizeof(value)
        return value

    def _integer(self, value: int) -> int:
        self.size += sys.getsizeof(value)
        if value.bit_length() > _MAX_INT_BITS:
            raise ValueError(f"an int of {value.bit_length()} bits is too long to be read back")
        return value

    def _floating(self, value: float) -> float | str | None:
        self.size += 24
        if math.isfinite(value):
            return value
        if self._policies.non_finite == "error":
            raise ValueError(f"a float is not finite: {_float_text(value)}")
        return _float_text(value) if self._policies.non_finite == "string" else None

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        self._descend()
        if type(value) is dict and set(map(type, value)) <= {str} and "".join(value).isascii():
            copied: dict[str, Any] = value.copy()
            self.size += sum(map(sys.getsizeof, copied))
        else:
            items = asked(value, lambda mapping: [(key, item) for key, item in mapping.items()])
            names = self.names([key for key, _ in items], f"a {type(value).__name__}")
            copied = {name: item for name, (_, item) in zip(names, items, strict=True)}
        for name, item in copied.items():
            if type(item) not in _UNCHANGED:
                copied[name] = self.value(item)
            else:
                self.size += sys.getsizeof(item)
        self.size += sys.getsizeof(copied)
        self._depth -= 1
        return copied

    def _sequence(self, value: Sequence[Any]) -> list[Any]:
        self._descend()
        items = asked(value, list)
        flat = self.flat(items)
        copied = [self.value(item) for item in items] if flat is None else flat
        self._depth -= 1
        return copied

    def _descend(self) -> None:
        """Count a level; an error on it ends the whole copy, so that it need not be counted back then."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError

    def _key(self, key: Any) -> str:
        """Return a key as text, by the rule of `json` where it has one; else its `str`, of bytes the `repr`."""
        if isinstance(key, str):
            return whole(str.__str__(key))
        if key is None or key is True or key is False:
            return _CONSTANTS[key]
        if native.is_a(key, "numpy", "generic") and native.is_plain(key.dtype):
            return self._key(key.item())
        if isinstance(key, int):
            return asked(key, int.__repr__)
        if isinstance(key, float):
            return _float_text(float.__float__(key))
        try:
            # `str` of bytes is the same text, and warns under `python -b`.
            return whole(str.__str__(asked(key, repr if isinstance(key, bytes) else str)))
        except TypeError as error:
            if self._policies.unknown == "error":
                raise
            return f"<{error}>"

    def _unknown(self, value: Any) -> str:
        if self._policies.unknown == "error":
            raise TypeError(f"a {native.described(value)} cannot be written")
        try:
            return self._text(asked(value, repr))
        except TypeError as error:
            return f"<{error}>"

    def _native(self, value: Any) -> Any:
        """Return a value of numpy, torch or pandas as Python's own."""
        found = asked(value, native.as_python)
        if found is not native.NO_FORM:
            return found
        if self._policies.unknown == "repr" and native.is_array(value):
            # Element by element: the `repr` of an array leaves out its middle.
            return list(value) if value.ndim else self._unknown(value[()])
        return self._unknown(value)


def asked(value: Any, ask: Callable[[Any], T]) -> T:
    """Ask a value for its contents; its own methods may raise anything, what reaches the caller names its type."""
    try:
        return ask(value)
    except MemoryError:
        raise
    except Exception as error:
        try:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        except Exception:  # noqa: BLE001 - an exception's own text may raise as well
            said = type(error).__name__
        raise TypeError(f"a {native.described(value)} raises {said}") from error


def _as_it_is(value: Any) -> Any:
    """Return a constant, or null for what pandas marks a hole with."""
    return value if value is True or value is False else None


def _is_text(key: Any, text: str) -> bool:
    return isinstance(key, str) and str.__str__(key) == text


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
