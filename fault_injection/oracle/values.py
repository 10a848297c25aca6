"""What a reader must get back for a value, worked out without any writer's code."""

from __future__ import annotations

import math
import re
from collections import UserString
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fault_injection.oracle import native
from fault_injection.oracle.names import allowed, assigned, clashing
from fault_injection.oracle.outcome import Field, Fields, Items, Leaf, Node, Outcome, Refusal, Unjudged
from fault_injection.oracle.policies import DEFAULTS, Policies
from fault_injection.oracle.spellings import spellings

MAX_DEPTH = 64
"""Levels of lists and dicts that every writer and reader must take; RFC 8259, section 9, lets parsers set a limit."""
MAX_DIGITS = 4300
"""Digits of an integer that Python's own JSON reader takes by default (`sys.int_info`)."""
MUST_DIGITS = 4000
"""Digits of an integer that every writer must take."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_BITS, _MUST_BITS = (int(digits * math.log2(10)) for digits in (MAX_DIGITS, MUST_DIGITS))
_CONSTANTS = {None: "null", True: "true", False: "false"}
_NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def expected_value(value: Any, policies: Policies = DEFAULTS) -> Outcome:
    """Say what a reader must get back for one value, or that an error must come.

    Args:
        value: anything; iterators are not consumed, and nothing is changed.
        policies: what the writer declares.
    """
    expecting = Expecting(policies)
    node = expecting.node(value)
    return Outcome(node, tuple(dict.fromkeys(expecting.refusals)))


def expected_key(key: Any, policies: Policies = DEFAULTS) -> tuple[str | None, tuple[Refusal, ...]]:
    """Say as what text a key must be read back; None where an error must come.

    Text stays; int, float, bool and None, numpy's scalars of these kinds too, become what `json` makes of them;
    every other key becomes its `str`, bytes their `repr`.
    """
    expecting = Expecting(policies)
    return expecting.key(key), tuple(expecting.refusals)


def type_names(value: Any) -> tuple[str, ...]:
    """The names by which an error may tell what a value is: its class, and its dtype where it has one."""
    return (type(value).__name__, *native.dtype_names(value))


class Expecting:
    """Builds the tree of one value; the refusals met on the way are collected."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.refusals: list[Refusal] = []
        self._path: dict[int, str] = {}

    def refuse(
        self, value: Any, reason: str, *laws: str, must: bool = True, types: tuple[str, ...] = ()
    ) -> Node:
        """Note that a value must or may be refused."""
        names = types or type_names(value)
        self.refusals.append(Refusal(reason, names, laws or ("S7",), must=must))
        return Unjudged(names[0], laws or ("S7",))

    def node(self, value: Any, *laws: str) -> Node:
        """The tree of a value; `laws` are at stake for it besides its own."""
        kind = type(value).__name__
        if native.is_native(value):
            return native.expect(value, self)
        if value is None or isinstance(value, bool):
            return Leaf(value, laws or ("S1",), kind)
        if isinstance(value, str):
            return self.text(str.__str__(value), kind)
        if isinstance(value, int):
            return self.integer(int.__index__(value), kind, *laws)
        if isinstance(value, float):
            return self.floating(float.__float__(value), kind, *laws)
        if isinstance(value, UserString):
            # A text in all but its class: to take it for one and to refuse it are both right, to split it is not.
            self.refuse(value, "a UserString is no str", must=False)
            return self.text(value.data, kind)
        if isinstance(value, Mapping):
            return self.inside(value, lambda: self._mapping(value))
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            return self.inside(value, lambda: Items(tuple(map(self.node, list(value))), ("S1",), kind))
        return self.unknown(value)

    def text(self, text: str, kind: str) -> Leaf:
        """The leaf of a text."""
        # Beyond ASCII the encoding may be at fault, or what was done to the text before.
        laws = ("S9",) if text.isascii() else ("S3",) if _SURROGATE.search(text) else ("S3", "S9")
        return Leaf(self.whole(text), laws, kind)

    def whole(self, text: str) -> str:
        """A text as it is read back: lone surrogates as the policy says."""
        return text if self.policies.surrogates == "escape" else _SURROGATE.sub("\ufffd", text)

    def integer(self, value: int, kind: str, *laws: str) -> Node:
        """The leaf of an integer, exact however long."""
        if value.bit_length() > _MUST_BITS:
            must = value.bit_length() > _MAX_BITS
            unread = self.refuse(
                value, "readers take no more digits", "S4", must=must, types=(kind, "int", "integer")
            )
            if must:
                return unread
        small = -(1 << 63) <= value < (1 << 64)
        return Leaf(value, (("S1",) if small else ("S4",)) + laws, kind)

    def floating(self, value: float, kind: str, *laws: str) -> Node:
        """The leaf of a double; those that are not finite go by the policy."""
        if math.isfinite(value):
            return Leaf(value, ("S4", *laws), kind)
        if self.policies.non_finite == "error":
            return self.refuse(value, "it is not finite", "S2", types=(kind, "nan", "inf", "finite"))
        as_text = _NON_FINITE.get(value, "NaN")
        return Leaf(as_text if self.policies.non_finite == "string" else None, ("S2", *laws), kind)

    def unknown(self, value: Any, *laws: str) -> Node:
        """What comes of an object that JSON has no counterpart for."""
        if self.policies.unknown == "repr":
            try:
                return self.text(repr(value), type(value).__name__)
            except Exception:  # noqa: BLE001 - an object's own method may raise anything
                return self.refuse(value, "its repr raises", *laws)
        return self.refuse(value, "JSON has no counterpart for it", *laws)

    def inside(self, value: Any, build: Callable[[], Node]) -> Node:
        """Build the node of a container, unless it contains itself or lies too deep."""
        if id(value) in self._path:
            return self.refuse(value, "it contains itself", types=(*self._path.values(), "circular"))
        if len(self._path) >= MAX_DEPTH:
            types = (*self._path.values(), "deep", "nest")
            return self.refuse(value, "it is nested too deeply", "S7", must=False, types=types)
        self._path[id(value)] = type(value).__name__
        try:
            return build()
        except Exception as error:  # noqa: BLE001 - an object's own method may raise anything
            return self.refuse(value, f"to read it raises {type(error).__name__}")
        finally:
            del self._path[id(value)]

    def _mapping(self, value: Mapping[Any, Any]) -> Node:
        unread: Node | None = None
        named: list[tuple[tuple[str, ...], Any, Any]] = []
        for key, item in list(value.items()):
            texts = self.texts(key)
            if not texts:
                # The key itself has noted why it has no text; an error may say as well what it is a key of.
                noted = self.refusals.pop()
                self.refusals.append(replace(noted, types=(*noted.types, type(value).__name__)))
                unread = Unjudged(type(key).__name__, ("S5",))
            else:
                named.append((texts, key, item))
        keys = [key for _, key, _ in named]
        found: list[Field] = []
        for (names, other), (texts, key, item) in zip(
            self.names(keys, [n[0] for n in named]), named, strict=True
        ):
            if other is not None:
                types = (type(value).__name__, type(key).__name__, type(keys[other]).__name__)
                refused = self.refuse(key, "two keys are one as text", "S5", must=not names, types=types)
                unread = unread if names else refused
            if names:
                plain = isinstance(key, str) and names[0] == texts[0]
                laws = ("S5",) if not plain else ("S3",) if _SURROGATE.search(key) else ("S9",)
                found.append(Field(names[0], laws, type(key).__name__, self.node(item), names[1:]))
        return unread or Fields(tuple(found), ("S1",), type(value).__name__)

    def names(
        self, keys: Sequence[Any], texts: Sequence[tuple[str, ...]], reserved: Sequence[str] = ()
    ) -> list[tuple[tuple[str, ...], int | None]]:
        """The names that each key may have in the file, none where there is none that is not another's.

        With each comes the position of an earlier key that it may be one with as text, so that it may be refused; -1 for a
        reserved name.
        """
        if self.policies.collide == "rename":
            return [(names, None) for names in allowed(keys, texts, reserved)]
        free = [tuple(text for text in each if text not in reserved) for each in texts]
        own = assigned(free, dict.fromkeys(text for each in free for text in each))
        return [
            (() if name is None else tuple(dict.fromkeys((name, *each))), other)
            for name, each, other in zip(own, free, clashing(texts, reserved), strict=True)
        ]

    def texts(self, key: Any) -> tuple[str, ...]:
        """Every text that a key may have, the declared one first; none when it is refused."""
        text = self.key(key)
        if text is None or type(key) is str:
            return () if text is None else (text,)
        return tuple(dict.fromkeys((text, *map(self.whole, spellings(key)))))

    def key(self, key: Any) -> str | None:
        """The text of a key, or None when it is refused."""
        if isinstance(key, str):
            return self.whole(str.__str__(key))
        if self.policies.keys == "error":
            self.refuse(key, "a key must be text", "S5")
            return None
        try:
            return self.whole(_key_text(native.as_python(key)))
        except Exception as error:  # noqa: BLE001 - an object's own method may raise anything
            self.refuse(key, f"as a key it has no text: {type(error).__name__}", "S5")
            return None


def _key_text(key: Any) -> str:
    if key is None or isinstance(key, bool):
        return _CONSTANTS[key]
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        value = float.__float__(key)
        return float.__repr__(value) if math.isfinite(value) else _NON_FINITE.get(value, "NaN")
    # `str` of bytes warns under `python -b`, and gives the same text.
    return repr(key) if isinstance(key, (bytes, bytearray)) else str(key)
