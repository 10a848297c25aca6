"""Pictures of what a caller handed over, to see whether a dump changed it (law C5)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fault_injection.oracle import native

_LIMIT = 5_000


@dataclass(frozen=True)
class Picture:
    """The objects of a batch in one order: where each is, what it is, and what it holds.

    Args:
        parts: (path, type, identity, content) of each object.
    """

    parts: tuple[tuple[str, str, int, Any], ...]


def picture(value: Any) -> Picture:
    """Take a picture; containers are followed, other objects are known by their identity.

    Args:
        value: a batch's columns and extras, or anything; iterators are not consumed.
    """
    return Picture(tuple(_parts(value)))


def changed(before: Picture, after: Picture) -> tuple[tuple[str, str], ...]:
    """Say what a dump changed in what it was handed.

    Args:
        before: taken before the call.
        after: taken of the same objects when the dump was drained.

    Returns:
        (law, message), at most one.
    """
    if before == after:
        return ()
    pairs = zip(before.parts, after.parts, strict=False)
    path, kind = next(
        ((old[0], old[1]) for old, new in pairs if old != new), (before.parts[-1][0], before.parts[-1][1])
    )
    return (("C5", f"the caller's {kind} at {path or 'the top'} is changed by the dump"),)


def _parts(value: Any) -> Iterator[tuple[str, str, int, Any]]:
    """Without recursion, since what is handed over may be nested deeper than Python recurses."""
    seen: set[int] = set()
    queue: list[tuple[str, Any]] = [("", value)]
    while queue and len(seen) < _LIMIT:
        path, each = queue.pop()
        # NaN differs from itself: its text does not.
        content: Any = repr(each) if type(each) in {int, float, bool, str, bytes} else None
        below: list[tuple[str, Any]] = []
        if id(each) not in seen:
            below, content = _look(path, each, content)
        seen.add(id(each))
        yield path, type(each).__name__, id(each), content
        queue += reversed(below)


def _look(path: str, each: Any, content: Any) -> tuple[list[tuple[str, Any]], Any]:
    """What lies below an object, and what it holds itself."""
    below: list[tuple[str, Any]] = []
    # Through the built-in's own methods: a subclass may have others that raise or change something.
    if isinstance(each, dict):
        below = [(f"{path}[{_name(key)}]", item) for key, item in dict.items(each)]
        content = tuple(map(id, dict.keys(each)))
    elif isinstance(each, (list, tuple)):
        base = list if isinstance(each, list) else tuple
        below = [(f"{path}[{i}]", item) for i, item in enumerate(base.__iter__(each))]  # type: ignore[arg-type]
        content = len(below)
    elif isinstance(each, (set, frozenset, bytearray)):
        content = tuple(map(id, each)) if not isinstance(each, bytearray) else bytes(each)
    elif native.is_a(each, "numpy", "ndarray"):
        content = (str(each.dtype), each.shape, each.strides, each.flags.writeable, _bytes(each))
        if each.dtype.kind == "O":
            below = [(f"{path}.flat[{i}]", item) for i, item in enumerate(each.flat)]
    elif native.is_a(each, "torch", "Tensor"):
        content = (str(each.dtype), tuple(each.shape) if not each.is_nested else (), _version(each))
    elif native.is_a(each, "pandas", "Series"):
        below = [(f"{path}.array", each.to_numpy())]
        below[0] = (f"{path}.array", list(below[0][1]))
        content = (str(each.dtype), each.name)
        return [], (content, tuple(map(repr, below[0][1])))
    return below, content


def _bytes(array: Any) -> Any:
    if array.dtype.kind == "O" or array.dtype.hasobject:
        return None
    data = sys.modules["numpy"].ma.getdata(array)
    mask = sys.modules["numpy"].ma.getmaskarray(array).tobytes() if hasattr(array, "mask") else b""
    return data.tobytes(), mask


def _version(tensor: Any) -> int:
    """The count of the changes made in place, which reading does not raise."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return 0


def _name(key: Any) -> str:
    return repr(key)[:40] if isinstance(key, (str, int, float, bytes, type(None))) else type(key).__name__
