"""`verl_dump.verify`: every kind of damage is found where it is, and nothing is said of what is whole."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import os
import random
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.oracle.strict import StrictError, parse
from fault_injection.targets.source import find_classes, load_class
from verl_dump import GenerationDumper
from verl_dump.verify import KINDS, Group, Outcome, find_place, verify
from verl_dump.verify import content as content_module
from verl_dump.verify import lines as lines_module
from verl_dump.verify.between import as_ranges, missing_steps, stride_of
from verl_dump.verify.directory import PlaceError
from verl_dump.verify.lines import Piece, cut
from verl_dump.verify.prints import Seen
from verl_dump.verify.rows import PARSERS, close, quick
from verl_dump.verify.strict import Checker, Facts

ROW = b'{"input": "q", "output": "a", "gts": "1", "score": 1.0, "step": 5}'
posix = pytest.mark.skipif(os.name == "nt", reason="needs pipes, sockets and links of POSIX")


def row(step: int = 5, **more: object) -> bytes:
    """One row as a line."""
    text = json.dumps({"input": "q", "output": "a", "step": step, **more}, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def checked(directory: Path, files: dict[str, bytes], **options: object) -> Outcome:
    """What is said of a directory that holds these files."""
    directory.mkdir(exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return verify(find_place(str(directory)), **options)


def kinds(outcome: Outcome) -> dict[str, int]:
    """How often each kind was found."""
    return {kind: total.count for kind, total in outcome.totals.items()}


def group(outcome: Outcome, kind: str) -> Group:
    """The only group of a kind."""
    (found,) = [each for each in outcome.groups if each.kind == kind]
    return found


LINES = {
    "torn-in-string": (b'{"input": "q', "torn-line", 12),
    "torn-in-key": (b'{"inp', "torn-line", 5),
    "torn-in-number": (b'{"step": 5, "score": 1.', "torn-line", 23),
    "torn-in-word": (b'{"step": 5, "ok": tr', "torn-line", 20),
    "torn-in-escape": (b'{"input": "\\u12', "torn-line", 15),
    "torn-before-value": (b'{"step":', "torn-line", 8),
    "comma-missing": (b'{"step": 5 "a": 1}', "not-json", 11),
    "comma-at-end": (b'{"step": 5,}', "not-json", 11),
    "two-values": (b'{"step": 5} {"step": 5}', "not-json", 12),
    "single-quotes": (b"{'step': 5}", "not-json", 1),
    "leading-zero": (b'{"step": 5, "a": 01}', "not-json", 17),
    "bad-escape": (b'{"step": 5, "a": "\\x"}', "not-json", 18),
    "control": (b'{"step": 5, "a": "\x01"}', "not-json", 18),
    "nul-bytes": (b"\0\0\0\0", "not-json", 0),
    "byte-order-mark": (b'\xef\xbb\xbf{"step": 5}', "not-json", 0),
    "deep": (b'{"step": 5, "a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "not-json", 17 + 9_999),
    "long-number": (b'{"step": 5, "a": ' + b"1" * 70_000 + b"}", "not-json", 17),
    "latin-1": (b'{"step": 5, "a": "\xe9"}', "not-utf8", 18),
    "cut-character": (b'{"step": 5, "a": "\xe2\x82"}', "not-utf8", 18),
    "surrogate-bytes": (b'{"step": 5, "a": "\xed\xa0\x80"}', "not-utf8", 18),
    "array": (b"[1, 2]", "not-object", 0),
    "number": (b"5", "not-object", 0),
    "empty": (b"", "blank-line", 0),
    "spaces": (b"  \t", "blank-line", 0),
    "nan": (b'{"step": 5, "a": NaN}', "non-finite", 17),
    "minus-infinity": (b'{"step": 5, "a": {"b": [1, -Infinity]}}', "non-finite", 27),
    "too-large": (b'{"step": 5, "a": -1e999}', "non-finite", 17),
    "key-twice": (b'{"step": 5, "a": 1, "a": 1}', "duplicate-key", 23),
    "key-twice-inside": (b'{"step": 5, "a": [{"b": {}, "c": 2, "b": 3}]}', "duplicate-key", 39),
    "key-twice-escaped": (b'{"step": 5, "a": 1, "\\u0061": 1}', "duplicate-key", 28),
    "key-twice-spaced": (b'{"step": 5, "a": 1, "a" : 1}', "duplicate-key", 23),
    "key-twice-backslash": (b'{"step":5,"x\\\\":1,"x\\\\":1,"t":"\\":"}', "duplicate-key", 23),
    "lone-high": (b'{"step": 5, "a": "\\ud83d!"}', "lone-surrogate", 18),
    "lone-low": (b'{"step": 5, "a": "\\ude00"}', "lone-surrogate", 18),
    "no-step": (b'{"input": "q", "a": {"step": 5}}', "no-step", 0),
    "other-step": (b'{"step": 6}', "wrong-step", 0),
    "step-as-text": (b'{"step": "5"}', "wrong-step", 0),
    "step-as-float": (b'{"step": 5.0}', "wrong-step", 0),
    "step-as-bool": (b'{"step": true}', "wrong-step", 0),
    "step-as-null": (b'{"step": null}', "wrong-step", 0),
    "step-as-array": (b'{"step": [5]}', "wrong-step", 0),
    "step-beyond-64-bits": (b'{"step": 18446744073709551621}', "wrong-step", 0),
    "line-separator": ('{"step": 5, "a": "\u2028"}'.encode(), "line-separator", 18),
    "next-line": ('{"step": 5, "a": "\u00e9\u0085"}'.encode(), "line-separator", 20),
    "huge-integer": (b'{"step": 5, "a": ' + b"9" * 400 + b"}", "huge-number", 17),
}


@pytest.mark.parametrize("parser", list(PARSERS))
@pytest.mark.parametrize("case", list(LINES))
def test_damage_is_found_with_line_and_byte(tmp_path: Path, case: str, parser: str) -> None:
    """A damaged line is found by its kind alone, at its line and at the byte of the damage."""
    line, kind, byte = LINES[case]
    first = b'{"step": 5}\n'
    # The row before it has other keys in some cases, which is said apart.
    outcome = checked(tmp_path, {"5.jsonl": first + line + b"\n"}, parser=parser)
    assert kinds(outcome).keys() - {"keys-in-file"} == {kind}
    (example,) = group(outcome, kind).examples
    assert (example.line, example.byte) == (2, len(first) + byte)


@pytest.mark.parametrize("parser", list(PARSERS))
@pytest.mark.parametrize("case", list(LINES))
def test_a_line_in_pieces_is_judged_as_one_that_is_whole(case: str, parser: str) -> None:
    """However a line is cut into pieces, what is found is the same."""
    line, *_ = LINES[case]
    for size in (1, 3, 7):
        if len(line) // size < 5000:
            assert in_pieces(line, range(0, len(line), size)) == as_tuple(close(line))


def in_pieces(line: bytes, cuts: Sequence[int]) -> tuple[object, ...]:
    """What is found in a line that is handed over cut at these places."""
    checker = Checker()
    bounds = [0, *cuts, len(line)]
    for begin, end in itertools.pairwise(bounds):
        checker.feed(line[begin:end])
    return as_tuple(checker.end())


def as_tuple(facts: Facts) -> tuple[object, ...]:
    """Facts in a form that can be compared."""
    return facts.problems, facts.keys, facts.step


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(['":', '\\":', '{"a": 1}', json.dumps('{"a":1}'), "\\", " : ", "😀"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", 'x"', "y\\", "step"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    value=st.dictionaries(st.sampled_from(["a", "b", "y\\", "step"]), JSON, max_size=4),
    ascii_only=st.booleans(),
    separators=st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : ")]),
)
def test_nothing_is_wrong_with_what_json_writes(
    value: dict[str, object], ascii_only: bool, separators: tuple[str, str]
) -> None:
    """A row that `json` wrote has no problem, whichever way it is read."""
    line = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()
    facts = close(line)
    assert [each.kind for each in facts.problems if each.kind != "huge-number"] == []
    assert facts.keys == value.keys()
    for read in PARSERS.values():
        found = quick(line, read)
        assert found is None or found.keys() == value.keys()


PIECES = st.sampled_from(
    [
        *(bytes([char]) for char in b'{}[],:"-0x \r'),
        *(b'"a"', b'"step"', b"1", b".5", b"e3", b"E400", b"true", b"null", b"NaN", b"-Infinity", b'"b\\\\"'),
        *(b"\\", b"\\u", b"d83d", b"\\ude00", b"\\ud83d", b"\xc3", b"\xa9", b"\x00", b'\\"', b"\\n"),
    ]
)


@given(tokens=st.lists(PIECES, min_size=1, max_size=12), inside=st.booleans(), data=st.data())
def test_a_second_parser_agrees_about_every_line(
    tokens: list[bytes], inside: bool, data: st.DataObject
) -> None:
    """A line is accepted exactly if another strict parser accepts it, and the fast way never accepts more."""
    line = b"".join(tokens)
    line = b'{"a":' + line + b"}" if inside else line
    facts = close(line)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(line)), max_size=3)))
    assert in_pieces(line, cuts) == as_tuple(facts)
    try:
        parse(line.decode())
        accepted = True
    except (StrictError, UnicodeDecodeError):
        accepted = False
    tolerated = {"lone-surrogate", "not-object", "huge-number"}  # by that parser
    assert accepted == all(each.kind in tolerated for each in facts.problems)
    for read in PARSERS.values():
        found = quick(line, read)
        assert found is None or (facts.problems == [] and found.keys() == facts.keys)


@pytest.mark.parametrize("limit", [1, 5, 1000])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_cut_at_newlines_only(size: int, limit: int) -> None:
    """The pieces of a file are its bytes, whatever the blocks, with the line and the byte of each."""
    data = b"one\n\ntwo two two\nthree"
    pieces = list(cut((data[at : at + size] for at in range(0, len(data), size)), limit))
    assert b"".join(each.data + b"\n" * each.ended for each in pieces) == data
    assert all(data[each.start : each.start + len(each.data)] == each.data for each in pieces)
    lines: dict[int, bytes] = {}
    for each in pieces:
        lines[each.number] = lines.get(each.number, b"") + each.data
    assert lines == dict(enumerate(data.split(b"\n"), 1))
    assert [each.number for each in pieces if each.first] == [each.number for each in pieces if each.last]
    assert max(len(each.data) for each in pieces) <= limit + max(size, len(b"two two two"))


def test_whole_files_are_whole(tmp_path: Path) -> None:
    """Of files that differ and whose rows bear their step, nothing is said."""
    files = {f"{step}.jsonl": row(step, output=f"{step}") + row(step, output="b") for step in (5, 10, 15, 17)}
    outcome = checked(tmp_path, files)
    assert outcome.totals == {}
    assert (outcome.files, outcome.rows, outcome.bytes) == (4, 8, sum(map(len, files.values())))
    assert (outcome.first, outcome.last, outcome.stride, outcome.missing) == (5, 17, 5, 0)


FILES = {
    "no-newline": ({"5.jsonl": ROW}, "no-newline", "5.jsonl"),
    "empty-file": ({"5.jsonl": b""}, "empty-file", "5.jsonl"),
    "keys-in-file": ({"5.jsonl": row() + row(acc=1)}, "keys-in-file", "5.jsonl"),
    "keys-between-files": ({"5.jsonl": row(), "6.jsonl": row(6, acc=1)}, "keys-between-files", "6.jsonl"),
    "equal-rows": ({"5.jsonl": row(output="b") + row() + row()}, "equal-rows", "5.jsonl"),
    "equal-files": ({"5.jsonl": row(n=1), "6.jsonl": row(6, n=1)}, "equal-files", "6.jsonl"),
    "bad-name": ({"5.jsonl": row(), "latest.jsonl": row(7)}, "bad-name", "latest.jsonl"),
    "hidden-bad-name": ({"5.jsonl": row(), ".6.jsonl": row(6, a=1)[:0]}, "bad-name", ".6.jsonl"),
    "python-only-name": ({"1_0.jsonl": row(10)}, "bad-name", "1_0.jsonl"),
    "leading-zeros": ({"05.jsonl": row()}, "leading-zeros", "05.jsonl"),
    "minus-zero": ({"-0.jsonl": row(0)}, "leading-zeros", "-0.jsonl"),
    "stray": ({"5.jsonl": row(), "notes.txt": b""}, "stray", "notes.txt"),
    "no-dumps": ({}, "no-dumps", ""),
}


@pytest.mark.parametrize("case", list(FILES))
def test_damage_of_files_is_found(tmp_path: Path, case: str) -> None:
    """What is wrong with a file as a whole is found once, and named."""
    files, kind, name = FILES[case]
    outcome = checked(tmp_path, files)
    assert kinds(outcome).keys() - {"empty-file"} | {kind} == {kind} | ({"empty-file"} & {kind})
    assert kinds(outcome)[kind] == 1
    assert group(outcome, kind).file == name


def test_two_names_of_one_step(tmp_path: Path) -> None:
    """Two files that are named after one step are an error; each is read as that step."""
    outcome = checked(tmp_path, {"5.jsonl": row(n=1), "05.jsonl": row(n=2)})
    assert kinds(outcome) == {"leading-zeros": 1, "two-names": 1}
    assert outcome.files == 2


def test_every_row_twice_is_said_as_such(tmp_path: Path) -> None:
    """A file that holds one batch behind the other is told from one with some equal rows."""
    half = b"".join(row(n=n) for n in range(3))
    outcome = checked(tmp_path, {"5.jsonl": half + half})
    assert kinds(outcome) == {"equal-rows": 3, "doubled-file": 1}
    assert group(outcome, "equal-rows").examples[0].message == "the row equals line 1"
    assert "doubled-file" not in kinds(checked(tmp_path / "other", {"5.jsonl": half + row(n=0)}))


def test_nested_steps_do_not_make_files_equal(tmp_path: Path) -> None:
    """Only the row's own step is left out when files are compared."""
    files = {"5.jsonl": row(5, turns=[{"step": 1}]), "6.jsonl": row(6, turns=[{"step": 2}])}
    assert checked(tmp_path, files).totals == {}


