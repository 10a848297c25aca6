"""What a writer declares to make of values that JSON cannot hold, and of columns that do not fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args, get_type_hints

NonFinite = Literal["null", "string", "error"]
Unknown = Literal["error", "repr"]
Ragged = Literal["error", "pad"]
Collide = Literal["rename", "error"]
Scalar = Literal["error", "repeat"]


@dataclass(frozen=True)
class Policies:
    """What becomes of values that JSON cannot hold, and of columns that do not fit.

    Args:
        non_finite: NaN and infinities become "null", the "string" NaN, Infinity or -Infinity, or an "error".
        unknown: a value of a type without a JSON form is an "error", or becomes the text of its "repr".
        ragged: an extra column of another length is an "error"; or "pad" fills up a shorter one with null at its
            end, and only a longer one is an error.
        collide: "rename" or "error". An extra named like a base column becomes `extra_<name>`; of two keys that
            are one as text (1 and "1"), the one that is no text becomes `<text> (<type>)`; where that is taken
            too, a number follows.
        scalar: an extra that is no column (a number, a text, a dict, a set, None) is an "error", or "repeat"ed as
            the value of every row.

    Raises:
        ValueError: a policy is none of these.
    """

    non_finite: NonFinite = "null"
    unknown: Unknown = "error"
    ragged: Ragged = "error"
    collide: Collide = "rename"
    scalar: Scalar = "error"

    def __post_init__(self) -> None:
        hints = get_type_hints(Policies)
        for name, value in asdict(self).items():
            known = get_args(hints[name])
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
