"""The texts under which a key that is no text may stand in a file."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterator
from typing import Any

from fault_injection.oracle import native


def spellings(key: Any) -> Iterator[str]:
    """Every usual text of a key: its `str` and `repr`, and what `json` and other encoders make of it.

    S5 asks that no key is lost and that no two become one; how a key is spelled it does not say.
    """
    for make in (_str, repr, _json, _compact, _number, _decoded, _iso):
        yield from _made(make, key)
    scalar = native.as_python(key)
    if scalar is not key:
        yield from spellings(scalar)
    if isinstance(key, enum.Enum):
        # Of an IntEnum, `str` is this on Python 3.10 only.
        yield from (key.name, f"{type(key).__name__}.{key.name}")
        yield from spellings(key.value)


def _made(make: Callable[[Any], str | None], key: Any) -> Iterator[str]:
    try:
        text = make(key)
    except Exception:  # noqa: BLE001 - an object's own method may raise anything
        return
    if text is not None:
        yield text


def _str(key: Any) -> str | None:
    # `str` of bytes warns under `python -b`, and is their `repr`.
    return None if isinstance(key, (bytes, bytearray)) else str(key)


def _json(key: Any) -> str | None:
    return None if isinstance(key, str) else json.dumps(key, default=_plain)


def _compact(key: Any) -> str | None:
    return None if isinstance(key, str) else json.dumps(key, default=_plain, separators=(",", ":"))


def _plain(part: Any) -> Any:
    """What stands in JSON for a part of a key."""
    return list(part) if isinstance(part, frozenset) else native.as_python(part)


def _number(key: Any) -> str | None:
    """Other encoders write 1e16 without a plus and 1.0 without a fraction."""
    if not isinstance(key, float):
        return None
    return (
        str(int(key)) if key.is_integer() and abs(key) < 1 << 53 else float.__repr__(key).replace("e+", "e")
    )


def _decoded(key: Any) -> str | None:
    return key.decode() if isinstance(key, bytes) else None


def _iso(key: Any) -> str | None:
    made = getattr(key, "isoformat", None)
    return made() if callable(made) else None
