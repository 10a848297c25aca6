"""Reads what `strace -f -y -xx` has written: system calls that have returned, in the order in which they did.

With `-xx` every text and every path is in hexadecimal, so that no quote, comma or bracket in it can be mistaken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<([^<>]*)>)?(?:\((deleted)\))?")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*?) *<unfinished \.\.\.>$")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_TEXT = re.compile(r'"([^"]*)"(\.\.\.)?')
_FILE = re.compile(r"(-?\d+|AT_FDCWD)(?:<([^<>]*)>)?(?:\((deleted)\))?$")
_PIECES = re.compile(r'"[^"]*"(?:\.\.\.)?|<[^<>]*>|[][{}()]|, |.')
_BYTE = re.compile(r"\\x([0-9a-f]{2})")


class CutShortError(ValueError):
    """A text was longer than what strace was told to write of it."""


@dataclass(frozen=True)
class Call:
    """A system call that has succeeded.

    Args:
        thread: who made it.
        name: of the call.
        arguments: as strace writes them.
        result: what it returned, 0 or more.
        path: where the returned descriptor leads, or None.
        nameless: whether that file has no name.
    """

    thread: int
    name: str
    arguments: tuple[str, ...]
    result: int
    path: str | None = None
    nameless: bool = False


@dataclass(frozen=True)
class Reference:
    """A descriptor as an argument.

    Args:
        number: of the descriptor, -1 for the current directory.
        path: where it leads, or None where strace does not know.
        nameless: whether the file has lost its name.
    """

    number: int
    path: str | None
    nameless: bool = False


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """The calls that succeeded, each where it returned; what was cut off by another thread's line is put together."""
    begun: dict[tuple[int, str], str] = {}
    for line in lines:
        if match := _BEGUN.match(line):
            begun[int(match[1]), match[2]] = match[3]
            continue
        if match := _RESUMED.match(line):
            head = begun.pop((int(match[1]), match[2]), None)
            if head is None:
                continue
            whole = _WHOLE.match(f"{match[1]} {match[2]}({head}{match[3]}")
        else:
            whole = _WHOLE.match(line)
        if whole is None or whole[4].startswith("-"):
            continue
        path = None if whole[5] is None else plain(whole[5])
        yield Call(int(whole[1]), whole[2], _split(whole[3]), int(whole[4]), path, whole[6] is not None)


def reference(argument: str) -> Reference:
    """The descriptor that an argument names."""
    match = _FILE.match(argument)
    if match is None:
        return Reference(-1, None)
    number = -1 if match[1] == "AT_FDCWD" else int(match[1])
    return Reference(number, None if match[2] is None else plain(match[2]), match[3] is not None)


def data(argument: str) -> bytes:
    """The bytes of a text, or of all texts of a vector.

    Raises:
        CutShortError: strace has not written all of them.
    """
    found = bytearray()
    for match in _TEXT.finditer(argument):
        if match[2]:
            raise CutShortError("a write is longer than what strace shows of it")
        found += bytes.fromhex(match[1].replace("\\x", ""))
    return bytes(found)


def plain(text: str) -> str:
    """A path as it is."""
    raw = _BYTE.sub(lambda match: chr(int(match[1], 16)), text)
    return raw.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def _split(text: str) -> tuple[str, ...]:
    """The arguments of a call."""
    if not text.strip():
        return ()
    found, depth = [""], 0
    for piece in _PIECES.findall(text):
        depth += (piece in "([{") - (piece in ")]}")
        if piece == ", " and depth == 0:
            found.append("")
        else:
            found[-1] += piece
    return tuple(found)
