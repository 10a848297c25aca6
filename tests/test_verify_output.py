"""Standard streams that are closed or full: what `verl-dump verify` makes of them."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from verl_dump.verify import command


class Full(io.StringIO):
    """Takes everything into its buffer, and fails when that is written."""

    def __init__(self, number: int, *, at_write: bool = False) -> None:
        super().__init__()
        self._number, self._at_write = number, at_write

    def write(self, text: str) -> int:
        """Take a text, or fail at once."""
        if self._at_write and text:
            raise OSError(self._number, os.strerror(self._number))
        return super().write(text)

    def flush(self) -> None:
        """Fail where something is to be written."""
        if self.getvalue():
            raise OSError(self._number, os.strerror(self._number))


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """How often standard output was turned away."""
    calls: list[bool] = []
    monkeypatch.setattr(command, "drop_output", lambda: calls.append(True))
    return calls


@pytest.fixture
def whole(tmp_path: Path) -> str:
    """A directory of one whole dump."""
    (tmp_path / "1.jsonl").write_text('{"step": 1}\n')
    return str(tmp_path)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_is_not_there_writes_to_nowhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard stream that is None becomes one that takes any text, keeps its number, and is inherited by children."""
    monkeypatch.setattr(sys, name, None)
    command.open_streams()
    stream = getattr(sys, name)
    number = stream.fileno()
    try:
        assert (stream.encoding, stream.errors, stream.mode) == ("utf-8", "backslashreplace", "w")
        assert os.get_inheritable(number)
        assert os.fstat(number).st_rdev == os.stat(os.devnull).st_rdev
        stream.write("\ud800 答案\n")
        stream.close()
        os.fstat(number)
    finally:
        os.close(number)


def test_a_stream_that_is_there_is_left_alone() -> None:
    """The standard streams of a process that has them stay what they are."""
    before = sys.stdout, sys.stderr
    command.open_streams()
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_terminal_that_knows_ascii_only_takes_any_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stream's encoding has no letters for is written as escapes."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    command.open_streams()
    getattr(sys, name).write("\ud800 é")
    assert raw.getvalue() == b"\\ud800 \\xe9"


@pytest.mark.parametrize(
    ("words", "at_write"),
    [
        pytest.param([], False, id="report-at-flush"),
        pytest.param([], True, id="report-at-write"),
        pytest.param(["--help"], False, id="help-at-flush"),
    ],
)
def test_a_full_disk_under_the_report_is_one_line_and_code_2(
    words: list[str],
    at_write: bool,
    whole: str,
    dropped: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A report that cannot be written, early or at the end, is said on stderr, and output is turned away."""
    monkeypatch.setattr(sys, "stdout", Full(errno.ENOSPC, at_write=at_write))
    assert command.main([*words, whole]) == command.UNREADABLE
    monkeypatch.undo()
    assert capsys.readouterr().err == (
        "verl-dump: the report cannot be written: No space left on device; write it elsewhere\n"
    )
    assert dropped == [True]


def test_a_reader_that_has_read_enough_ends_the_run(
    whole: str, dropped: list[bool], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken pipe is no error of the report: nothing is said, and the code is the shell's for it."""
    monkeypatch.setattr(sys, "stdout", Full(errno.EPIPE))
    assert command.main([whole]) == 141
    monkeypatch.undo()
    assert capsys.readouterr().err == ""
    assert dropped == [True]


def test_text_is_seen_at_once_where_it_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what must be seen at once is flushed."""
    file = Full(errno.ENOSPC)
    command.say("a", file)
    with pytest.raises(command.OutputError):
        command.say("b", file, flush=True)
    assert file.getvalue() == "a\nb\n"
    assert capsys.readouterr() == ("", "")


def test_a_run_without_standard_output_has_one(whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command opens the stream that the process was started without, and ends with its own code."""
    monkeypatch.setattr(sys, "stdout", None)
    assert command.main([whole]) == 0
    number = sys.stdout.fileno()
    sys.stdout.close()
    os.close(number)