def test_findings_are_counted_beyond_those_shown(tmp_path: Path) -> None:
    """A few findings of each kind and file are kept, and all are counted."""
    data = b"".join(row(n=n, r=math.nan) for n in range(50))
    outcome = checked(tmp_path, {f"{step}.jsonl": data for step in range(30)}, show=2)
    assert outcome.totals["non-finite"].count == 1500
    assert outcome.totals["non-finite"].files == 30
    shown = [each for each in outcome.groups if each.kind == "non-finite"]
    assert len(shown) == 20
    assert all((each.count, len(each.examples)) == (50, 2) for each in shown)


STRAYS = {
    ".7.jsonl.host-12-3.tmp": "temporary file of the reference writer for step 7 (process 12 on host)",
    ".nfs00000001": "NFS",
    "5.jsonl.tmp": "a temporary file",
    "5.jsonl.tmp.123": "a temporary file",
    "tmpab_d12ef": "a temporary file",
    ".5.jsonl.x7": "a temporary file",
    "5.jsonl~": "what an editor leaves",
    ".5.jsonl.swp": "what an editor leaves",
    "5.jsonl.gz": "a compressed file",
    "5.jsonl.old": "something made of a dump",
    ".hidden": "a hidden file",
    "config.yaml": "no dump",
}


