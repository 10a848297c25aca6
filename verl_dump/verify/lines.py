"""Cuts a file into lines in constant memory, whatever the length of a line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

BLOCK = 1 << 20
"""Bytes read at once."""
LONG = 8 << 20
"""Bytes of a line that are held; a longer line comes in pieces."""


class Piece(NamedTuple):
    """A line, or a part of a long one.

    Attributes:
        number: of the line, from 1.
        start: byte of the file at which the piece starts, from 0.
        data: the bytes, without the newline.
        first: whether the line starts here.
        last: whether the line ends here.
        ended: whether a newline ends it.
    """

    number: int
    start: int
    data: bytes
    first: bool
    last: bool
    ended: bool


def blocks(descriptor: int, size: int, tell: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file, or fewer if it has become shorter.

    Args:
        descriptor: of the open file.
        size: bytes to read; what a writer adds meanwhile is left alone, so that the end is reached.
        tell: is told the number of bytes of each block.
    """
    while size and (block := os.read(descriptor, min(BLOCK, size))):
        size -= len(block)
        tell(len(block))
        yield block


def cut(source: Iterable[bytes], limit: int = LONG) -> Iterator[Piece]:
    """Yield the lines of a file, a line of more than `limit` bytes in pieces.

    Args:
        source: the file in blocks.
        limit: bytes of a line that may be held; the longest piece has this and one block.
    """
    number, start, first = 1, 0, True
    held: list[bytes] = []
    size = 0
    for block in source:
        *whole, rest = block.split(b"\n")
        for end in whole:
            data = end
            if held:
                data = b"".join((*held, end))
                held.clear()
                size = 0
            yield Piece(number, start, data, first, True, True)
            number, start, first = number + 1, start + len(data) + 1, True
        if rest:
            held.append(rest)
            size += len(rest)
        if size > limit or (size and not first):
            data = b"".join(held)
            held.clear()
            yield Piece(number, start, data, first, False, False)
            start, first, size = start + len(data), False, 0
    if held or not first:
        yield Piece(number, start, b"".join(held), first, True, False)
