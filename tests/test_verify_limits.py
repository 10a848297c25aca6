"""`verl_dump.verify`: what happens to a dump while it is read, and where each limit lies."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from verl_dump.verify import Outcome, find_place, verify
from verl_dump.verify import content as content_module
from verl_dump.verify.between import as_ranges
from verl_dump.verify.content import changed_keys
from verl_dump.verify.lines import Piece, cut
from verl_dump.verify.prints import RowPrint, Seen
from verl_dump.verify.rows import PARSERS, quick

Finding = tuple[str, str, str, "int | None", "int | None"]


def found(outcome: Outcome) -> list[Finding]:
    """Every finding: file, kind, message, line and byte."""
    return [(g.file, g.kind, e.message, e.line, e.byte) for g in outcome.groups for e in g.examples]


def checked(directory: Path, files: dict[str, bytes]) -> list[Finding]:
    """The findings of a directory that holds these files."""
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return found(verify(find_place(str(directory)), show=99))


def once(real: Callable[..., object], act: Callable[[], None]) -> Callable[..., object]:
    """A function before whose first call something happens."""
    waiting = [act]

    def called(*arguments: object) -> object:
        while waiting:
            waiting.pop()()
        return real(*arguments)

    return called


def raises(number: int, text: str) -> Callable[[], None]:
    """Something that fails."""

    def act() -> None:
        raise OSError(number, text)

    return act


@pytest.mark.parametrize(
    ("call", "act", "kind", "message", "byte"),
    [
        pytest.param(
            "open",
            raises(errno.ENOENT, "-"),
            "changed",
            "it was removed before it could be read",
            None,
            id="removed",
        ),
        pytest.param(
            "open",
            raises(errno.EACCES, "Permission denied"),
            "unreadable",
            "cannot be opened: Permission denied",
            None,
            id="closed",
        ),
        pytest.param(
            "fstat", raises(errno.EIO, "I/O error"), "unreadable", "reading fails: I/O error", 0, id="state"
        ),
        pytest.param(
            "read", raises(errno.EIO, "I/O error"), "unreadable", "reading fails: I/O error", 0, id="content"
        ),
        pytest.param(
            "read",
            lambda: Path("5.jsonl").write_text('{"step": 5}\n{"step": 5') and None,
            "changed",
            "it was written to while it was read (12 bytes, now 22); verify again when the writer is done",
            None,
            id="grown",
        ),
        pytest.param(
            "open",
            lambda: (os.unlink("5.jsonl"), os.mkfifo("5.jsonl")) and None,
            "not-a-file",
            "a pipe has taken the place of the dump",
            None,
            id="pipe",
            marks=pytest.mark.skipif(os.name == "nt", reason="makes a pipe"),
        ),
    ],
)
def test_what_befalls_a_dump_is_said_of_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    act: Callable[[], None],
    kind: str,
    message: str,
    byte: int | None,
) -> None:
    """A dump that cannot be read, or not as it was, is one finding; the next one is read."""
    monkeypatch.chdir(tmp_path)
    for step in (5, 6):
        Path(f"{step}.jsonl").write_text(f'{{"step": {step}}}\n')
    place = find_place(".")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, once(getattr(os, call), act))
        outcome = verify(place)
    said = [each for each in found(outcome) if each[1] != "equal-files"]
    assert said == [("5.jsonl", kind, message, None, byte)]
    assert outcome.files == (2 if message.startswith("it was written") else 1)


def test_every_dump_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file that is opened is closed, and that closing fails after all was read is no damage."""
    opened: list[int] = []
    closed: list[int] = []
    real_open, real_close = os.open, os.close

    def opens(*arguments: object) -> int:
        opened.append(real_open(*arguments))
        return opened[-1]

    def closes(descriptor: int) -> None:
        real_close(descriptor)
        closed.append(descriptor)
        raise OSError(errno.EIO, "late")

    for step in (5, 6):
        (tmp_path / f"{step}.jsonl").write_text(f'{{"n": {step}, "step": {step}}}\n')
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opens)
        patch.setattr(os, "close", closes)
        outcome = verify(find_place(str(tmp_path)))
    assert (found(outcome), outcome.files) == ([], 2)
    assert closed == opened


