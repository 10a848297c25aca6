"""What the writers of the zoo share: rows as bytes, errors that hold every failure, and the end of the process."""

from __future__ import annotations

import atexit
import itertools
import json
import math
import os
import re
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SERIAL = itertools.count()
"""Tells the temporary files of two writers in one process apart."""
OPEN: set[Any] = set()
"""Writers that accepted a dump since their last drain; strong, so that a dropped writer still speaks at exit."""
LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
"""Writers that a forked child must reset with `_start_over()`."""


class DumpError(Exception):
    """A dump failed, or was not accepted; the message names step and path."""


@dataclass(frozen=True)
class Job:
    """One accepted dump; `data` is the text of the whole file as bytes."""

    step: Any
    path: str
    data: bytes


def plain(value: Any) -> Any:
    """Return the value made of JSON types alone; raises TypeError or ValueError for what has no such form."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        # A surrogate has no UTF-8: readers other than Python's refuse its escape.
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        members = {str(key): plain(member) for key, member in value.items()}
        if len(members) != len(value):
            raise ValueError(f"two of the keys {list(value)} have one text")
        return members
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    tolist = getattr(value, "tolist", None)  # numpy and torch, without importing them
    if tolist is None:
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return plain(tolist())


def encode(step: Any, columns: Mapping[str, Any], extras: Mapping[str, Any] | None) -> bytes:
    """Return one JSON line for each row; ASCII, so that no locale and no reader can change it.

    Args:
        step: the global step, the same in every row.
        columns: `input`, `output`, `gts` and `score`, n values each.
        extras: more columns of n values by name, or None.

    Raises:
        ValueError: a column does not hold n values, or an extra is named like a base column.
    """
    extras = extras or {}
    clash = {*columns, "step"} & {str(name) for name in extras}
    if clash:
        raise ValueError(f"extra columns {sorted(clash)} are named like base columns")
    if len({str(name) for name in extras}) < len(extras):
        raise ValueError(f"two of the columns {list(extras)} have one name")
    values = {str(name): column_values(name, column) for name, column in {**columns, **extras}.items()}
    count = len(values["input"])
    for name, column in values.items():
        if len(column) != count:
            raise ValueError(f"column {name!r} holds {len(column)} values and not {count}")
    values = {**{name: values[name] for name in columns}, "step": [plain(step)] * count, **values}
    rows = (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows).encode("ascii")


def column_values(name: str, column: Any) -> list[Any]:
    """Return the values of one column as JSON types; the error for one that has none names column, row and type."""
    if isinstance(column, (str, bytes, Mapping)) or not (
        hasattr(column, "__len__") and hasattr(column, "__getitem__")
    ):
        raise ValueError(f"column {name!r} is a {type(column).__name__} and not a column of values")
    try:
        items = list(column)
    except Exception as error:
        raise ValueError(f"column {name!r}, a {type(column).__name__}: {error}") from error
    values = []
    for row, value in enumerate(items):
        try:
            values.append(plain(value))
        except Exception as error:
            raise ValueError(f"column {name!r}, row {row}, a {type(value).__name__}: {error}") from error
    return values


def file_path(dump_path: Any, step: Any) -> str:
    """Return the absolute path of a step's file: a later change of the working directory must not move it."""
    return os.path.abspath(os.path.join(dump_path, f"{step}.jsonl"))


def refused(step: Any, path: str, reason: object) -> DumpError:
    """Return the error of a dump that was not accepted; raise it from the cause, if there is one."""
    return DumpError(f"dump of step {step} to {path} was not accepted: {reason}")


def failed(step: Any, path: str, error: BaseException) -> DumpError:
    """Return the error of an accepted dump, with what the write raised as its cause."""
    failure = DumpError(f"dump of step {step} to {path} failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def raise_all(failures: list[DumpError]) -> None:
    """Raise one error from which every failure can be reached by cause and context; nothing for no failure."""
    if not failures:
        return
    if len(failures) == 1:
        raise failures[0]
    for earlier, later in itertools.pairwise(failures):
        # At the end of the chain: the context of an error that has a cause is hidden, and raising replaces it.
        last: BaseException = earlier
        seen = {id(last)}
        while (below := last.__cause__ or last.__context__) is not None and id(below) not in seen:
            seen.add(id(below))
            last = below
        last.__context__, last.__suppress_context__ = later, False
    raise DumpError("; ".join(map(str, failures))) from failures[0]


def say(text: str) -> None:
    """Write one line to the standard error, where the process still has one."""
    if sys.stderr is not None:
        print(f"dump: {text}", file=sys.stderr, flush=True)


def _at_exit() -> None:
    # The interpreter has joined the threads that are not daemons before this runs.
    for writer in list(OPEN):
        try:
            writer._shutdown_dump_executor()
        except BaseException as error:
            say(f"the process ended without a drain, and dumps are lost: {error}")
        else:
            say("the process ended without a drain; what was pending has been written")


def _in_child() -> None:
    OPEN.clear()
    for writer in list(LIVE):
        writer._start_over()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
