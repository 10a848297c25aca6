"""Checks what one dump holds, line by line."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from verl_dump.verify.lines import Piece, blocks, cut
from verl_dump.verify.prints import RowPrint, Seen
from verl_dump.verify.rows import close, quick
from verl_dump.verify.scan import Dump, special
from verl_dump.verify.strict import ABSENT, Checker, Facts, Step
from verl_dump.verify.tally import Tally
from verl_dump.verify.words import counted, shown, sized

_FLAGS = os.O_RDONLY
# A pipe that has taken the file's place must not be waited for.
for _flag in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _FLAGS |= getattr(os, _flag, 0)
_SEPARATORS = tuple((char.encode(), f"U+{ord(char):04X}") for char in "\u2028\u2029\x85")


@dataclass(frozen=True)
class Contents:
    """What other files are compared with.

    Attributes:
        rows: lines that are not empty.
        size: bytes read.
        keys: of the first row, None if there is none.
        digest: of all rows apart from their step.
    """

    rows: int
    size: int
    keys: frozenset[str] | None
    digest: int


def check_file(
    path: str, dump: Dump, tally: Tally, parse: Callable[[bytes], Any], tell: Callable[[int], None]
) -> Contents | None:
    """Check one dump; None if it is not there or cannot be read to its end.

    Args:
        path: of the file.
        dump: its name and step.
        tally: takes the findings.
        parse: a strict parser.
        tell: is told the bytes read, block by block.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        gone = error.errno == errno.ENOENT
        what = "it was removed before it could be read" if gone else f"cannot be opened: {error.strerror}"
        tally.add("changed" if gone else "unreadable", dump.name, what)
        return None
    check = None
    try:
        status = os.fstat(descriptor)
        if what := special(status.st_mode):
            tally.add("not-a-file", dump.name, f"{what} has taken the place of the dump")
            return None
        check = _Check(descriptor, status, dump, tally, parse)
        return check.run(tell)
    except OSError as error:
        at = check.read if check else 0
        tally.add("unreadable", dump.name, f"reading fails: {error.strerror}", byte=at)
        return None
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class _Check:
    def __init__(
        self,
        descriptor: int,
        status: os.stat_result,
        dump: Dump,
        tally: Tally,
        parse: Callable[[bytes], Any],
    ) -> None:
        self.read = 0
        self._descriptor = descriptor
        self._status = status
        self._dump = dump
        self._tally = tally
        self._parse = parse
        self._rows = 0
        self._keys: frozenset[str] | None = None
        self._print = RowPrint(dump.step)
        self._seen = Seen()
        self._shifts: set[int] = set()  # between equal rows; two different ones are enough to know
        self._repeated = self._unknown = 0
        self._digest = 0
        self._checker: Checker | None = None  # of a line that comes in pieces
        self._begin = 0  # byte at which the present line begins

    def run(self, tell: Callable[[int], None]) -> Contents:
        def told(size: int) -> None:
            self.read += size
            tell(size)

        for piece in cut(blocks(self._descriptor, self._status.st_size, told)):
            if piece.first and piece.last:
                self._line(piece)
            else:
                self._part(piece)
        self._look_again()
        if not self._status.st_size:
            self._tally.add("empty-file", self._dump.name, "it is empty")
        self._tell_repeated()
        return Contents(self._rows, self.read, self._keys, self._digest)

    def _add(self, kind: str, message: str, line: int, byte: int) -> None:
        self._tally.add(kind, self._dump.name, message, line, byte)

    def _line(self, piece: Piece) -> None:
        """Check a line that is there whole."""
        data = piece.data
        self._begin = piece.start
        if not piece.ended and self._changed():
            return  # what is missing may have come meanwhile
        if not data or data.isspace():
            self._add("blank-line", "the line is empty", piece.number, piece.start)
            if not piece.ended:
                self._no_newline(piece)
            return
        self._separators(piece)
        row = quick(data, self._parse)
        if row is None:
            self._facts(piece, close(data))
        else:
            self._row(piece.number, row.keys(), row.get("step", ABSENT))
            if not piece.ended:
                self._no_newline(piece)
        self._compare(piece.number, self._print.of(data))

    def _part(self, piece: Piece) -> None:
        """Check a line that comes in pieces."""
        if piece.first:
            self._begin = piece.start
            self._checker = Checker()
            self._print.begin()
        if self._checker is None:  # a first piece comes first
            return
        self._checker.feed(piece.data)
        self._print.go_on(piece.data)
        self._separators(piece)
        if not piece.last or (not piece.ended and self._changed()):
            return
        size = piece.start + len(piece.data) - self._begin
        self._add("long-line", f"the line has {sized(size)}: checked in pieces", piece.number, self._begin)
        self._facts(piece, self._checker.end())
        self._compare(piece.number, self._print.end())

    def _facts(self, piece: Piece, facts: Facts) -> None:
        torn = False
        for problem in facts.problems:
            torn |= problem.kind == "torn-line"
            self._add(problem.kind, problem.message, piece.number, self._begin + problem.position)
        if facts.keys is not None:
            self._row(piece.number, facts.keys, facts.step)
        else:
            self._rows += 1
        if not piece.ended and not torn:
            self._no_newline(piece)

    def _row(self, line: int, keys: Any, step: Any) -> None:
        self._rows += 1
        if self._keys is None:
            self._keys = frozenset(keys)
        elif keys != self._keys:
            self._add(
                "keys-in-file", f"{changed_keys(self._keys, keys)} against the first row", line, self._begin
            )
        if step is ABSENT:
            self._add("no-step", "the row has no step", line, self._begin)
        elif self._dump.step is not None and (type(step) is not int or step != self._dump.step):
            self._add("wrong-step", f"step is {_as_step(step)}", line, self._begin)

    def _separators(self, piece: Piece) -> None:
        if piece.data.isascii():
            return
        for mark, name in _SEPARATORS:
            # One byte is found far faster than three, and is seldom there.
            at = piece.data.find(mark) if mark[0] in piece.data else -1
            if at >= 0:
                self._add("line-separator", f"a raw {name} in the line", piece.number, piece.start + at)

    def _no_newline(self, piece: Piece) -> None:
        end = piece.start + len(piece.data)
        self._add("no-newline", "the last line has no newline", piece.number, end)

    def _compare(self, line: int, print_: int) -> None:
        self._digest = hash((self._digest, print_))
        earlier = self._seen.earlier(print_, line)
        if earlier > 0:
            self._repeated += 1
            if len(self._shifts) < 2:
                self._shifts.add(line - earlier)
            self._add("equal-rows", f"the row equals line {earlier:,}", line, self._begin)
        elif earlier < 0:
            self._unknown += 1

    def _tell_repeated(self) -> None:
        name = self._dump.name
        if self._rows > 2 and self._repeated * 2 == self._rows and self._shifts == {self._rows // 2}:
            self._tally.add(
                "doubled-file", name, "the file holds all of its rows twice, one copy behind the other"
            )
        if self._unknown:
            message = (
                f"{counted(self._unknown, 'row')} were compared with the first "
                f"{self._seen.room:,} different ones only"
            )
            self._tally.add("not-compared", name, message)

    def _changed(self) -> bool:
        now = os.fstat(self._descriptor)
        before = self._status
        return (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns)

    def _look_again(self) -> None:
        if self._changed():
            size = os.fstat(self._descriptor).st_size
            self._tally.add(
                "changed",
                self._dump.name,
                f"it was written to while it was read ({self._status.st_size:,} bytes, now {size:,}); "
                "verify again when the writer is done",
            )


def changed_keys(before: Any, after: Any) -> str:
    """Say which keys came and which went."""
    parts = []
    for sign, keys in (("with", set(after) - set(before)), ("without", set(before) - set(after))):
        if keys:
            names = ", ".join(shown(key, 40) for key in sorted(keys)[:5])
            more = f" and {len(keys) - 5:,} more" if len(keys) > 5 else ""
            parts.append(f"{sign} {names}{more}")
    return ", ".join(parts)


def _as_step(step: Any) -> str:
    """Show a step that is wrong; a float comes as a `Step`."""
    if type(step) is int:
        return shown(str(step), 40) if abs(step) < 10**60 else "an integer of over 60 digits"
    if isinstance(step, Step):
        return step.text
    if step is None or isinstance(step, bool):
        return {None: "null", True: "true", False: "false"}[step]
    if isinstance(step, str):
        return "a text"
    return "an object" if isinstance(step, dict) else "an array"
