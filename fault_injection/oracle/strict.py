"""A parser that takes RFC 8259 and nothing else, with no limit to the depth."""

from __future__ import annotations

import re
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_NOT_JSON = re.compile(r"-?(?:NaN|Infinity|nan|inf)\b")
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))"
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class StrictError(ValueError):
    """A text is not JSON, or it is JSON that readers disagree about.

    Args:
        reason: what is wrong.
        position: where, in characters from 0.
        law: what that violates.
    """

    def __init__(self, reason: str, position: int, law: str = "S2") -> None:
        super().__init__(f"{reason} at character {position}")
        self.reason = reason
        self.position = position
        self.law = law


def parse(text: str) -> Any:
    """Parse one JSON text.

    Args:
        text: the text; space is allowed around it, a byte order mark is not.

    Returns:
        None, bool, int, float, str, list or dict; integers exact, and the floats that Python's `float` gives.

    Raises:
        StrictError: it is not RFC 8259, has two equal keys in one object (S5), an integer of more digits than Python
            reads, or a number beyond the doubles.
    """
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.stack: list[list[Any] | dict[str, Any]] = []
        self.keys: list[str] = []

    def run(self) -> Any:
        while True:
            value = self.value()
            # An opened container has its first element before it: go on with that one.
            if value is _OPENED:
                continue
            while self.stack and self.closed(value):
                value = self.stack.pop()
            if not self.stack:
                break
        self.space()
        if self.at != len(self.text):
            raise StrictError("more text after the value", self.at)
        return value

    def space(self) -> str:
        """Skip space and return the next character."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        """Read a scalar or an empty container whole; of any other container only what opens it."""
        char = self.space()
        if char == "[":
            self.at += 1
            if self.space() == "]":
                self.at += 1
                return []
            self.stack.append([])
            return _OPENED
        if char == "{":
            self.at += 1
            if self.space() == "}":
                self.at += 1
                return {}
            self.stack.append({})
            self.key()
            return _OPENED
        if char == '"':
            return self.string()
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        return self.number()

    def closed(self, value: Any) -> bool:
        """Put a value into the innermost container, and say whether that ends here."""
        top = self.stack[-1]
        if isinstance(top, list):
            top.append(value)
        else:
            top[self.keys.pop()] = value
        char = self.space()
        self.at += 1
        if char == ("]" if isinstance(top, list) else "}"):
            return True
        if char != ",":
            raise StrictError(f"{char!r} instead of a comma" if char else "the text ends", self.at - 1)
        if isinstance(top, dict):
            self.key()
        return False

    def key(self) -> None:
        char, start = self.space(), self.at
        if char != '"':
            raise StrictError(f"a key that starts with {char!r}" if char else "the text ends", start)
        key = self.string()
        top = self.stack[-1]
        if isinstance(top, dict) and key in top:
            raise StrictError(f"two keys {key[:40]!r} in one object", start, "S5")
        if self.space() != ":":
            raise StrictError("a key without a colon", self.at)
        self.at += 1
        self.keys.append(key)

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise StrictError("a string with a bad escape, a raw control character or no end", self.at)
        self.at = match.end()
        inner = match.group()[1:-1]
        return _ESCAPE.sub(_unescape, inner) if "\\" in inner else inner

    def number(self) -> int | float:
        match, start = _NUMBER.match(self.text, self.at), self.at
        if match is None:
            bare = _NOT_JSON.match(self.text, start)
            what = f"a bare {bare.group()}" if bare else repr(self.text[start : start + 1])
            raise StrictError(
                f"{what}, which is no JSON" if start < len(self.text) else "the text ends", start
            )
        self.at = match.end()
        if not match.group(1):
            try:
                return int(match.group())
            except ValueError:
                raise StrictError("an integer of more digits than Python reads", start, "S4") from None
        number = float(match.group())
        if number in {float("inf"), float("-inf")}:
            raise StrictError("a number beyond the doubles", start, "S4")
        return number


def _unescape(match: re.Match[str]) -> str:
    high, low, unit, short = match.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
    return chr(int(unit, 16)) if unit else _SHORT.get(short, short)


_OPENED = object()