@pytest.mark.parametrize("name", list(STRAYS))
def test_strays_are_called_what_they_are(tmp_path: Path, name: str) -> None:
    """What lies beside the dumps is a warning that says what it looks like."""
    outcome = checked(tmp_path, {"5.jsonl": row(), name: b"x"})
    assert kinds(outcome) == {"stray": 1}
    assert STRAYS[name] in group(outcome, "stray").examples[0].message


def test_folders_are_not_looked_into(tmp_path: Path) -> None:
    """A folder is a stray, a staging one is called so, and one that the user named too is none."""
    for name in ("val", ".staging", "tmp", ".cache"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_bytes(b"no dump")
    outcome = checked(tmp_path, {"5.jsonl": row()})
    said = {each.file: each.examples[0].message for each in outcome.groups}
    assert said[".staging"] == said["tmp"] == "a staging folder, which is not looked into"
    assert said["val"].startswith("a folder, which")
    assert said[".cache"].startswith("a hidden folder")
    named = {find_place(str(tmp_path / "val")).identity}
    assert "val" not in {each.file for each in verify(find_place(str(tmp_path)), named=named).groups}


@posix
def test_what_is_no_file_is_said_and_never_waited_for(tmp_path: Path) -> None:
    """Pipes, sockets, folders, dead links, circles and devices with the name of a dump are errors."""
    os.mkfifo(tmp_path / "1.jsonl")
    (tmp_path / "2.jsonl").mkdir()
    (tmp_path / "3.jsonl").symlink_to("nowhere")
    (tmp_path / "4.jsonl").symlink_to("4.jsonl")
    (tmp_path / "6.jsonl").symlink_to("/dev/zero")
    (tmp_path / "7.jsonl").symlink_to("1.jsonl")
    outcome = checked(tmp_path, {"5.jsonl": row()})
    assert kinds(outcome) == {"not-a-file": 6}
    said = {each.file: each.examples[0].message.partition(" has the name")[0] for each in outcome.groups}
    assert said == {
        "1.jsonl": "a pipe",
        "2.jsonl": "a folder",
        "3.jsonl": "a link to nowhere, which is not there,",
        "4.jsonl": "a link that leads in a circle",
        "6.jsonl": "a device",
        "7.jsonl": "a pipe",
    }


@posix
def test_a_socket_is_said_and_never_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket with the name of a dump is an error."""
    monkeypatch.chdir(tmp_path)  # its name may have no more than some hundred bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("8.jsonl")
        assert group(checked(tmp_path, {}), "not-a-file").examples[0].message.startswith("a socket")


@posix
def test_a_pipe_that_takes_the_place_of_a_dump_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump that becomes a pipe between listing and opening is said, and the run goes on."""

    def swap(path: str, *more: object) -> int:
        if path.endswith("1.jsonl"):
            os.unlink(path)
            os.mkfifo(path)
        return real(path, *more)

    real = os.open
    monkeypatch.setattr(content_module.os, "open", swap)
    outcome = checked(tmp_path, {"1.jsonl": row(1), "2.jsonl": row(2)})
    assert kinds(outcome) == {"not-a-file": 1}
    assert outcome.files == 1


@posix
def test_links_to_dumps_are_read(tmp_path: Path) -> None:
    """A link to a regular file is a dump like any other."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "data").write_bytes(row())
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "5.jsonl").symlink_to(tmp_path / "there" / "data")
    assert checked(tmp_path / "dumps", {}).totals == {}


def during_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have something happen once, at the first read of a dump."""
    real = os.read
    waiting = [act]

    def read(descriptor: int, size: int) -> bytes:
        data = real(descriptor, size)
        while waiting:
            waiting.pop()()
        return data

    monkeypatch.setattr(os, "read", read)


@pytest.mark.parametrize("how", ["grows", "shrinks", "rewritten"])
def test_a_dump_that_changes_is_said_and_its_end_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A file that is written to while it is read is one error, and its last piece is not called torn."""
    path = tmp_path / "5.jsonl"
    path.write_bytes(row(n=1) + row(n=2)[:9])

    def change() -> None:
        if how == "grows":
            with path.open("ab") as file:
                file.write(row(n=2)[9:] * 1000)
        elif how == "shrinks":
            os.truncate(path, 3)
        else:
            os.utime(path, ns=(1, 1))

    during_read(monkeypatch, change)
    assert kinds(checked(tmp_path, {})) == {"changed": 1}


def test_a_dump_that_vanishes_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is removed before its turn is an error, and the others are read."""
    during_read(monkeypatch, (tmp_path / "6.jsonl").unlink)
    outcome = checked(tmp_path, {"5.jsonl": row(), "6.jsonl": row(6, n=1), "7.jsonl": row(7, output="c")})
    assert kinds(outcome) == {"changed": 1}
    assert outcome.files == 2


@posix
def test_a_directory_that_vanishes_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the directory goes away, one line says after how many dumps, instead of one error for each."""
    place = tmp_path / "dumps"
    during_read(monkeypatch, lambda: place.rename(tmp_path / "elsewhere"))
    with pytest.raises(PlaceError, match=r"went away while it was read, after 1 of 300 dumps$"):
        checked(place, {f"{step}.jsonl": row(step) for step in range(300)})


def test_a_read_error_names_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump of which the disk cannot read a part is an error with the byte at which that begins."""
    real = os.read

    def read(descriptor: int, size: int) -> bytes:
        if reads := next(turns):
            raise OSError(reads, "Input/output error")
        return real(descriptor, min(size, 10))

    turns: Iterator[int] = iter([0, 0, 5, *[0] * 99])
    monkeypatch.setattr(os, "read", read)
    outcome = checked(tmp_path, {"5.jsonl": row(), "6.jsonl": row(6)})
    assert kinds(outcome) == {"unreadable": 1}
    assert group(outcome, "unreadable").examples[0].byte == 20
    assert outcome.files == 1


@pytest.mark.parametrize(
    ("steps", "stride", "gaps"),
    [
        pytest.param([7], None, "", id="one-file"),
        pytest.param([7, 9], 2, "", id="two-files"),
        pytest.param([1, 2, 4], 1, "3", id="one-missing"),
        pytest.param([10, 20, 30, 50], 10, "40", id="stride-of-ten"),
        pytest.param([1, 10, 20, 30], 10, "", id="first-step-off"),
        pytest.param([5, 10, 15, 17], 5, "", id="last-step-off"),
        pytest.param([10, 20, 30, 47], 10, "40", id="last-step-off-and-gap"),
        pytest.param([0, 10, 20, 23, 50, 60], 10, "30..40", id="step-between"),
        pytest.param([10, 20, 40], 10, "30", id="multiple"),
        pytest.param([1, 10, 20], None, "", id="two-distances"),
        pytest.param([1, 2, 4, 8], None, "", id="no-stride-prevails"),
        pytest.param([-2, -1, 1, 2], 1, "0", id="negative"),
        pytest.param([1, 2, 10**30], 1, f"3..{10**30 - 1}", id="beyond-machine-integers"),
    ],
)
def test_gaps_are_steps_missing_from_the_stride(steps: list[int], stride: int | None, gaps: str) -> None:
    """A gap is a step of the prevailing stride; steps off it are none."""
    assert stride_of(steps) == stride
    if stride is not None:
        assert as_ranges(missing_steps(steps, stride)) == gaps


def test_gaps_are_warned_of_once(tmp_path: Path) -> None:
    """All gaps of a directory are one warning, which names them."""
    outcome = checked(
        tmp_path, {f"{step}.jsonl": row(step, n=step) for step in (10, 20, 40, 50, 60, 90, 10**30)}
    )
    assert kinds(outcome) == {"gap": 1}
    assert group(outcome, "gap").examples[0].message.startswith("steps 30, 70..80, 100..")
    assert outcome.missing > 10**28


def test_seen_rows_are_bounded() -> None:
    """The table of rows grows to its bound, finds every row that it holds, and then says that it is full."""
    seen = Seen(slots=1 << 14)
    rng = random.Random(1)
    prints = [rng.getrandbits(64) for _ in range(seen.room)]
    assert [seen.earlier(each, line) for line, each in enumerate(prints, 1)] == [0] * seen.room
    assert [seen.earlier(each, 1) for each in prints] == list(range(1, seen.room + 1))
    assert seen.earlier(rng.getrandbits(64), 1) == -1


def test_rows_beyond_the_table_are_said_to_be_uncompared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that could not be compared with all others are counted in one warning."""
    monkeypatch.setattr(content_module, "Seen", lambda: Seen(slots=16))
    outcome = checked(tmp_path, {"5.jsonl": b"".join(row(n=n) for n in [*range(20), 3])})
    assert kinds(outcome) == {"equal-rows": 1, "not-compared": 1}
    assert (
        group(outcome, "not-compared")
        .examples[0]
        .message.startswith("8 rows were compared with the first 12")
    )


@pytest.mark.parametrize("ended", [True, False], ids=["newline", "no-newline"])
def test_long_lines_are_checked_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """A line beyond the bound is one warning, and everything in it is checked all the same."""

    def pieces(blocks: Iterator[bytes]) -> Iterator[Piece]:
        return cut((part for block in blocks for part in (block[:50], block[50:90], block[90:])), limit=60)

    monkeypatch.setattr(content_module, "cut", pieces)
    line = row(a="x" * 100, b=math.nan, c="\ud800") if ended else row(a="x" * 100, b=math.nan)[:-1]
    outcome = checked(tmp_path, {"5.jsonl": line})
    expected = {"long-line": 1, "non-finite": 1}
    assert kinds(outcome) == expected | ({"not-utf8": 1} if ended else {"no-newline": 1})
    assert group(outcome, "non-finite").examples[0].byte == line.index(b"NaN")
    assert outcome.rows == 1


def test_memory_does_not_grow_with_a_line(tmp_path: Path) -> None:
    """A line of 60 MB is read with a fraction of that, and its end is found torn."""
    path = tmp_path / "5.jsonl"
    with path.open("wb") as file:
        file.write(b'{"input": "')
        for _ in range(60):
            file.write(b"x" * 1_000_000)
    place = find_place(str(tmp_path))
    tracemalloc.start()
    try:
        outcome = verify(place)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kinds(outcome) == {"torn-line": 1, "long-line": 1}
    assert group(outcome, "torn-line").examples[0].byte == 60_000_011
    assert peak < 30_000_000


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """A file of four times the rows takes no more memory when its rows do not fit the table."""
    peaks = []
    for rows in (1_500, 6_000):
        (tmp_path / "5.jsonl").write_bytes(b"".join(row(n=n) for n in range(rows)))
        place = find_place(str(tmp_path))
        tracemalloc.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(content_module, "Seen", lambda: Seen(slots=256))
                patch.setattr(lines_module, "BLOCK", 1 << 14)
                verify(place)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 50_000


def test_keys_are_bounded() -> None:
    """Keys beyond the bound are said not to be compared, and keys of any length are."""
    many = b"{" + b",".join(b'"%d":1' % n for n in range(100_001)) + b"}"
    assert [each.kind for each in close(many).problems] == ["not-compared"]
    key = b'"' + b"k" * 10_000
    assert [each.kind for each in close(b"{" + key + b'":1,' + key + b'":2}').problems] == ["duplicate-key"]
    assert close(b"{" + key + b'":1,' + key + b'x":2}').problems == []


def columns(rows: int, seed: int) -> dict[str, list[object]]:
    """A batch with what is hard to write."""
    rng = random.Random(seed)
    texts = ['{"a": "b : c"}', '\\\\":', "数学\u2028", "\x85", "\x00\x1f", "😀\ud800", "line\nline"]
    return {
        "inputs": [f"{n} {rng.choice(texts)}" for n in range(rows)],
        "outputs": [f"{rng.random()} {rng.choice(texts)}" for _ in range(rows)],
        "gts": [json.dumps({"a": texts}) for _ in range(rows)],
        "scores": [rng.choice([math.nan, math.inf, 1e308, -0.0, 2**70, True]) for _ in range(rows)],
    }


def test_dumps_of_the_reference_writer_are_whole(tmp_path: Path) -> None:
    """Whatever was handed to the reference writer, there is no error in its directory and no stray."""
    directory = str(tmp_path / "dumps")
    with GenerationDumper() as dumper:
        for step in (0, 10, 20, -10):
            turns = [[{"step": n, "x": {"y": [1, [], {}]}}] for n in range(40)]
            dumper.dump(directory, step, **columns(40, 100 + step), extras={"turns": turns, "step": [1] * 40})
        dumper.dump(directory, 20, **columns(10, 5))
    for parser in PARSERS:
        outcome = verify(find_place(directory), parser=parser)
        assert kinds(outcome) == {"keys-in-file": 10}
        assert (outcome.files, outcome.rows, outcome.stride) == (4, 170, 10)


KILLED = """
import os, sys
from verl_dump import GenerationDumper

real, calls = os.replace, []


def replace(source, target):
    calls.append(target)
    if len(calls) == 3:
        os.kill(os.getpid(), 9)
    real(source, target)


os.replace = replace
with GenerationDumper() as dumper:
    for step in range(5):
        dumper.dump(sys.argv[1], step, inputs=[f"{step}"], outputs=["b"], scores=[1.0])
"""


@posix
def test_a_killed_reference_writer_leaves_no_error(tmp_path: Path) -> None:
    """What a kill leaves of the reference writer is one stray, called by its name, beside whole dumps."""
    directory = tmp_path / "dumps"
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory)], timeout=60)
    assert done.returncode == -9
    outcome = verify(find_place(str(directory)))
    assert kinds(outcome) == {"stray": 1}
    assert outcome.files == 2
    assert (
        "the temporary file of the reference writer for step 2 "
        in group(outcome, "stray").examples[0].message
    )


def verl_writers() -> list[object]:
    """The classes of verl releases, where their wheels are at hand."""
    wheels = Path(os.environ.get("VERL_DUMP_WHEELS", "")).glob("verl-0.*.whl")
    paths = sorted(map(str, wheels)) if os.environ.get("VERL_DUMP_WHEELS") else []
    writers = [(path, found.module, found.name) for path in paths for found in find_classes(path)]
    return [pytest.param(p, f"{m}:{n}", id=f"{Path(p).name.split('-')[1]}-{n}-{m}") for p, m, n in writers]


def verl_dumped(cls: type, directory: Path, step: int, scores: list[float]) -> None:
    """Have a class of verl dump one batch."""
    trainer = object.__new__(cls)
    trainer.global_steps = step
    if hasattr(trainer, "_init_dump_executor"):
        trainer._init_dump_executor()
    batch = columns(len(scores), step) | {"scores": scores}
    batch = {name: [str(each).replace("\ud800", "") for each in batch[name]] for name in batch} | {
        "scores": scores
    }
    if "gts" not in inspect.signature(trainer._dump_generations).parameters:
        del batch["gts"]
    extras = {"acc": [True] * len(scores)}
    trainer._dump_generations(**batch, reward_extra_infos_dict=extras, dump_path=str(directory))
    if hasattr(trainer, "_shutdown_dump_executor"):
        trainer._shutdown_dump_executor()


@pytest.mark.skipif(not verl_writers(), reason="set VERL_DUMP_WHEELS to a folder with verl's wheels")
@pytest.mark.parametrize(("path", "name"), verl_writers())
def test_dumps_of_verl_are_whole_where_they_are(tmp_path: Path, path: str, name: str) -> None:
    """A correct dump of a verl release has no error, one with NaN has one for each such row, a torn one a torn line."""
    cls = load_class(path, name)
    for step in (1, 2):
        verl_dumped(cls, tmp_path, step, [0.5 + n for n in range(20)])
    assert verify(find_place(str(tmp_path))).count("error") == 0
    verl_dumped(cls, tmp_path, 2, [math.nan, math.inf, 1.0])
    outcome = verify(find_place(str(tmp_path)))
    assert (outcome.count("error"), outcome.totals["non-finite"].count) == (2, 2)
    with (tmp_path / "1.jsonl").open("r+b") as file:
        file.truncate(200)
    assert verify(find_place(str(tmp_path))).totals["torn-line"].count == 1


def test_every_kind_is_found_by_some_test() -> None:
    """No kind of finding is without a case."""
    covered = {kind for _, kind, _ in LINES.values()} | {kind for _, kind, _ in FILES.values()}
    elsewhere = {"two-names", "not-a-file", "unreadable", "changed", "doubled-file", "gap", "long-line"}
    assert covered | elsewhere | {"not-compared"} == set(KINDS)


def test_the_checks_use_nothing_of_the_writer() -> None:
    """No module of the verifier imports one of the writer, or of the harness."""
    folder = Path(content_module.__file__).parent
    lines = [
        line
        for path in folder.glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "import" in line and ("verl_dump" in line or "fault_injection" in line)
    ]
    assert lines
    assert [line for line in lines if not line.strip().startswith("from verl_dump.verify")] == []
