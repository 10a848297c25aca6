"""`verl-dump verify`: exit codes, one clear line for every mistake, reports for people and programs."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from verl_dump.verify import KINDS
from verl_dump.verify import command as verify_command
from verl_dump.verify.command import add_parser, main, run
from verl_dump.verify.progress import Progress

NOBODY = 65534


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A directory with nothing to say of."""
    folder = tmp_path / "whole"
    folder.mkdir()
    for step in (1, 2, 3):
        (folder / f"{step}.jsonl").write_text(json.dumps({"output": f"{step}", "step": step}) + "\n")
    return folder


@pytest.fixture
def damaged(whole: Path) -> Path:
    """The same with 10 bad rows in one file, a gap and a stray."""
    row = json.dumps({"output": "x", "step": 6, "n": 1})
    (whole / "4.jsonl").write_text("".join(row.replace("1", str(n)) + "\n" for n in range(10)))
    (whole / "6.jsonl").write_text('{"output": "6", "step": 6')
    (whole / ".6.jsonl.tmp").write_text("")
    return whole


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "verl_dump.verify", *words], capture_output=True, text=True, timeout=60
    )


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, and stderr."""
    code = main(words)
    output = capsys.readouterr()
    return code, output.out.splitlines(), output.err


def test_a_whole_directory_ends_well(whole: Path) -> None:
    """A directory without a finding gives one line of summary, nothing on stderr, and 0."""
    done = ran(str(whole))
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{whole}: whole; 3 files, 3 rows, 81 bytes: 0 errors, 0 warnings in ")


def test_damage_is_told_like_a_compiler_tells_it(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each finding names file, line and byte; what is too much is counted; the code is 1."""
    code, lines, error = said(capsys, str(damaged))
    assert (code, error) == (1, "")
    assert f"{damaged}/4.jsonl:1: error: step is 6 (byte 0) [wrong-step]" in lines
    assert f"{damaged}/4.jsonl: … and 7 more lines [wrong-step]" in lines
    assert f"{damaged}/6.jsonl:1: error: the line ends inside an object (byte 25) [torn-line]" in lines
    assert f"{damaged}: warning: step 5 is missing from the stride of 1 [gap]" in lines
    assert f"{damaged}/.6.jsonl.tmp: warning: a temporary file [stray]" in lines
    assert lines[-1].startswith(f"{damaged}: NOT WHOLE; 5 files, 14 rows, ")
    assert ": 11 errors, 3 warnings in " in lines[-1]


@pytest.mark.parametrize(
    ("words", "shown"),
    [pytest.param(("--show", "1"), 1, id="one"), pytest.param(("--show", "10"), 10, id="all")],
)
def test_show_sets_how_many_are_shown(
    damaged: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], shown: int
) -> None:
    """With `--show N` so many findings of a kind are shown of one file."""
    _, lines, _ = said(capsys, str(damaged), *words)
    assert sum("4.jsonl:" in line and "error: step is 6" in line for line in lines) == shown
    assert any("more line" in line for line in lines) == (shown < 10)


