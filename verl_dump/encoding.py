"""From one batch of columns to the bytes of its file: copied at the call, encoded in the worker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from verl_dump.policies import Policies
from verl_dump.values import Copier, asked, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BASE_COLUMNS = ("input", "output", "gts", "score", "step")
_BLOCK_BYTES = 1 << 20
# What `str.splitlines` splits at and JSON lets stand; the control characters are escaped by JSON itself.
_LINE_BREAKS = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\x85\u2028\u2029"}
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_fast: Callable[[Any], bytes] | None = None
# It holds the interpreter lock, which training needs, for a third to a twelfth of the time (`benchmarks/encoding.py`).
with contextlib.suppress(ImportError):
    import orjson

    _fast = partial(orjson.dumps, option=orjson.OPT_APPEND_NEWLINE)


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
    policies: Policies = Policies(),  # noqa: B008 - it is immutable
) -> Snapshot:
    """Copy one batch to JSON's own types; afterwards the caller may change or free all of it.

    Beside what the policies say, a lone surrogate becomes U+FFFD, what pandas marks as missing becomes null, and
    keys become text as in `json`, those of other kinds by `str`.

    Args:
        step: the step, the same in each row.
        inputs: column of n prompts; like each column a list, tuple, array, tensor or Series with n first.
        outputs: column of n responses.
        gts: column of n ground truths; None leaves the column out.
        scores: column of n scores.
        extras: more columns of n values each, by name.
        policies: what becomes of values that JSON cannot hold and of columns that do not fit.

    Raises:
        ValueError: columns differ in length, a number has too many digits, a value is nested over 100 levels deep
            or contains itself, or a policy says so.
        TypeError: a column is no column, or a value cannot be written; column, row and type are named.
    """
    copier = Copier(policies)
    given = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
    if gts is None:
        del given["gts"]
    columns = {name: _column(copier, name, values) for name, values in given.items()}
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise ValueError(f"columns differ in length: {lengths}")
    rows = len(columns["input"])
    columns["step"] = [step] * rows
    if extras is not None and not isinstance(extras, Mapping):
        raise TypeError(f"extras must be a dict of columns, not a {type(extras).__name__}")
    more = asked(extras, dict) if extras is not None else {}
    for name, values in zip(copier.names(list(more), "the row", BASE_COLUMNS), more.values(), strict=True):
        column = _column(copier, name, values, rows if policies.scalar == "repeat" else None)
        if policies.ragged == "pad":
            column += [None] * (rows - len(column))
        if len(column) != rows:
            raise ValueError(f"column {name!r} has {len(column)} values for {rows} rows")
        columns[name] = column
    return Snapshot(tuple(columns.items()), copier.size + 8 * rows)


def encode(batch: Snapshot) -> Iterator[bytes]:
    """Yield the file of `batch` in blocks of about 1 MiB: a line of JSON for each row."""
    names = [name for name, _ in batch.columns]
    lines: list[bytes] = []
    size = 0
    for row in zip(*(values for _, values in batch.columns), strict=True):
        lines.append(_line(dict(zip(names, row, strict=True))))
        size += len(lines[-1])
        if size >= _BLOCK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _line(row: dict[str, Any]) -> bytes:
    """Return one row as one line of RFC 8259 JSON, whatever rule a reader splits lines by."""
    try:
        line = _fast(row) if _fast else _slow(row)
    except TypeError:
        # The fast one refuses integers beyond 64 bits and lone surrogates.
        line = _slow(row)
    for char, escape in _LINE_BREAKS.items():
        # Its first byte is found at the speed of memory, and most texts lack it.
        if char[0] in line:
            line = line.replace(char, escape)
    return line


def _slow(row: dict[str, Any]) -> bytes:
    text = _JSON.encode(row) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return whole(text).encode()


def _column(copier: Copier, name: str, values: Any, repeat: int | None = None) -> list[Any]:
    """Copy one column; an error names it, and the row where there is one.

    Args:
        copier: what copies its values.
        name: its name in the file.
        values: what was handed over.
        repeat: the number of rows to which what is no column is repeated; None: it is an error.
    """
    place, part = f"column {name!r}", values
    try:
        items = copier.rows(values)
        if items is None and repeat is not None:
            return [copier.value(values)] * repeat
        copied = copier.flat(items) if items is not None else _no_column(values)
        if copied is None:
            copied = []
            for row, part in enumerate(items or ()):
                place = f"column {name!r}, row {row}"
                copied.append(copier.value(part))
        return copied
    except MemoryError:
        raise
    except RecursionError as error:
        reason = f"a {type(part).__name__} is nested too deeply or contains itself"
        raise ValueError(f"{place}: {reason}") from error
    except (TypeError, ValueError) as error:
        raise (ValueError if isinstance(error, ValueError) else TypeError)(f"{place}: {error}") from error
    except Exception as error:
        # An object may raise anything even when it is asked for its class.
        raise TypeError(f"{place}: a {type(part).__name__} raises {type(error).__name__}") from error


def _no_column(values: Any) -> NoReturn:
    raise TypeError(f"a {type(values).__name__} is no column: pass a list with a value for each row")
