"""Every kind of finding: its name, whether it is an error, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Kind:
    """One kind of finding.

    Attributes:
        name: stable, as reports show it.
        level: an error is damage, or what a reader of dumps stumbles over; a warning may have a good reason.
        means: what is the matter, in a few words.
    """

    name: str
    level: Level
    means: str


_ERRORS = {
    "torn-line": "a line ends in the middle of a value",
    "not-json": "a line is not RFC 8259 JSON",
    "not-utf8": "a line is not UTF-8",
    "not-object": "a line is JSON, but no object",
    "blank-line": "a line is empty",
    "non-finite": "a bare NaN or Infinity, or a number that reads as infinity",
    "duplicate-key": "one object has a key twice",
    "lone-surrogate": "half of a surrogate pair, which strict readers refuse",
    "no-step": "a row has no step",
    "wrong-step": "a row's step is not the integer that names the file",
    "no-newline": "the last line does not end with a newline",
    "bad-name": "a file matches *.jsonl and is named after no integer",
    "two-names": "two files are named after one step",
    "not-a-file": "a folder, pipe, socket, device or dead link has the name of a dump",
    "unreadable": "a dump cannot be read",
    "changed": "a dump was changed or removed while it was read",
    "no-dumps": "the directory holds no dump",
}
_WARNINGS = {
    "empty-file": "a dump has no rows",
    "equal-rows": "a row equals an earlier one of the file (samples of one prompt may)",
    "doubled-file": "a file holds all of its rows twice",
    "equal-files": "two files have the same rows, apart from the step",
    "keys-in-file": "the keys change from row to row",
    "keys-between-files": "the keys change from file to file",
    "gap": "a step is missing from the prevailing stride",
    "leading-zeros": "a file's name is not the plain number of its step",
    "stray": "something else lies in the directory",
    "line-separator": "a raw U+2028, U+2029 or U+0085, at which some readers split the line",
    "huge-number": "an integer beyond the doubles, which some readers refuse",
    "long-line": "a line over 8 MiB, which is checked in pieces",
    "not-compared": "rows or keys that were too many to be compared",
}
KINDS: dict[str, Kind] = {
    **{name: Kind(name, "error", means) for name, means in _ERRORS.items()},
    **{name: Kind(name, "warning", means) for name, means in _WARNINGS.items()},
}
"""All kinds by name, the errors first."""
