"""`verl-dump verify`: the whole text and the whole JSON that a run gives."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from verl_dump.verify import KINDS, find_place, verify
from verl_dump.verify import command as verify_command
from verl_dump.verify.command import main
from verl_dump.verify.progress import Progress
from verl_dump.verify.rows import PARSER

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs links of POSIX")


def rows(*lines: str, end: str = "\n") -> bytes:
    """Lines of a file."""
    return ("\n".join(lines) + end).encode()


def batch(texts: str, step: int) -> bytes:
    """A row for each letter."""
    return rows(*(f'{{"output": "{text}", "step": {step}}}' for text in texts))


STEPS = ["null", "true", "false", '"6"', "{}", "[6]", "6.0", "7", "1" * 40, "1" * 41, "9" * 61, "-0.5e-9"]
FILES = {
    "1.jsonl": batch("ab", 1),
    "02.jsonl": batch("c", 2),
    "2.jsonl": batch("ab", 2),
    "3.jsonl": rows(
        '{"output": "d", "step": 3}',
        '{"output": "?", "step": 3}',
        '{"output": NaN, "step": 3}',
        "",
        '{"output": "e", "output": "f", "step": 3}',
        '{"output": "g", "step": 4}',
        '{"output": "h"}',
        "[1]",
        '{"output": "\\ud83d", "step": 3}',
        '{"output": tru}',
        '{"output": "\u2028 \u2028\u0085", "step": 3}',
        '{"output": ' + "1" * 400 + ', "step": 3}',
        '{"output": "d", "step": 3}',
        '{"output": "i", "st',
        end="",
    ).replace(b"?", b"\xff"),
    "4.jsonl": batch("abcdabcd", 4)[:-1],
    "5.jsonl": b"",
    "6.jsonl": rows(*(f'{{"output": {n}, "step": {step}}}' for n, step in enumerate(STEPS))),
    "9.jsonl": rows(
        '{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "step": 9}', '{"step": 9}', " ", end=""
    ),
    "11.jsonl": "\u2028".encode(),
    "rows.jsonl": batch("z", 0),
    ".1.jsonl.host-12-3.tmp": b"",
    "notes.txt": b"",
}

EXPECTED = """\
dumps/.1.jsonl.host-12-3.tmp: warning: the temporary file of the reference writer for step 1 \
(process 12 on host): being written, or left by a killed process; then the next run on that host \
removes it [stray]
dumps/02.jsonl: warning: the file of step 2 is 2.jsonl [leading-zeros]
dumps/12.jsonl: error: a folder has the name of a dump [not-a-file]
dumps/13.jsonl: error: a link to there, which is not there, has the name of a dump [not-a-file]
dumps/notes.txt: warning: no dump [stray]
dumps/rows.jsonl: error: its name is no integer: readers of *.jsonl stumble over it [bad-name]
dumps/val: warning: a folder, which is not looked into; name it to have it checked [stray]
dumps/2.jsonl: error: 02.jsonl is of step 2 too [two-names]
dumps/2.jsonl: warning: its 2 rows are those of 1.jsonl, apart from the step [equal-files]
dumps/3.jsonl:2: error: byte 0xff is no UTF-8 (byte 39) [not-utf8]
dumps/3.jsonl:3: error: a bare NaN (byte 65) [non-finite]
dumps/3.jsonl:4: error: the line is empty (byte 81) [blank-line]
dumps/3.jsonl:5: error: the key 'output' stands in one object twice (byte 106) [duplicate-key]
dumps/3.jsonl:6: error: step is 4 (byte 124) [wrong-step]
dumps/3.jsonl:7: error: the row has no step (byte 151) [no-step]
dumps/3.jsonl:8: error: a row must be an object (byte 167) [not-object]
dumps/3.jsonl:9: error: \\ud83d is half of a pair (byte 183) [lone-surrogate]
dumps/3.jsonl:10: error: 't' where a value should be (byte 214) [not-json]
dumps/3.jsonl:14: error: the line ends inside a key (byte 724) [torn-line]
dumps/3.jsonl:7: warning: without step against the first row (byte 151) [keys-in-file]
dumps/3.jsonl:11: warning: a raw U+2028 in the line (byte 231) [line-separator]
dumps/3.jsonl:11: warning: a raw U+0085 in the line (byte 238) [line-separator]
dumps/3.jsonl:12: warning: an integer of 400 characters (byte 265) [huge-number]
dumps/3.jsonl:13: warning: the row equals line 1 (byte 678) [equal-rows]
dumps/4.jsonl:8: error: the last line has no newline (byte 215) [no-newline]
dumps/4.jsonl:5: warning: the row equals line 1 (byte 108) [equal-rows]
dumps/4.jsonl:6: warning: the row equals line 2 (byte 135) [equal-rows]
dumps/4.jsonl:7: warning: the row equals line 3 (byte 162) [equal-rows]
dumps/4.jsonl:8: warning: the row equals line 4 (byte 189) [equal-rows]
dumps/4.jsonl: warning: the file holds all of its rows twice, one copy behind the other [doubled-file]
dumps/5.jsonl: warning: it is empty [empty-file]
dumps/6.jsonl:1: error: step is null (byte 0) [wrong-step]
dumps/6.jsonl:2: error: step is true (byte 28) [wrong-step]
dumps/6.jsonl:3: error: step is false (byte 56) [wrong-step]
dumps/6.jsonl:4: error: step is a text (byte 85) [wrong-step]
dumps/6.jsonl:5: error: step is an object (byte 112) [wrong-step]
dumps/6.jsonl:6: error: step is an array (byte 138) [wrong-step]
dumps/6.jsonl:7: error: step is 6.0 (byte 165) [wrong-step]
dumps/6.jsonl:8: error: step is 7 (byte 192) [wrong-step]
dumps/6.jsonl:9: error: step is 1111111111111111111111111111111111111111 (byte 217) [wrong-step]
dumps/6.jsonl:10: error: step is 111111111111111111111111111111111111111… (byte 281) [wrong-step]
dumps/6.jsonl:11: error: step is an integer of over 60 digits (byte 346) [wrong-step]
dumps/6.jsonl:12: error: step is -0.5e-9 (byte 432) [wrong-step]
dumps/9.jsonl:3: error: the line is empty (byte 72) [blank-line]
dumps/9.jsonl:3: error: the last line has no newline (byte 73) [no-newline]
dumps/9.jsonl:2: warning: without a, b, c, d, e and 1 more against the first row (byte 60) [keys-in-file]
dumps/9.jsonl: warning: with a, b, c, d, e and 1 more, without output against 6.jsonl \
[keys-between-files]
dumps/11.jsonl:1: error: byte 0xe2 where a value should be (byte 0) [not-json]
dumps/11.jsonl:1: error: the last line has no newline (byte 3) [no-newline]
dumps/11.jsonl:1: warning: a raw U+2028 in the line (byte 0) [line-separator]
dumps/rows.jsonl: warning: with output, without a, b, c, d, e and 1 more against 9.jsonl \
[keys-between-files]
dumps: warning: steps 7..8, 10 are missing from the stride of 1 [gap]
dumps: NOT WHOLE; 10 files, 42 rows, 1.6 kB: 31 errors, 21 warnings in 1.2 s
"""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which the check of a directory takes 1.2346 s."""
    ticks = iter(100 + 1.2346 * n for n in range(100))
    fake = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr("verl_dump.verify.directory.time", fake)


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory `dumps` with nearly every kind of damage, in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dumps"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "val").mkdir()
    (folder / "12.jsonl").mkdir()
    (folder / "13.jsonl").symlink_to("there")
    return folder