@pytest.mark.parametrize("words", [("--quiet",), ("--show", "0")], ids=["quiet", "show-none"])
def test_quiet_shows_the_summary_only(
    damaged: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """With `--quiet` the last line is the only one, and the code is the same."""
    code, lines, _ = said(capsys, str(damaged), *words)
    assert code == 1
    assert len(lines) == 1


def test_warnings_count_with_strict_only(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning leaves the code at 0, and makes it 1 with `--strict`, which the verdict then names."""
    (whole / "notes.txt").write_text("")
    code, lines, _ = said(capsys, str(whole))
    assert code == 0
    assert ": whole;" in lines[-1]
    code, lines, _ = said(capsys, str(whole), "--strict")
    assert code == 1
    assert ": NOT WHOLE (--strict);" in lines[-1]


def test_many_files_with_one_finding_are_summed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beyond some files of one kind, the others are counted in one line."""
    for step in range(30):
        (tmp_path / f"{step}.jsonl").write_text(f'{{"step": {step}}}')
    _, lines, _ = said(capsys, str(tmp_path))
    assert sum(line.endswith("[no-newline]") for line in lines) == 21
    assert f"{tmp_path}: … and 10 more files, 30 findings in all [no-newline]" in lines


def test_several_directories_have_a_line_each(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several directories are told apart and summed up, one that is named twice is read once."""
    other = tmp_path / "other"
    other.mkdir()
    code, lines, _ = said(capsys, str(whole), str(other), f"{whole}/.")
    assert code == 1
    assert f"{other}: error: there is no file {{step}}.jsonl in it [no-dumps]" in lines
    assert lines[-3].startswith(f"{whole}: whole; 3 files")
    assert lines[-2].startswith(f"{other}: NOT WHOLE; 0 files")
    assert lines[-1].startswith("2 directories: NOT WHOLE; 3 files")


def test_one_file_is_checked_alone(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A `.jsonl` file is checked by itself, its name and its directory are not."""
    assert said(capsys, str(damaged / "1.jsonl"))[0] == 0
    code, lines, _ = said(capsys, str(damaged / "6.jsonl"))
    assert code == 1
    assert lines[0].startswith(f"{damaged}/6.jsonl:1: error:")
    (damaged / "rows.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    assert said(capsys, str(damaged / "rows.jsonl"))[0] == 0


def test_json_has_everything(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json -` stdout is the report, and what people read goes to stderr."""
    code, lines, error = said(capsys, str(damaged), "--json", "-")
    assert code == 1
    assert error.splitlines()[-1].startswith(f"{damaged}: NOT WHOLE")
    report = json.loads("\n".join(lines))
    assert report.pop("seconds") >= 0
    assert report.pop("parser") in {"json", "orjson"}
    (directory,) = report.pop("directories")
    size = sum((damaged / f"{step}.jsonl").stat().st_size for step in (1, 2, 3, 4, 6))
    sums = {"files": 5, "rows": 14, "bytes": size, "errors": 11, "warnings": 3}
    assert report == {"format": 1, "whole": False, "strict": False, **sums}
    assert {key: directory[key] for key in sums} == sums
    assert directory["path"] == str(damaged)
    assert directory["steps"] == {"first": 1, "last": 6, "stride": 1, "missing": 1}
    assert directory["kinds"]["wrong-step"] == {"level": "error", "count": 10, "files": 1}
    assert directory["kinds"].keys() <= KINDS.keys()
    (found,) = [each for each in directory["findings"] if each["kind"] == "torn-line"]
    assert found == {
        "kind": "torn-line",
        "level": "error",
        "file": "6.jsonl",
        "count": 1,
        "examples": [{"message": "the line ends inside an object", "line": 1, "byte": 25}],
    }
    (gap,) = [each for each in directory["findings"] if each["kind"] == "gap"]
    assert gap["file"] is None


def test_json_goes_to_a_file(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json FILE` the report is in the file and the lines are on stdout."""
    target = tmp_path / "report.json"
    code, lines, _ = said(capsys, str(whole), "--json", str(target))
    assert code == 0
    assert len(lines) == 1
    assert json.loads(target.read_text())["whole"] is True


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_no_text_are_shown(tmp_path: Path) -> None:
    """A name of bytes that are no UTF-8, or with a newline in it, is shown in one printable line."""
    (tmp_path / "1.jsonl").write_text('{"step": 1}\n')
    (tmp_path / os.fsdecode(b"a\nb\xff.jsonl")).write_text('{"step": 1}\n')
    done = ran(str(tmp_path), "--json", "-")
    assert json.loads(done.stdout)["directories"][0]["findings"][0]["file"] == "a\\nb\\xff.jsonl"
    assert f"{tmp_path}/a\\nb\\xff.jsonl: error: its name is no integer" in done.stderr


MISTAKES = {
    "nothing-there": (("nowhere",), "nowhere cannot be read: No such file or directory"),
    "a-file": (("file.txt",), "file.txt is a file; name a directory of dumps, or a .jsonl file"),
    "a-pipe": (("pipe.jsonl",), "pipe.jsonl is a pipe; name a directory of dumps"),
    "a-circle": (("circle",), "circle cannot be read: Too many levels"),
    "empty": (("",), "DIR is empty or no path"),
    "show-negative": ((".", "--show", "-1"), "--show -1: give a number from 0"),
    "json-empty": ((".", "--json", ""), "--json is empty"),
    "json-directory": ((".", "--json", "."), "--json . is a directory; name a file"),
    "json-nowhere": ((".", "--json", "no/where"), "--json no/where: there is no directory"),
    "one-of-two": ((".", "nowhere"), "nowhere cannot be read"),
}


@pytest.mark.skipif(os.name == "nt", reason="makes a pipe")
@pytest.mark.parametrize("case", list(MISTAKES))
def test_a_mistake_is_one_line(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """What cannot be read, or was not meant, is refused in one line before anything is read, with 2."""
    monkeypatch.chdir(whole)
    (whole / "file.txt").write_text("")
    os.mkfifo("pipe.jsonl")
    (whole / "circle").symlink_to("circle")
    words, message = MISTAKES[case]
    code, lines, error = said(capsys, *words)
    assert (code, lines) == (2, [])
    assert error.startswith(f"verl-dump: {message}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words", [(), ("--unknown",), (".", "--show", "x")], ids=["none", "unknown", "no-number"]
)
def test_wrong_usage_is_one_line(words: tuple[str, ...]) -> None:
    """Wrong usage says in one line what is wrong, with 2."""
    done = ran(*words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--help" in done.stderr


def as_nobody(*words: str) -> tuple[int, str]:
    """Exit code and output of the command, run without the rights of root by a fork of this process."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The thread of the timeout holds nothing that the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            out = os.fdopen(write, "w", encoding="utf-8")
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = main(words)
            out.close()
            os._exit(code)
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs users")
@pytest.mark.parametrize(
    ("closed", "named", "code", "expected"),
    [
        pytest.param(
            "", "", 2, "verl-dump: {} cannot be read: Permission denied; read it as its owner", id="directory"
        ),
        pytest.param(
            "2.jsonl", "", 1, "{}/2.jsonl: error: cannot be opened: Permission denied [unreadable]", id="dump"
        ),
        pytest.param(
            "2.jsonl",
            "2.jsonl",
            2,
            "verl-dump: {}/2.jsonl cannot be read: permission denied; read it as its owner",
            id="named-dump",
        ),
    ],
)
def test_what_may_not_be_read_is_said(closed: str, named: str, code: int, expected: str) -> None:
    """A directory or file that was named and may not be read is a mistake; a dump in a directory is a finding."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for step in (1, 2):
            Path(folder, f"{step}.jsonl").write_text(f'{{"step": {step}}}\n')
        target = os.path.join(folder, closed)
        os.chmod(target, 0)
        got, text = as_nobody(os.path.join(folder, named) if named else folder)
        os.chmod(target, 0o755)
    assert text.splitlines()[0] == expected.format(folder)
    assert got == code


def test_help_tells_errors_from_warnings() -> None:
    """The help says of every kind whether it is an error."""
    text = ran("--help").stdout
    errors, _, warnings = text.partition("warnings (no error without --strict):")
    for kind in KINDS.values():
        part = errors if kind.level == "error" else warnings
        assert f"  {kind.name} " in part
        assert kind.means in part


def test_the_command_fits_into_another_parser(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`add_parser` and `run` are all that another command line needs."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers(dest="command"))
    options = parser.parse_args(["verify", str(whole), "--strict"])
    assert options.command == "verify"
    assert run(options) == 0
    assert "whole" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="needs pipes and signals of POSIX")
def test_a_closed_pipe_ends_the_run_quietly(damaged: Path) -> None:
    """When the reader of the report goes away, there is no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "verl_dump.verify", str(damaged)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_ends_the_run_in_one_line(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle of a file ends the run with one line and 130."""
    real = os.read

    def read(descriptor: int, size: int) -> bytes:
        signal.raise_signal(signal.SIGINT)
        return real(descriptor, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read)
        code, lines, error = said(capsys, str(whole))
    assert (code, lines, error) == (130, [], "verl-dump: interrupted\n")


class Clock:
    """A clock that the test winds on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_on_a_terminal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the bar is written over, with bytes, rate and the time left, and taken away at the end."""
    clock = Clock()
    monkeypatch.setattr("verl_dump.verify.progress.time.monotonic", clock)
    stream = io.StringIO()
    progress = Progress(stream, terminal=True)
    progress.plan(4_000_000_000)
    progress.tell(1_000_000)
    assert stream.getvalue() == ""
    clock.now += 10
    progress.tell(999_000_000)
    assert stream.getvalue() == (
        "\r\x1b[K[######..................]  25 %  1.0 GB of 4.0 GB, 100.0 MB/s, 0:30 left"
    )
    progress.clear()
    progress.clear()
    assert stream.getvalue().endswith("left\r\x1b[K")
    assert "\n" not in stream.getvalue()


def test_progress_elsewhere_is_rare_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written over, there is a line every half minute."""
    clock = Clock()
    monkeypatch.setattr("verl_dump.verify.progress.time.monotonic", clock)
    stream = io.StringIO()
    progress = Progress(stream, terminal=False)
    progress.plan(90_000_000)
    for _ in range(90):
        clock.now += 1
        progress.tell(1_000_000)
    progress.clear()
    assert len(stream.getvalue().splitlines()) == 3
    assert stream.getvalue().splitlines()[0] == " 33 %  30.0 MB of 90.0 MB, 1.0 MB/s, 1:00 left"


def test_the_bar_is_taken_away_before_a_finding(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding never stands behind the bar on its line."""
    monkeypatch.setattr("verl_dump.verify.progress._REDRAW", 0.0)
    monkeypatch.setattr(verify_command, "Progress", lambda: Progress(terminal=True))
    assert main([str(damaged), "--json", "-"]) == 1
    error = capsys.readouterr().err
    assert "left\r\x1b[K" in error
    for line in error.removesuffix("\n").split("\n"):
        assert line.rpartition("\x1b[K")[2].startswith((str(damaged), "[")) or line.endswith("\x1b[K")
