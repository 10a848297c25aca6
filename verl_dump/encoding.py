"""From one batch of columns to the bytes of its file: copied at the call, encoded in the worker."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE_COLUMNS = ("input", "output", "gts", "score", "step")
_BLOCK_BYTES = 1 << 20
# The digits that `int` converts to text by default; a longer number could not be read back either.
_MAX_INT_BITS = 14_000
_SURROGATE = re.compile("[\ud800-\udfff]")
# What `str.splitlines` splits at and JSON lets stand; the control characters are escaped by JSON itself.
_LINE_BREAKS = {char: f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)


@dataclass(frozen=True)
class Snapshot:
    """A batch that shares nothing mutable with its caller.

    Attributes:
        columns: (name, values) in the order of the keys of a row, all values of JSON's own types.
        size: what the copy holds in memory, in bytes, estimated.
    """

    columns: tuple[tuple[str, list[Any]], ...]
    size: int


def snapshot(
    step: int,
    *,
    inputs: Any,
    outputs: Any,
    gts: Any = None,
    scores: Any,
    extras: Mapping[Any, Any] | None = None,
) -> Snapshot:
    """Copy one batch to JSON's own types; afterwards the caller may change or free all of it.

    A number that is not finite becomes null and a lone surrogate U+FFFD. Keys become text as in `json`,
    those of other kinds by `str`.

    Args:
        step: the step, the same in each row.
        inputs: column of n prompts; like each column a list, tuple, array or tensor with n first.
        outputs: column of n responses.
        gts: column of n ground truths; None leaves the column out.
        scores: column of n scores.
        extras: more columns of n values each, by name.

    Raises:
        ValueError: columns differ in length, two names or keys are the same as text, a number has too many
            digits, or a value contains itself.
        TypeError: a column is no column, or a value has no JSON type; column, row and type are named.
    """
    copier = _Copier()
    given = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
    if gts is None:
        del given["gts"]
    columns = {name: copier.column(name, values) for name, values in given.items()}
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise ValueError(f"columns differ in length: {lengths}")
    rows = len(columns["input"])
    columns["step"] = [step] * rows
    if extras is not None and not isinstance(extras, Mapping):
        raise TypeError(f"extras must be a dict of columns, not a {type(extras).__name__}")
    for key, values in (extras or {}).items():
        name = copier.key(key)
        if name in columns or name in BASE_COLUMNS:
            raise ValueError(f"extra column {name!r} has the name of another column: rename it")
        columns[name] = copier.column(name, values)
        if len(columns[name]) != rows:
            raise ValueError(f"column {name!r} has {len(columns[name])} values for {rows} rows")
    return Snapshot(tuple(columns.items()), copier.size + 8 * rows)


def encode(batch: Snapshot) -> Iterator[bytes]:
    """Yield the file of `batch` in blocks of about 1 MiB: a line of JSON for each row."""
    names = [name for name, _ in batch.columns]
    block = bytearray()
    for row in zip(*(values for _, values in batch.columns), strict=True):
        block += _line(dict(zip(names, row, strict=True)))
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _line(row: dict[str, Any]) -> bytes:
    """Return one row as one line of RFC 8259 JSON, whatever rule a reader splits lines by."""
    text = _ENCODER.encode(row)
    if not text.isascii():
        for char, escape in _LINE_BREAKS.items():
            text = text.replace(char, escape)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return _whole(text).encode("utf-8") + b"\n"


def _whole(text: str) -> str:
    """Replace lone surrogates, which neither UTF-8 nor a strict JSON parser takes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _is_a(value: Any, package: str, *names: str) -> bool:
    """Say whether a value is of one of these classes of a package that need not be there."""
    module = sys.modules.get(package)
    return isinstance(value, tuple(getattr(module, name, ()) for name in names))


def _is_plain(dtype: Any) -> bool:
    """Say whether `tolist` gives Python's own values for that numpy dtype, unchanged."""
    return dtype.kind in "biufOUT" and dtype.char != "g"


