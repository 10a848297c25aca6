"""Fingerprints of rows, in bounded memory."""

from __future__ import annotations

import re
from array import array
from hashlib import blake2b

_SLOTS = 1 << 12
_MOST_SLOTS = 1 << 22
_STEP = b'"step":'
_MASK = (1 << 64) - 1


class RowPrint:
    """The fingerprint of one row apart from its step, so that rows of two files can be equal.

    It means nothing in another process.

    Args:
        step: of the file; None leaves every step in.
    """

    def __init__(self, step: int | None) -> None:
        self._number = None if step is None else re.compile(rb'"step":[ ]*%d(?![0-9.eE])' % step)
        self._hash = blake2b()

    def of(self, data: bytes) -> int:
        """Return that of a whole line; a longer one than `lines.LONG` must come in pieces."""
        before, after = self._parts(data)
        # At the speed of memory, and keyed anew in each process.
        return hash((hash(before), hash(after)))

    def begin(self) -> None:
        """Begin a line that comes in pieces."""
        self._hash = blake2b(digest_size=8)

    def go_on(self, data: bytes) -> None:
        """Take the next piece of that line."""
        for part in self._parts(data):
            self._hash.update(part)

    def end(self) -> int:
        """Return the fingerprint of that line."""
        return int.from_bytes(self._hash.digest(), "little")

    def _parts(self, data: bytes) -> tuple[memoryview | bytes, memoryview | bytes]:
        """Return what is before the step and what is behind it."""
        at = data.find(_STEP) if self._number else -1
        match = self._number.match(data, at) if self._number and at >= 0 else None
        if not match:
            return data, b""
        view = memoryview(data)
        return view[:at], view[match.end() :]


class Seen:
    """The fingerprints of a file's rows, in a table that grows to 48 MiB and no further.

    Args:
        slots: bound of the table; a power of two. Three quarters of it can be filled.
    """

    def __init__(self, slots: int = _MOST_SLOTS) -> None:
        self._most = slots
        self._clear(min(_SLOTS, slots))
        self._count = 0

    @property
    def room(self) -> int:
        """Rows that can be told apart."""
        return self._most * 3 // 4

    def _clear(self, slots: int) -> None:
        self._mask = slots - 1
        self._prints = array("Q", bytes(8 * slots))
        self._lines = array("I", bytes(4 * slots))

    def earlier(self, print_: int, line: int) -> int:
        """Return the line of an equal row, 0 if there is none, -1 if the table is full and knows none."""
        number = print_ & _MASK or 1
        slot = self._slot(number)
        if self._prints[slot]:
            return self._lines[slot]
        if self._count >= (self._mask + 1) * 3 // 4:
            if self._mask + 1 >= self._most:
                return -1
            self._grow()
            slot = self._slot(number)
        self._prints[slot] = number
        self._lines[slot] = min(line, 0xFFFFFFFF)
        self._count += 1
        return 0

    def _slot(self, number: int) -> int:
        """Return where a fingerprint stands, or would stand."""
        prints, mask = self._prints, self._mask
        slot = number & mask
        while prints[slot] and prints[slot] != number:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        prints, lines = self._prints, self._lines
        self._clear((self._mask + 1) * 4)
        for number, line in zip(prints, lines, strict=True):
            if number:
                slot = self._slot(number)
                self._prints[slot] = number
                self._lines[slot] = line