def test_a_dead_link_is_no_empty_directory(tmp_path: Path) -> None:
    """Where something has the name of a dump, it is not said besides that there is none."""
    (tmp_path / "1.jsonl").mkdir()
    assert [kind for _, kind, *_ in checked(tmp_path, {})] == ["not-a-file"]
    (tmp_path / "1.jsonl").rmdir()
    assert checked(tmp_path, {}) == [("", "no-dumps", "there is no file {step}.jsonl in it", None, None)]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of over 60 bytes come in pieces of 50 bytes and less."""

    def pieces(blocks: Iterator[bytes]) -> Iterator[Piece]:
        return cut((block[at : at + 50] for block in blocks for at in range(0, len(block), 50)), limit=60)

    monkeypatch.setattr(content_module, "cut", pieces)


def test_long_lines_are_told_of_like_others(tmp_path: Path, short: None) -> None:
    """Lines that come in pieces have their line and byte, are compared, and the step is left out."""
    text = b"x" * 90
    line = b'{"a": "%b\xc2\x85%b", "step": %d}\n'
    files = {
        "5.jsonl": line % (text, text, 5) + line % (b"y" + text, text, 5) + line % (text, text, 5),
        "6.jsonl": line % (text, text, 7) + b'{"a": "' + text,
    }
    mark, long = "a raw U+0085 in the line", "the line has %d bytes: checked in pieces"
    assert checked(tmp_path, files) == [
        ("5.jsonl", "line-separator", mark, 1, 97),
        ("5.jsonl", "line-separator", mark, 2, 301),
        ("5.jsonl", "line-separator", mark, 3, 504),
        ("5.jsonl", "long-line", long % 202, 1, 0),
        ("5.jsonl", "long-line", long % 203, 2, 203),
        ("5.jsonl", "long-line", long % 202, 3, 407),
        ("5.jsonl", "equal-rows", "the row equals line 1", 3, 407),
        ("6.jsonl", "wrong-step", "step is 7", 1, 0),
        ("6.jsonl", "torn-line", "the line ends inside a string", 2, 300),
        ("6.jsonl", "line-separator", mark, 1, 97),
        ("6.jsonl", "long-line", long % 202, 1, 0),
        ("6.jsonl", "long-line", long % 97, 2, 203),
    ]


@pytest.mark.parametrize("changes", [False, True], ids=["quiet", "written-to"])
def test_a_long_line_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: None, changes: bool
) -> None:
    """A long last line lacks its newline, but where someone writes to the file nothing is said of it."""
    monkeypatch.chdir(tmp_path)
    Path("5.jsonl").write_text('{"step": 5, "a": "' + "x" * 80 + '"}')
    if changes:
        monkeypatch.setattr(os, "read", once(os.read, lambda: os.utime("5.jsonl", ns=(1, 1))))
    kinds = [kind for _, kind, *_ in checked(tmp_path, {})]
    assert kinds == (["changed"] if changes else ["no-newline", "long-line"])


def test_files_are_equal_but_for_the_step_of_the_row(tmp_path: Path) -> None:
    """The first step of a line is left out where it is that of the file, another one in the line is not."""
    row = b'{"step": %d, "turns": [{"step": %d}], "step2": 0}\n'
    equal = "its 1 row are those of 5.jsonl, apart from the step"
    files = {"5.jsonl": row % (5, 1), "6.jsonl": row % (6, 1), "7.jsonl": row % (7, 7)}
    assert checked(tmp_path, files) == [("6.jsonl", "equal-files", equal, None, None)]


def test_a_fingerprint_does_not_depend_on_the_pieces() -> None:
    """Equal long rows of two files have one fingerprint, however they are cut, another row has another one."""

    def of(step: int, *pieces: bytes) -> int:
        prints = RowPrint(step)
        prints.begin()
        for piece in pieces:
            prints.go_on(piece)
        return prints.end()

    first = of(5, b'{"a": 1, "step": 5}')
    assert of(6, b'{"a": 1, ', b'"step": 6}') == first
    assert of(6, b'{"a"', b": 1, ", b'"step":6', b"}") == first
    assert of(6, b'{"a": 1, ', b'"step": 7}') != first
    assert of(5, b'{"a": 2, "step": 5}') != first
    assert of(6, b'{"a": 1, "step": 61}') != first


def test_rows_that_meet_in_the_table_are_told_apart() -> None:
    """Rows whose fingerprints begin alike are found one by one, until three quarters of the table are full."""
    seen = Seen(slots=16)
    prints = [16 * n for n in range(1, 13)]
    assert [seen.earlier(each, line) for line, each in enumerate(prints, 1)] == [0] * 12
    assert [seen.earlier(each, 99) for each in prints] == list(range(1, 13))
    assert seen.earlier(7, 99) == -1


def test_lines_beyond_32_bits_are_kept_as_the_last_one() -> None:
    """A row beyond line 4,294,967,295 is found again, under that number."""
    seen = Seen()
    assert [seen.earlier(n, 2**32 - 2 + n) for n in (1, 2)] == [0, 0]
    assert [seen.earlier(n, 1) for n in (1, 2)] == [2**32 - 1, 2**32 - 1]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("ab", "abc", "with c"),
        ("abc", "bd", "with d, without a, c"),
        ("", "edcba", "with a, b, c, d, e"),
        ("abcdef", "", "without a, b, c, d, e and 1 more"),
        ("abcdefg", "", "without a, b, c, d, e and 2 more"),
        ([], ["k" * 40, "l" * 41], f"with {'k' * 40}, {'l' * 39}…"),
    ],
    ids=["one", "both", "five", "six", "seven", "long"],
)
def test_changed_keys_are_named(before: object, after: object, text: str) -> None:
    """Up to five keys that came and went are named in order, cut where they are long; the others are counted."""
    assert changed_keys(before, after) == text


@pytest.mark.parametrize(("gaps", "more"), [(8, ""), (9, " and 1 more gap"), (10, " and 2 more gaps")])
def test_eight_gaps_are_named(gaps: int, more: str) -> None:
    """Eight gaps are named, the others are counted."""
    named = "0, 10, 20, 30, 40, 50, 60, 70..71"
    ranges = [range(10 * n, 10 * n + (2 if n == 7 else 1)) for n in range(gaps)]
    assert as_ranges(ranges) == named + more


@pytest.mark.parametrize("step", [10**60 - 1, 10**60, -(10**60)], ids=["sixty", "more", "less"])
def test_a_step_of_over_60_digits_is_not_spelt_out(tmp_path: Path, step: int) -> None:
    """A wrong step is shown up to 60 digits, cut to 40 characters."""
    ((_, kind, message, *_),) = checked(tmp_path, {"5.jsonl": b'{"step": %d}\n' % step})
    shown = f"{'9' * 39}…" if step == 10**60 - 1 else "an integer of over 60 digits"
    assert (kind, message) == ("wrong-step", f"step is {shown}")


@pytest.mark.parametrize(
    ("rows", "doubled"), [("aa", False), ("abab", True), ("abba", False), ("aabb", False)]
)
def test_a_doubled_file_has_two_copies_behind_each_other(tmp_path: Path, rows: str, doubled: bool) -> None:
    """Only a file whose second half is its first, of two rows at least, is called doubled."""
    data = "".join(f'{{"a": "{row}", "step": 5}}\n' for row in rows).encode()
    said = [each for each in checked(tmp_path, {"5.jsonl": data}) if each[1] == "doubled-file"]
    text = "the file holds all of its rows twice, one copy behind the other"
    assert said == [("5.jsonl", "doubled-file", text, None, None)] * doubled


def test_rows_that_were_not_compared_are_said_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows beyond the table are one warning of their file."""
    monkeypatch.setattr(content_module, "Seen", lambda: Seen(slots=4))
    data = b"".join(b'{"a": %d, "step": 5}\n' % n for n in range(5))
    text = "2 rows were compared with the first 3 different ones only"
    assert checked(tmp_path, {"5.jsonl": data}) == [("5.jsonl", "not-compared", text, None, None)]