class _Copier:
    """Copies values to JSON's own types and adds up the bytes that the copies hold."""

    def __init__(self) -> None:
        self.size = 0

    def key(self, key: Any) -> str:
        """Return a key of any kind as text, by the rule of `json` where it has one."""
        if _is_a(key, "numpy", "generic") and _is_plain(key.dtype):
            key = key.item()
        if key is None or key is True or key is False:
            return {None: "null", True: "true", False: "false"}[key]
        if isinstance(key, str):
            text = str.__str__(key)
        elif isinstance(key, (int, float)):
            text = int.__repr__(key) if isinstance(key, int) else float.__repr__(key)
        else:
            text = str(key)
        self.size += sys.getsizeof(text)
        return _whole(text)

    def column(self, name: str, values: Any) -> list[Any]:
        """Copy one column; an error names it, and the row where there is one."""
        try:
            items = _items(values)
        except MemoryError:
            raise
        except Exception as error:
            raise TypeError(f"column {name!r}: {error}") from error
        copied = self._flat(items)
        return (
            copied if copied is not None else [self._cell(name, row, item) for row, item in enumerate(items)]
        )

    def _cell(self, name: str, row: int, item: Any) -> Any:
        try:
            return self.value(item)
        except MemoryError:
            raise
        except RecursionError as error:
            reason = f"a {type(item).__name__} is nested too deeply or contains itself"
            raise ValueError(f"column {name!r}, row {row}: {reason}") from error
        except Exception as error:
            # An object's own methods may raise anything; what reaches the caller is always one of two.
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"column {name!r}, row {row}: {error}") from error

    def value(self, value: Any) -> Any:
        """Copy one value at any depth."""
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            self.size += sys.getsizeof(value)
            return str.__str__(value)
        if isinstance(value, (int, float)):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            return self._sequence(value)
        return self.value(_native(value))

    def _number(self, value: float) -> int | float | None:
        self.size += sys.getsizeof(value)
        if isinstance(value, float):
            return float.__float__(value) if math.isfinite(value) else None
        value = int.__index__(value)
        if value.bit_length() > _MAX_INT_BITS:
            raise ValueError(f"an int of {value.bit_length()} bits is too long to be read back")
        return value

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, item in value.items():
            name = self.key(key)
            if name in copied:
                raise ValueError(f"two keys of a {type(value).__name__} are the same as text: {name!r}")
            copied[name] = self.value(item)
        self.size += sys.getsizeof(copied)
        return copied

    def _sequence(self, value: Sequence[Any]) -> list[Any]:
        items = list(value)
        copied = self._flat(items)
        return copied if copied is not None else [self.value(item) for item in items]

    def _flat(self, items: list[Any]) -> list[Any] | None:
        """Take over a list of nothing but str, or of nothing but finite float, without a call for each."""
        self.size += sys.getsizeof(items)
        kinds = set(map(type, items))
        if kinds == {str}:
            self.size += sum(map(sys.getsizeof, items))
            return items
        # A sum that overflows only sends its list the long way round.
        if kinds == {float} and math.isfinite(sum(items)):
            self.size += 24 * len(items)
            return items
        return None


def _items(values: Any) -> list[Any]:
    """Return the rows of a column as a new list."""
    if isinstance(values, (list, tuple)):
        return list(values)
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(f"a {type(values).__name__} is no column: pass a list with a value for each row")
    if isinstance(values, Sequence):
        return list(values)
    if getattr(values, "ndim", 0) and hasattr(values, "tolist"):
        return list(_native(values))
    raise TypeError(f"a {type(values).__name__} is no column: pass a list with a value for each row")


def _native(value: Any) -> Any:
    """Return a numpy or torch value as Python's own; neither package is imported for it."""
    if _is_a(value, "numpy", "ndarray", "generic"):
        # The others come out of `tolist` changed (datetime64[ns] as a number) or not at all.
        if _is_plain(value.dtype):
            return value.tolist()
        raise TypeError(f"a {type(value).__name__} of dtype {value.dtype} cannot be written")
    if _is_a(value, "torch", "Tensor"):
        return value.detach().cpu().tolist()
    if _is_a(value, "pandas", "Series"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written")