def test_the_report_is_complete(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every finding is one line in the order of the files, and nothing else is said."""
    assert main(["dumps", "--show", "12"]) == 1
    assert capsys.readouterr() == (EXPECTED, "")


def test_three_of_each_kind_and_file_are_shown(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--show` there are three lines of a kind and file, and one with the number of the others."""
    main(["dumps"])
    lines = EXPECTED.splitlines()
    at = lines.index("dumps/6.jsonl:4: error: step is a text (byte 85) [wrong-step]")
    lines[at : at + 9] = ["dumps/6.jsonl: … and 9 more lines [wrong-step]"]
    (at,) = (n for n, line in enumerate(lines) if line.startswith("dumps/4.jsonl:8: warning"))
    lines[at] = "dumps/4.jsonl: … and 1 more line [equal-rows]"
    assert capsys.readouterr().out.splitlines() == lines


def test_quiet_leaves_the_last_line(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `-q` only the summary is said."""
    assert main(["-q", "dumps"]) == 1
    assert capsys.readouterr() == (EXPECTED.splitlines()[-1] + "\n", "")


LINE = re.compile(r"dumps/?([^:]*)(?::(\d+))?: (\w+): (.*?)(?: \(byte (\d+)\))? \[([a-z0-9-]+)\]")


def test_the_json_says_what_the_lines_say(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON report has the sums, every kind, and every finding of the text; it is all of stdout."""
    (damaged.parent / "-").mkdir()
    assert main(["dumps", "--show", "12", "--json", "-"]) == 1
    out, err = capsys.readouterr()
    assert err == EXPECTED
    report = json.loads(out)
    assert out == json.dumps(report, indent=1) + "\n"
    sums = {"files": 10, "rows": 42, "bytes": 1641, "errors": 31, "warnings": 21, "seconds": 1.235}
    (directory,) = report.pop("directories")
    assert report == {"format": 1, "whole": False, "strict": False, "parser": PARSER, **sums}
    findings, kinds = directory.pop("findings"), directory.pop("kinds")
    steps = {"first": 1, "last": 11, "stride": 1, "missing": 3}
    assert directory == {"path": "dumps", **sums, "steps": steps}
    assert '"missing": 3\n' in out
    told = [LINE.fullmatch(line).groups() for line in EXPECTED.splitlines()[:-1]]
    assert told == [
        (
            found["file"] or "",
            example["line"] and str(example["line"]),
            found["level"],
            example["message"],
            None if example["byte"] is None else str(example["byte"]),
            found["kind"],
        )
        for found in findings
        for example in found["examples"]
    ]
    assert all(found["count"] == len(found["examples"]) for found in findings)
    assert kinds == {
        kind: {
            "level": KINDS[kind].level,
            "count": sum(line[-1] == kind for line in told),
            "files": len({line[0] for line in told if line[-1] == kind}),
        }
        for kind in {line[-1] for line in told}
    }


def test_two_places_have_a_line_each(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is named besides is no stray; each place has its line, with its own verdict, before the sum of all."""
    (damaged / "val" / "7.jsonl").write_bytes(batch("a", 7))
    (damaged / "val" / "note").write_bytes(b"")
    assert main(["dumps", "dumps/val", "--strict", "--show", "12", "--json", "-"]) == 1
    out, err = capsys.readouterr()
    stray = "dumps/val: warning: a folder, which is not looked into; name it to have it checked [stray]\n"
    first, last = EXPECTED.replace(stray, "").rsplit("dumps: NOT", 1)
    assert err == (
        f"{first}dumps/val/note: warning: no dump [stray]\ndumps: NOT{last.replace('21 w', '20 w')}"
        "dumps/val: NOT WHOLE (--strict); 1 file, 1 row, 27 bytes: 0 errors, 1 warning in 1.2 s\n"
        "2 directories: NOT WHOLE; 11 files, 43 rows, 1.7 kB: 31 errors, 21 warnings in 2.5 s\n"
    )
    report = json.loads(out)
    sums = {"files": 11, "rows": 43, "bytes": 1668, "errors": 31, "warnings": 21, "seconds": 2.469}
    assert {name: report[name] for name in sums} == sums
    assert [each["path"] for each in report["directories"]] == ["dumps", "dumps/val"]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_strict_is_a_matter_of_warnings_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strict: bool
) -> None:
    """Of a directory with a warning, the text, the JSON and the exit code differ by `--strict`."""
    (tmp_path / "7.jsonl").write_bytes(batch("a", 7))
    (tmp_path / "note").write_bytes(b"")
    assert main([str(tmp_path), "--json", "-", *["--strict"] * strict]) == strict
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["whole"], report["strict"]) == (not strict, strict)
    verdict = "NOT WHOLE (--strict)" if strict else "whole"
    assert err == (
        f"{tmp_path}/note: warning: no dump [stray]\n"
        f"{tmp_path}: {verdict}; 1 file, 1 row, 27 bytes: 0 errors, 1 warning in 1.2 s\n"
    )


@pytest.mark.parametrize(
    ("files", "words", "more"),
    [
        pytest.param(20, (), None, id="twenty"),
        pytest.param(21, (), "and 1 more file, 21 findings", id="one-more"),
        pytest.param(22, (), "and 2 more files, 22 findings", id="two-more"),
        pytest.param(22, ("--quiet",), None, id="quiet"),
        pytest.param(22, ("--show", "0"), None, id="show-none"),
    ],
)
def test_twenty_files_of_a_kind_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: int, words: tuple[str, ...], more: str | None
) -> None:
    """Of a kind that more than twenty files have, the others are counted in one line beside those shown."""
    for step in range(files):
        (tmp_path / f"{step}.jsonl").write_bytes(b"\n")
    main([str(tmp_path), "--json", "-", *words])
    lines = [line for line in capsys.readouterr().err.splitlines() if "[blank-line]" in line]
    shown = [f"{tmp_path}/{step}.jsonl:1: error: the line is empty" for step in range(20)]
    assert [line.partition(" (byte")[0] for line in lines] == [
        *([] if words else shown),
        *([f"{tmp_path}: … {more} in all [blank-line]"] if more else []),
    ]


def test_one_file_is_judged_by_the_step_in_its_name(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is named alone is told of as it was named, and its rows have to bear its step."""
    assert main(["dumps/6.jsonl", "--show", "1"]) == 1
    assert capsys.readouterr().out == (
        "dumps/6.jsonl:1: error: step is null (byte 0) [wrong-step]\n"
        "dumps/6.jsonl: … and 11 more lines [wrong-step]\n"
        "dumps/6.jsonl: NOT WHOLE; 1 file, 12 rows, 464 bytes: 12 errors, 0 warnings in 1.2 s\n"
    )


def test_the_bytes_are_planned_and_told(damaged: Path) -> None:
    """The bytes of all dumps are said before they are read, and again as they are read."""
    planned: list[int] = []
    told: list[int] = []
    outcome = verify(find_place("dumps"), plan=planned.append, tell_bytes=told.append)
    assert planned == [1641]
    assert sum(told) == outcome.bytes == 1641


def visible(text: str) -> str:
    """What a terminal shows in the end."""
    return "\n".join(line.rpartition("\r\x1b[K")[2] for line in text.split("\n"))


def test_the_bar_leaves_nothing_on_a_terminal(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal the same is read as elsewhere, and meanwhile how much of all there is."""
    for step in range(22):
        (damaged / "val" / f"{step}.jsonl").write_bytes(b"\n")
    main(["dumps", "dumps/val", "--json", "-"])
    plain = capsys.readouterr().err
    monkeypatch.setattr("verl_dump.verify.progress._REDRAW", 0.0)
    monkeypatch.setattr(verify_command, "Progress", lambda: Progress(terminal=True))
    main(["dumps", "dumps/val", "--json", "-"])
    drawn = capsys.readouterr().err
    assert "%  54 bytes of 1.6 kB" in drawn
    assert "and 2 more files, 22 findings" in plain
    assert visible(drawn) == plain


def test_the_bar_is_taken_away_when_a_run_ends_early(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ends a run is said on a line of its own."""

    def interrupted(*_: object) -> None:
        progress.tell(5)
        raise KeyboardInterrupt

    monkeypatch.setattr("verl_dump.verify.progress._REDRAW", 0.0)
    progress = Progress(terminal=True)
    monkeypatch.setattr(verify_command, "Progress", lambda: progress)
    monkeypatch.setattr("verl_dump.verify.content.os.read", interrupted)
    assert main(["dumps/1.jsonl"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "left" in err
    assert visible(err) == "verl-dump: interrupted\n"


def test_a_terminal_that_knows_ascii_only_shows_escapes(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stream cannot encode is shown as an escape, on stdout and on stderr."""
    for words, name in ((["dumps"], "stdout"), (["dumps", "--json", "-"], "stderr")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", io.StringIO())
            patch.setattr(sys, name, stream)
            assert main(words) == 1
        stream.flush()
        assert b"dumps/6.jsonl: \\u2026 and 9 more lines [wrong-step]\n" in stream.buffer.getvalue()