def test_a_line_at_the_limit_is_whole() -> None:
    """A line of as many bytes as may be held comes whole, also behind a longer one, which comes in pieces."""
    assert list(
        cut([b"123", b"456", b"\n1", b"23456", b"\n123", b"4567", b"\n", b"123", b"456", b"\n"], limit=6)
    ) == [
        Piece(1, 0, b"123456", True, True, True),
        Piece(2, 7, b"123456", True, True, True),
        Piece(3, 14, b"1234567", True, False, False),
        Piece(3, 21, b"", False, True, True),
        Piece(4, 22, b"123456", True, True, True),
    ]


@pytest.mark.parametrize("parser", list(PARSERS))
@pytest.mark.parametrize(
    "line",
    [
        b'{"a": "\\": \\\\", "step": 5}',
        b'{"a": "\\\\\\":", "b\\\\": [{"c": {}}, [1, {"d": 2}]], "step": 5}',
        b'{"a\\\\":1,"t":{"b":"\\":\\":"},"step":5}',
        b"{}",
        b'{"a": "\\u00e9", "b": "x : y", "c": 1.5}',
        b'{"a":"' + b"1 " * 400 + b'"}',
    ],
    ids=["escaped-quote", "nested", "escaped-backslash", "empty", "unit", "digits"],
)
def test_rows_in_order_are_read_the_fast_way(line: bytes, parser: str) -> None:
    """What is in order is not read twice, whatever looks like a key in its texts."""
    assert quick(line, PARSERS[parser]) is not None


@pytest.mark.parametrize("parser", list(PARSERS))
@pytest.mark.parametrize(
    "line",
    [
        b'{"a"\t: 1, "a": 2}',
        b'{"a"\r: 1, "a": 2}',
        b'{"a" : 1, "a": 2}',
        b'{"a" \t : 1, "a": 2}',
        b'{"a":1,"a":1,"t\\\\":1}',
        b'{"t": {"a": 1, "a": 2}}',
    ],
    ids=["tab", "return", "space", "spaces", "backslash", "nested"],
)
def test_a_key_twice_is_never_passed_over(line: bytes, parser: str) -> None:
    """A line with a key twice is looked at more closely, whatever stands before the colon."""
    assert quick(line, PARSERS[parser]) is None


@pytest.mark.parametrize("parser", list(PARSERS))
@pytest.mark.parametrize(
    "line",
    [
        b'{"step": 5.0}',
        b"[1]",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": -1e999}',
        b'{"a": "\\uD800"}',
        b'{"a": ' + b"2" + b"0" * 308 + b"}",
        b"",
    ],
    ids=["step", "array", "nan", "infinite", "minus-infinite", "half", "huge", "nothing"],
)
def test_what_is_doubtful_is_looked_at_more_closely(line: bytes, parser: str) -> None:
    """The fast way gives no row of a line in which something is wrong, or a step no integer."""
    assert quick(line, PARSERS[parser]) is None
