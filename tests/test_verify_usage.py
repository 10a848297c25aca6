"""`verl-dump verify`: the help, what cannot be read or written, and how a run ends."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from verl_dump.verify import KINDS
from verl_dump.verify.command import add_parser, main

HELP = """\
usage: NAME [-h] [--strict] [--show N] [--json FILE] [-q] DIR [DIR ...]

Reads dump directories and says whether they are whole.
Exit code 0: no errors; 1: errors, or with --strict warnings;
2: DIR cannot be read, or the usage is wrong.

positional arguments:
  DIR          a directory of {step}.jsonl files, or one such file; folders in it are not looked into

options:
  -h, --help   show this help message and exit
  --strict     warnings count as errors do
  --show N     findings shown of each kind and file (default 3); all are counted
  --json FILE  write the report as JSON as well; - for standard output
  -q, --quiet  show the summary only

errors:
ERRORS

warnings (no error without --strict):
WARNINGS
"""


def kinds(level: str) -> str:
    """The kinds of a level, as a table."""
    width = len("keys-between-files")
    return "\n".join(f"  {k.name:{width}}  {k.means}" for k in KINDS.values() if k.level == level)


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole dump in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "1.jsonl"
    path.write_text('{"step": 1}\n')
    return path


def test_the_help_is_complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of the module and of the command name every option with what it does, and every kind of finding."""
    monkeypatch.setenv("COLUMNS", "120")
    parser = argparse.ArgumentParser(prog="tool")
    add_parser(parser.add_subparsers())
    for call, name in (
        (lambda: main(["--help"]), "python -m verl_dump.verify"),
        (lambda: parser.parse_args(["verify", "--help"]), "tool verify"),
    ):
        with pytest.raises(SystemExit, match=r"^0$"):
            call()
        text = HELP.replace("NAME", name)
        text = text.replace("ERRORS", kinds("error")).replace("WARNINGS", kinds("warning"))
        assert capsys.readouterr().out == text
    assert "    verify    say whether dump directories are whole\n" in parser.format_help()


def fail(error: OSError, name: str, real: Callable[..., object], calls: int = 0) -> Callable[..., object]:
    """A function that fails for a path, after so many calls for it."""
    left = [None] * calls

    def called(path: object, *more: object) -> object:
        if path == name:
            if not left:
                raise error
            left.pop()
        return real(path, *more)

    return called


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        pytest.param(PermissionError(13, "Permission denied"), "; read it as its owner", id="permission"),
        pytest.param(PermissionError(1, "Not permitted"), "; read it as its owner", id="operation"),
        pytest.param(OSError(5, "Input/output error"), "", id="disk"),
        pytest.param(FileNotFoundError(2, "Not there"), "; name a directory of dumps", id="gone"),
        pytest.param(OSError(40, "Too many levels"), "; the link leads in a circle", id="circle"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the numbers are those of Linux")
def test_a_directory_that_cannot_be_listed_is_a_mistake(
    dump: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    advice: str,
) -> None:
    """What was named is listed before anything is read, and one line says why that fails and what to do."""
    os.mkdir("dumps")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail(error, "dumps", os.scandir))
        code = main([".", "dumps"])
    assert code == 2
    assert capsys.readouterr() == ("", f"verl-dump: dumps cannot be read: {error.strerror}{advice}\n")


def test_a_directory_that_is_gone_when_its_turn_comes_is_a_mistake(
    dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory that can be listed no more when it is read ends the run with one line."""
    error = FileNotFoundError(2, "No such file or directory")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail(error, ".", os.scandir, calls=1))
        code = main(["."])
    assert code == 2
    assert capsys.readouterr() == ("", "verl-dump: . cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        pytest.param(["a\0b"], "DIR is empty or no path; name a directory of dumps", id="nul"),
        pytest.param(["1.jsonl/x"], "1.jsonl/x cannot be read: Not a directory", id="below-a-file"),
        pytest.param(
            ["1.jsonl", "--json", "n" * 300],
            f"--json {'n' * 300} cannot be written: File name too long",
            id="json-name-too-long",
        ),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the texts are those of Linux")
def test_a_mistake_is_said_in_these_words(
    dump: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    """A path that is none, or that cannot be opened, is named with the reason."""
    assert main(words) == 2
    assert capsys.readouterr().err == f"verl-dump: {line}\n"


@pytest.mark.parametrize(
    ("denied", "words", "line"),
    [
        pytest.param(
            "1.jsonl", [], "1.jsonl cannot be read: permission denied; read it as its owner", id="dump"
        ),
        pytest.param(
            "old.json",
            ["--json", "old.json"],
            "--json old.json cannot be written: permission denied; name another file",
            id="report",
        ),
        pytest.param(
            ".",
            ["--json", "new.json"],
            "--json new.json cannot be written: permission denied; name another file",
            id="folder",
        ),
        pytest.param(".", ["--json", "old.json"], None, id="report-in-a-closed-folder"),
    ],
)
def test_rights_are_looked_at_before_the_run(
    dump: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    denied: str,
    words: list[str],
    line: str | None,
) -> None:
    """A dump or a report without the right to it is refused; a report that is there needs none to its folder."""
    Path("old.json").write_text("")
    closed = os.path.abspath(denied)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, _: os.path.abspath(path) != closed)
        code = main(["1.jsonl", *words])
    out, err = capsys.readouterr()
    assert (code, err) == ((2, f"verl-dump: {line}\n") if line else (0, ""))
    assert bool(out) == (line is None)


class Broken(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_goes_away_ends_the_run(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nobody reads the report, stdout becomes the null device, so that nothing fails of it at the end."""
    replaced: list[tuple[bool, int]] = []

    def dup2(source: int, target: int) -> None:
        replaced.append((os.path.samestat(os.fstat(source), os.stat(os.devnull)), target))
        os.close(source)

    with monkeypatch.context() as patch:
        patch.setattr(os, "dup2", dup2)
        patch.setattr(sys, "stdout", Broken())
        assert main(["."]) == 141
    assert replaced == [(True, 1)]


class Held(io.StringIO):
    """A stream whose reader is found gone when what was written is flushed."""

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("words", [(), ("--json", "-")], ids=["text", "json"])
def test_what_was_held_back_is_written_before_the_end(
    dump: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """That nobody reads is found out before the command returns."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "dup2", lambda source, _: os.close(source))
        patch.setattr(sys, "stdout", Held())
        assert main([".", *words]) == 141


def test_ctrl_c_is_said_in_one_line(
    dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt ends the run with one line on stderr and 130."""

    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", interrupted)
        code = main(["."])
    assert code == 130
    assert capsys.readouterr() == ("", "verl-dump: interrupted\n")
