"""What a writer declares to make of values that JSON cannot hold and of columns that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints


@dataclass(frozen=True)
class Policies:
    r"""The declared policies of a writer; the defaults are those of the reference writer.

    Args:
        non_finite: NaN and infinities become `null`, the `string` NaN, Infinity or -Infinity, or an `error`.
        unknown: an object of a type that JSON has no counterpart for is an `error`, or written as its `repr`.
        ragged: an extra column of another length is an `error`; or with `pad` null fills up a shorter one, and a
            longer one is an error.
        collide: an extra named like a base column, and a key that is as text another's, is an `error`, or with
            `rename` has another name (see `names.distinct`).
        scalar: what is no column (a scalar, a text, a dict, a 0-d array, None) is an `error`, or with `repeat` the
            value of every row.
        keys: keys that are no text become `text`, as `spellings` lists them, or are an `error`.
        surrogates: a lone surrogate is `replace`d by U+FFFD, or kept by an `escape` such as `\\ud800`.
    """

    non_finite: Literal["null", "string", "error"] = "null"
    unknown: Literal["error", "repr"] = "error"
    ragged: Literal["error", "pad"] = "error"
    collide: Literal["rename", "error"] = "rename"
    scalar: Literal["error", "repeat"] = "error"
    keys: Literal["text", "error"] = "text"
    surrogates: Literal["replace", "escape"] = "replace"

    def __post_init__(self) -> None:
        hints = get_type_hints(Policies)
        for field in fields(self):
            value, known = getattr(self, field.name), get_args(hints[field.name])
            if value not in known:
                raise ValueError(f"policy {field.name} must be one of {', '.join(known)}, not {value!r}")


DEFAULTS = Policies()
"""The policies of the reference writer."""
