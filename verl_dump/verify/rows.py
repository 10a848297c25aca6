"""Reads a line the fast way, which accepts only what is certainly in order; the rest is left to `strict`."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from verl_dump.verify.strict import Checker, Facts

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HUGE_DIGITS = 309
_HUGE = re.compile(rb"[0-9]{%d}" % _HUGE_DIGITS)
_TWO_DIGITS = re.compile(rb"[0-9]{2}")
_SPACED = re.compile(rb'"[ \t\r]+:')
_NESTED = (dict, list)
_INFINITE = (float("inf"), float("-inf"))


class _DoubtError(ValueError):
    pass


def _constant(text: str) -> NoReturn:
    raise _DoubtError(text)


def _float(text: str) -> float:
    value = float(text)
    if value in _INFINITE:
        raise _DoubtError(text)
    return value


_decode = json.JSONDecoder(parse_constant=_constant, parse_float=_float).decode


def _slow(line: bytes) -> Any:
    """Parse with the standard library what orjson would not refuse."""
    if b"\\u" in line and _SURROGATE.search(line):
        raise _DoubtError
    # So many digits in a row cannot lie but below two neighbours of this sample.
    if _TWO_DIGITS.search(line[:: _HUGE_DIGITS // 2]) and _HUGE.search(line):
        raise _DoubtError
    return _decode(line.decode())


PARSERS: dict[str, Callable[[bytes], Any]] = {"json": _slow}
"""The strict parsers that are installed, by name, the fastest last."""
with contextlib.suppress(ImportError):
    import orjson

    PARSERS["orjson"] = orjson.loads
PARSER = list(PARSERS)[-1]
"""Name of the one that is used."""


def quick(line: bytes, parse: Callable[[bytes], Any]) -> dict[str, Any] | None:
    """Return the row of a line with which nothing is wrong, or None: then look closer.

    Args:
        line: without its newline.
        parse: a strict parser; of equal keys in one object it may keep the last.
    """
    try:
        row = parse(line)
    except (ValueError, RecursionError):
        return None
    # Integers beyond 64 bits come as floats from orjson.
    if type(row) is not dict or type(row.get("step")) is float or _may_repeat(line, row):
        return None
    return row


def _may_repeat(line: bytes, row: dict[str, Any]) -> bool:
    """Say whether a key may stand twice in one object.

    Every key is followed by a quote and a colon: if there are no more of these than keys in the parsed row, none was
    lost. In a text such a quote is escaped, or it begins the text, which is doubtful enough.
    """
    if b"\t" in line or b"\r" in line or (b" :" in line and _SPACED.search(line)):
        return True
    marks = line.count(b'":')
    if marks == len(row):
        return False
    # Without escaped backslashes, any that is left before a quote escapes it.
    flat = line.replace(b"\\\\", b"") if b"\\\\" in line else line
    return flat.count(b'":') - flat.count(b'\\":') != _count_keys(row)


def _count_keys(row: dict[str, Any]) -> int:
    count = 0
    waiting: list[Any] = [row]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += len(value)
            waiting += [each for each in value.values() if type(each) in _NESTED]
        else:
            waiting += [each for each in value if type(each) in _NESTED]
    return count


def close(line: bytes) -> Facts:
    """Return what is wrong with a line, and what is known of it all the same."""
    checker = Checker()
    checker.feed(line)
    return checker.end()
