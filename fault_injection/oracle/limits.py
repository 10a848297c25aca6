"""What a reader cannot hold, whatever a writer does: files beyond that say nothing about the writer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

_LIKE_A_DATE = re.compile(r"[0-9]{1,4}[-/:.][0-9]{1,2}|[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}")
_SMALLEST_NORMAL = 2.2250738585072014e-308
_EXACT_IN_DOUBLE = 1 << 53


@dataclass(frozen=True)
class Limits:
    """The bounds of a reader.

    Args:
        lowest: the least integer that it reads exactly; None: any.
        highest: the greatest.
        mixed: whether values of one column, list or key may differ in type over the rows.
        dates: whether a text that looks like a date, time or UUID stays a text.
        subnormals: whether it reads doubles below the normal ones.
        empty_objects: whether an object without keys stays an object.
        any_key: whether keys may be empty, or differ in nothing but case.
        holes: whether integers stay integers beside null.
    """

    lowest: int | None = None
    highest: int | None = None
    mixed: bool = True
    dates: bool = True
    subnormals: bool = True
    empty_objects: bool = True
    any_key: bool = True
    holes: bool = True


def beyond(rows: list[dict[str, Any]], limits: Limits) -> str:
    """Say why a reader cannot hold these rows; empty where it can."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    reasons = (
        reason for name, values in columns.items() for reason in _group(values, limits, name, top=True)
    )
    return next(chain(_keys(list(columns), limits, "a row"), reasons), "")


def _group(values: list[Any], limits: Limits, path: str, *, top: bool = False) -> Iterator[str]:
    """Judge the values that a columnar reader keeps in one array."""
    kinds = {_kind(value) for value in values} - {"null"}
    numbers = [value for value in values if _kind(value) in {"integer", "float"}]
    if not limits.mixed and len(kinds) > 1 and kinds != {"integer", "float"}:
        yield f"{path} holds {' and '.join(sorted(kinds))}"
    if _promoted(kinds, values, limits, top=top) and any(
        isinstance(n, int) and abs(n) > _EXACT_IN_DOUBLE for n in numbers
    ):
        yield f"{path} holds integers that it reads as doubles"
    for value in values:
        yield from _scalar(value, limits, path)
    lists = [item for value in values if isinstance(value, list) for item in value]
    if lists:
        yield from _group(lists, limits, f"{path}[]")
    fields: dict[str, list[Any]] = {}
    for value in values:
        for key, item in value.items() if isinstance(value, dict) else ():
            fields.setdefault(key, []).append(item)
    yield from _keys(list(fields), limits, path)
    for key, items in fields.items():
        yield from _group(items, limits, f"{path}.{key}")


def _promoted(kinds: set[str], values: list[Any], limits: Limits, *, top: bool) -> bool:
    """Whether integers become doubles because of their neighbours."""
    if top and not limits.holes:
        return "integer" in kinds and (None in values or "float" in kinds)
    return {"integer", "float"} <= kinds and not limits.mixed


def _scalar(value: Any, limits: Limits, path: str) -> Iterator[str]:
    if isinstance(value, dict) and not value and not limits.empty_objects:
        yield f"{path} holds an empty object"
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        low = limits.lowest is not None and value < limits.lowest
        if low or (limits.highest is not None and value > limits.highest):
            yield f"{path} holds an integer of {value.bit_length()} bits"
    elif isinstance(value, float):
        if value and abs(value) < _SMALLEST_NORMAL and not limits.subnormals:
            yield f"{path} holds a subnormal double"
    elif isinstance(value, str) and not limits.dates and _LIKE_A_DATE.search(value):
        yield f"{path} holds a text that looks like a date or UUID"


def _keys(names: list[str], limits: Limits, path: str) -> list[str]:
    if limits.any_key:
        return []
    if any(not name.strip("\0") for name in names):
        return [f"{path} has an empty key"]
    if len({name.casefold() for name in names}) < len(names):
        return [f"{path} has keys that differ in case alone"]
    return []


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (int, "integer"), (float, "float"), (str, "string"), (list, "list"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def same(right: Any, got: Any) -> bool:
    """Whether a columnar reader's value is equal to what was written.

    A hole may be NaN, an object may have the keys of other rows with nothing in them, and an integer may have become
    the equal double beside doubles or holes.
    """
    if right is None:
        return got is None or got != got  # noqa: PLR0124 - NaN differs from itself
    if isinstance(right, dict):
        if not isinstance(got, dict) or not right.keys() <= got.keys():
            return False
        return all(same(right.get(key), value) for key, value in got.items())
    if isinstance(right, list):
        return isinstance(got, list) and len(got) == len(right) and all(map(same, right, got))
    if isinstance(right, bool) or isinstance(got, bool):
        return isinstance(right, bool) and isinstance(got, bool) and right == got
    if isinstance(right, int):
        return isinstance(got, (int, float)) and right == got
    return type(got) is type(right) and bool(got == right)
