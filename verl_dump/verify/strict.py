"""Checks a line of RFC 8259 JSON that comes in pieces, in constant memory, and says at which byte it is wrong."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from verl_dump.verify.words import shown

ABSENT = object()
"""The step of a row that has none."""
_DEPTH = 10_000
_KEYS = 100_000  # of the objects that are open at one time
_KEY_BYTES = 4096
_NUMBER_BYTES = 1 << 16
_INT_DIGITS = 4300  # more are refused by Python's `int`

_SPACE = re.compile(rb"[ \t\r\n]*")
# The bound keeps what the matcher remembers of its way small.
_TEXT = re.compile(rb'[^"\\\x00-\x1f]*(?:\\["\\/bfnrt][^"\\\x00-\x1f]*){0,64}')
_UNIT = re.compile(rb"\\u([0-9a-fA-F]{4})")
_UNIT_BEGUN = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_NUMERIC = re.compile(rb"[-+.0-9eE]+")
_WORDS = (b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity", b"-NaN")
_INFINITE = frozenset({float("inf"), float("-inf")})


@dataclass(frozen=True)
class Problem:
    """What is wrong with a line.

    Attributes:
        kind: name of the kind of finding.
        position: bytes from the start of the line.
        message: what is there.
    """

    kind: str
    position: int
    message: str


@dataclass(frozen=True)
class Step:
    """A step that is no integer, as it is shown."""

    text: str


@dataclass
class Facts:
    """What is known of a line.

    Attributes:
        problems: in the order of their positions.
        keys: of the row, None where the line could not be read to its end.
        step: an int, a `Step`, or `ABSENT`.
    """

    problems: list[Problem] = field(default_factory=list)
    keys: frozenset[str] | None = None
    step: Any = ABSENT


class Checker:
    """Takes a line piece by piece; `end` gives the facts."""

    def __init__(self) -> None:
        self._facts = Facts()
        self._utf8: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self._fed = 0
        self._buffer = b""
        self._base = 0  # position of the buffer in the line
        self._at = 0  # position in the buffer
        self._final = False
        self._stopped = False
        self._turn: Callable[[], bool] = self._value
        self._open: list[set[str]] = []  # keys of each open object, `_ARRAY` for an array
        self._keys = 0
        self._is_key = False
        self._raw = bytearray()
        self._long_key = blake2b(digest_size=16)
        self._key = ""  # last one of the row itself
        self._top: frozenset[str] | None = None

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the line."""
        self._check_utf8(piece)
        if not self._stopped:
            self._base += self._at
            self._buffer = self._buffer[self._at :] + piece
            self._at = 0
            self._run()

    def end(self) -> Facts:
        """Say what is known, now that the line has ended."""
        self._check_utf8(b"", final=True)
        self._final = True
        self._run()
        if not self._stopped:
            if self._turn == self._done:
                self._facts.keys = self._top
                if self._top is None:
                    self._problem("not-object", "a row must be an object", 0)
            else:
                self._problem("torn-line", f"the line ends {self._place()}", self._base + len(self._buffer))
        self._facts.problems.sort(key=lambda problem: (problem.position, problem.kind))
        return self._facts

    def _run(self) -> None:
        while not self._stopped and self._turn():
            pass

    def _place(self) -> str:
        if self._turn == self._string:
            return "inside a key" if self._is_key else "inside a string"
        if not self._open:
            return "before the first value"
        return "inside an array" if self._open[-1] is _ARRAY else "inside an object"

    def _problem(self, kind: str, message: str, position: int | None = None) -> None:
        self._facts.problems.append(
            Problem(kind, self._base + self._at if position is None else position, message)
        )

    def _stop(self, message: str) -> bool:
        self._problem("not-json", message)
        self._stopped = True
        self._buffer = b""
        return False

    def _check_utf8(self, piece: bytes, *, final: bool = False) -> None:
        if self._utf8 is None:
            return
        pending = self._utf8.getstate()[0]
        try:
            self._utf8.decode(piece, final)
        except UnicodeDecodeError as error:
            at = self._fed - len(pending) + error.start
            self._problem("not-utf8", f"byte 0x{(pending + piece)[error.start]:02x} is no UTF-8", at)
            self._utf8 = None
        self._fed += len(piece)

    def _char(self) -> bytes:
        """Skip space and return the next byte, nothing where more must come first."""
        match = _SPACE.match(self._buffer, self._at)
        self._at = match.end() if match else self._at
        return self._buffer[self._at : self._at + 1]

    # Each of the following takes one token and returns whether there was a whole one.

    def _value(self) -> bool:
        char = self._char()
        if not char:
            return False
        if char == b'"':
            return self._begin_string(is_key=False)
        if char in (b"{", b"["):
            if len(self._open) == _DEPTH:
                return self._stop(f"nested deeper than {_DEPTH:,} levels")
            self._note_step(Step("an object" if char == b"{" else "an array"))
            self._open.append(set() if char == b"{" else _ARRAY)
            self._turn = self._first_key if char == b"{" else self._first_value
            self._at += 1
            return True
        return self._number() if char in b"-0123456789" else self._word()

    def _first_value(self) -> bool:
        return self._close() if self._char() == b"]" else self._value()

    def _first_key(self) -> bool:
        return self._close() if self._char() == b"}" else self._next_key()

    def _next_key(self) -> bool:
        char = self._char()
        if not char:
            return False
        if char != b'"':
            return self._stop(f"{self._here()} where a key should be")
        return self._begin_string(is_key=True)

    def _colon(self) -> bool:
        char = self._char()
        if char and char != b":":
            return self._stop(f"{self._here()} where a colon should be")
        self._at += len(char)
        self._turn = self._value if char else self._turn
        return bool(char)

    def _after(self) -> bool:
        if not self._open:
            self._turn = self._done
            return True
        char = self._char()
        is_array = self._open[-1] is _ARRAY
        if char == (b"]" if is_array else b"}"):
            return self._close()
        if char and char != b",":
            return self._stop(f"{self._here()} where a comma should be")
        self._at += len(char)
        if char:
            self._turn = self._value if is_array else self._next_key
        return bool(char)

    def _done(self) -> bool:
        if self._char():
            return self._stop("more text after the value")
        return False

    def _close(self) -> bool:
        keys = self._open.pop()
        if keys is not _ARRAY:
            self._keys -= len(keys)
            if not self._open:
                self._top = frozenset(keys)
        self._at += 1
        self._turn = self._after
        return True

    def _begin_string(self, *, is_key: bool) -> bool:
        self._is_key = is_key
        self._at += 1
        self._raw.clear()
        self._turn = self._string
        return True

    def _string(self) -> bool:
        match = _TEXT.match(self._buffer, self._at)
        self._keep(match.end() if match else self._at)
        char = self._buffer[self._at : self._at + 1]
        if char == b'"':
            self._at += 1
            self._end_string()
            return True
        if char == b"\\":
            return self._escape()
        if char:
            return self._stop(f"a raw control character ({self._here()}) in a string")
        return False

    def _escape(self) -> bool:
        match = _UNIT.match(self._buffer, self._at)
        if match is None:
            if self._buffer[self._at + 1 : self._at + 2] in _SHORT:
                return True
            if _UNIT_BEGUN.fullmatch(self._buffer, self._at):
                return False
            return self._stop("an escape that JSON does not have")
        end = match.end()
        if int(match[1], 16) & 0xF800 == 0xD800:
            second = _UNIT.match(self._buffer, end)
            if second is None and not self._final and _UNIT_BEGUN.fullmatch(self._buffer[end:] or b"\\"):
                return False
            if match[1][1:2] in b"89abAB" and second and second[1][:2].lower() in _LOW:
                end = second.end()
            else:
                self._problem("lone-surrogate", f"\\u{match[1].decode()} is half of a pair")
        self._keep(end)
        return True

    def _keep(self, end: int) -> None:
        """Go on to `end`; what is passed over is kept where it is a key."""
        if self._is_key:
            if len(self._raw) > _KEY_BYTES:
                self._long_key.update(self._buffer[self._at : end])
            else:
                self._raw += self._buffer[self._at : end]
                if len(self._raw) > _KEY_BYTES:
                    self._long_key = blake2b(self._raw, digest_size=16)
                    del self._raw[_KEY_BYTES + 1 :]
        self._at = end

    def _end_string(self) -> None:
        if not self._is_key:
            self._note_step(Step("a text"))
            self._turn = self._after
            return
        self._turn = self._colon
        if len(self._raw) > _KEY_BYTES:
            key = f"{self._raw[:40].decode('utf-8', 'replace')}… ({self._long_key.hexdigest()})"
        else:
            key = json.loads('"' + self._raw.decode("utf-8", "surrogateescape") + '"')
        keys = self._open[-1]
        if key in keys:
            self._problem("duplicate-key", f"the key {shown(key, 40)!r} stands in one object twice")
        elif self._keys < _KEYS:
            keys.add(key)
            self._keys += 1
        elif all(problem.kind != "not-compared" for problem in self._facts.problems):
            self._problem("not-compared", f"of more than {_KEYS:,} keys, the others were not compared")
        if len(self._open) == 1:
            self._key = key

    def _number(self) -> bool:
        numeric = _NUMERIC.match(self._buffer, self._at)
        end = numeric.end() if numeric else self._at
        if end - self._at > _NUMBER_BYTES:
            return self._stop(f"a number of more than {_NUMBER_BYTES:,} characters")
        if end == len(self._buffer) and not self._final:
            return False
        match = _NUMBER.match(self._buffer, self._at)
        if match is None:
            return self._word()
        if match.end() != end:
            # Cut off in the middle, or no number at all.
            return False if end == len(self._buffer) else self._stop("a malformed number")
        text = match.group()
        as_text = shown(text.decode(), 40)
        is_integer = not match[1] and len(text) <= _INT_DIGITS
        self._note_step(int(text) if is_integer else Step(as_text))
        if float(text) in _INFINITE:
            if match[1]:
                self._problem("non-finite", f"{as_text} reads as infinity")
            else:
                self._problem("huge-number", f"an integer of {len(text):,} characters")
        self._at = end
        self._turn = self._after
        return True

    def _word(self) -> bool:
        rest = self._buffer[self._at : self._at + 9]
        word = next((word for word in _WORDS if rest.startswith(word)), None)
        if word is None:
            if any(word.startswith(rest) for word in _WORDS):
                return False
            return self._stop(f"{self._here()} where a value should be")
        if word[-1:] in b"Ny":
            self._problem("non-finite", f"a bare {word.decode()}")
        self._note_step(Step(word.decode()))
        self._at += len(word)
        self._turn = self._after
        return True

    def _note_step(self, value: Any) -> None:
        if len(self._open) == 1 and self._open[0] is not _ARRAY and self._key == "step":
            self._facts.step = value

    def _here(self) -> str:
        byte = self._buffer[self._at]
        if byte == 0:
            return "a NUL byte, as a crash of the machine leaves it,"
        if byte == codecs.BOM_UTF8[0]:
            return "byte 0xef, as of a byte order mark,"
        return repr(chr(byte)) if 0x20 <= byte < 0x7F else f"byte 0x{byte:02x}"


_ARRAY: set[str] = set()
_SHORT = tuple(bytes([char]) for char in b'"\\/bfnrt')
_LOW = (b"dc", b"dd", b"de", b"df")
