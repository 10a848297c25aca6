"""The command: exit codes, one clear line for every mistake, and replays that reproduce what they say."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from fault_injection import cli
from fault_injection.laws import LAWS
from tests.test_engine import WRITER

SCENARIO = ("--scenario", "restarted")
NOBODY = 65534


@pytest.fixture
def writers(tmp_path: Path) -> str:
    """A file with small writers in it."""
    file = tmp_path / "writers.py"
    file.write_text(WRITER)
    return str(file)


@pytest.fixture(autouse=True)
def nothing_left_in_the_working_directory() -> object:
    """No command leaves a file where it was called."""
    before = sorted(os.listdir())
    yield
    assert sorted(os.listdir()) == before


def command(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "fault_injection.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which the command refuses these words."""
    try:
        code = cli.main(["check", *words])
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert code == cli.UNUSABLE
    assert said.err.startswith("verl-dump")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    return said.err


# Exit codes


def test_a_run_without_a_violation_ends_with_0(writers: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer that holds the laws: exit code 0, a header, a line for each law and the sum."""
    assert cli.main(["check", f"{writers}:Writer", *SCENARIO]) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"target {writers}:Writer; python ")
    assert [line.split()[:2] for line in lines[1:-1]] == [[law, "holds"] for law in ("D1", "D2", "D6")]
    assert f"{writers}:Writer: 3 held; 1 trial in " in lines[-1]


def test_a_run_with_a_violation_ends_with_1_and_its_replay_reproduces_it(
    writers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer that breaks a law: exit code 1, and the command shown for it, pasted, shows the same violation."""
    file = tmp_path / "report with spaces.json"
    assert (
        cli.main(["check", f"{writers}:InPlace", *SCENARIO, "--seed", "4", "-q", "--json", str(file)])
        == cli.VIOLATED
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["D2", f"{writers}:InPlace:"]
    (law,) = [each for each in json.loads(file.read_text())["laws"] if each["status"] == "violated"]
    violation = law["violations"][0]
    assert violation["replay"] in {line.strip() for line in lines}
    name, *words = shlex.split(violation["replay"])
    assert name == "verl-dump"
    begin = time.monotonic()
    result = command(*words)
    seconds = time.monotonic() - begin
    assert result.returncode == cli.VIOLATED
    assert f"D2 VIOLATED: {violation['message']}" in result.stdout.splitlines()
    # Two seconds on a machine that has nothing else to do; here others may run beside.
    assert seconds < 20
    assert float(result.stdout.rsplit(" in ", 1)[1].split()[0]) < 10


def test_a_replay_that_holds_ends_with_0_and_tells_the_story(
    writers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One trial alone is told in full, with the laws that it held."""
    words = [
        "check",
        f"{writers}:Writer",
        "--law",
        "D",
        "--scenario",
        "over-older",
        "--plan",
        "open#1:EACCES",
    ]
    assert cli.main(words) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "scenario over-older, plan open#1:EACCES, seed 0"
    assert any(line.endswith("<-- EACCES") for line in lines)
    assert (
        f"{writers}:Writer: held D2, D3, D4; not judged, since the trial does not bear on it: D1; 1 trial in "
        in lines[-1]
    )


def test_the_default_scenario_of_a_plan_is_three_dumps(
    writers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan without a scenario is run on three dumps."""
    assert cli.main(["check", f"{writers}:Writer", "--plan", "none"]) == cli.OK
    assert capsys.readouterr().out.startswith("scenario three-dumps, plan none, seed 0\n")


def test_a_hang_is_a_violation_of_the_run_and_of_its_replay(
    writers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A target that hangs is told of as E8, and replays so."""
    assert (
        cli.main(["check", f"{writers}:Hangs", "--scenario", "restarted", "--plan", "none"]) == cli.VIOLATED
    )
    assert "E8 VIOLATED: drain never returned" in capsys.readouterr().out


# Choice of laws


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (["--law", "D1"], ["D1"]),
        (["--law", "d"], ["D1", "D2", "D6"]),
        (["--law", "D1,D6"], ["D1", "D6"]),
        (["--law", "D1", "--law", "D2"], ["D1", "D2"]),
    ],
    ids=["one", "group", "joined", "repeated"],
)
def test_only_the_laws_asked_for_are_shown(
    writers: str, capsys: pytest.CaptureFixture[str], asked: list[str], shown: list[str]
) -> None:
    """`--law` takes laws and groups, joined or repeated, of those that the scenario is judged by."""
    assert cli.main(["check", f"{writers}:Writer", *SCENARIO, *asked]) == cli.OK
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-1]] == shown


# Mistakes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--law", "E99"], "unknown law 'E99'; the laws are D1, ", id="unknown-law"),
        pytest.param(["--plan", "write#0:EIO"], "count from 1", id="plan-from-0"),
        pytest.param(["--plan", "write#1:EWHAT"], "unknown fault 'EWHAT'", id="unknown-fault"),
        pytest.param(["--plan", "wirte#1:EIO"], "unknown operation 'wirte'", id="unknown-operation"),
        pytest.param(["--plan", "full disk"], "is not of the form [GLOB@]OP#K:FAULT", id="no-plan"),
        pytest.param(
            ["--scenario", "nope"], "unknown scenario 'nope'; the scenarios are three-dumps, ", id="scenario"
        ),
        pytest.param(["no.such:Writer"], "there is no module 'no'", id="no-module"),
        pytest.param(["no_file.py:Writer"], "no_file.py does not exist", id="no-file"),
        pytest.param(["json"], "is not of the form package.module:Name", id="no-name"),
        pytest.param(["json:JSONEncoder"], "is no writer: it has no _dump_generations()", id="no-writer"),
        pytest.param(["json:dumps"], "is not a class", id="no-class"),
        pytest.param(["--class", "Trainer"], "--class goes with --source", id="class-without-source"),
        pytest.param(["a.b:C", "--source", "x.whl"], "not both", id="target-and-source"),
        pytest.param(["--source", "no.whl"], "no.whl: there is no such file or folder", id="no-wheel"),
        pytest.param(
            ["--seed", "x"], "argument --seed: invalid int value: 'x'; see verl-dump check --help", id="seed"
        ),
        pytest.param(["--wrong"], "unrecognized arguments: --wrong", id="unknown-option"),
        pytest.param(
            ["--plan", "none", "--json", "x.json"], "--json reports whole runs", id="json-of-a-replay"
        ),
        pytest.param(
            ["--json", "/no/where/x.json"], "there is no directory /no/where", id="json-no-directory"
        ),
        pytest.param(["--json", "/"], "--json / is a directory; name a file", id="json-directory"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """Wrong names, plans, places and options each give one line that says what is wrong, and exit code 2."""
    assert says in refused(capsys, *words)


def test_an_unreadable_wheel_or_an_unknown_class_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no wheel, and a source without the class, are refused in one line that names them."""
    wheel = tmp_path / "broken.whl"
    wheel.write_bytes(b"no zip")
    assert "broken.whl" in refused(capsys, "--source", str(wheel))
    source = tmp_path / "source.py"
    source.write_text(WRITER)
    assert "Trainer" in refused(capsys, "--source", str(source), "--class", "Trainer")


@pytest.mark.parametrize(
    "plan", ["write#99:EIO", "fsync#1:EIO", "*.parquet@write#1:EIO", "bytes>99999:ENOSPC"]
)
def test_a_plan_that_strikes_nothing_is_refused(
    writers: str, capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    """A replay in which no fault fires proves nothing: one line and exit code 2, not a pass."""
    text = refused(capsys, f"{writers}:Writer", *SCENARIO, "--plan", plan)
    assert f"plan {plan} struck nothing in scenario restarted" in text


def test_a_scenario_that_needs_more_than_the_target_has_is_refused(
    writers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A synchronous writer cannot be driven through a scenario of the queue."""
    text = refused(capsys, f"{writers}:Writer", "--scenario", "stalled-before", "--plan", "none")
    assert "needs a target that is asynchronous" in text


@pytest.mark.parametrize("name", ["Exits", "NeedsConfig", "ByCommand"])
def test_a_target_that_cannot_be_judged_is_one_clear_line(
    writers: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A target that ends its process, needs attributes, or writes where nobody sees it, is refused in one line."""
    assert f"{writers}:{name}" in refused(capsys, f"{writers}:{name}", *SCENARIO, "-q")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="another user is made by a forked child")
def test_a_report_file_that_may_not_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    """A report that this user may not write is refused at once; as root, another user tries it."""
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    for folder in tmp_path.parents:
        if os.stat(folder).st_uid == os.geteuid() and folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    code, said = _as_nobody("check", "--json", str(closed / "report.json"))
    assert code == cli.UNUSABLE
    assert said == (
        f"verl-dump: --json {closed}/report.json cannot be written: permission denied; name another file\n"
    )
    closed.chmod(0o755)
    assert list(closed.iterdir()) == []


def _as_nobody(*words: str) -> tuple[int, str]:
    """Run the command in a fork of this process that is not root; the exit code and what went to standard error."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside threads (pytest's timeout has one); the child starts none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.dup2(write, 2)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            code = cli.main(words)
            sys.stderr.flush()
            os._exit(code)
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def test_no_command_is_one_clear_line() -> None:
    """Without a command there is one line that says so, and exit code 2."""
    result = command()
    assert (result.returncode, result.stdout) == (cli.UNUSABLE, "")
    assert result.stderr == (
        "verl-dump: the following arguments are required: COMMAND; see verl-dump --help\n"
    )


# Output


def test_json_on_standard_output_is_nothing_but_json(writers: str) -> None:
    """With `--json -` standard output is the report, and everything for people goes to standard error."""
    result = command("check", f"{writers}:Writer", *SCENARIO, "--json", "-")
    assert result.returncode == cli.OK
    value = json.loads(result.stdout)
    assert value.keys() == {"format", "target", "versions", "seed", "uid", "trials", "seconds", "laws"}
    assert value["target"] == f"{writers}:Writer"
    assert value["uid"] == os.geteuid()
    for law in value["laws"]:
        assert law.keys() >= {"id", "status", "trials", "violations"}
        assert law["id"] in LAWS
    assert "3 held" in result.stderr


def test_several_classes_of_a_source_are_several_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source with two writers is judged twice, and the worse of the two decides the exit code."""
    source = tmp_path / "source.py"
    parts = WRITER.split("\n\n\n")
    writer = next(part for part in parts if part.startswith("class Writer"))
    broken = writer.replace("class Writer", "class Broken").replace('path + ".tmp"', "path")
    source.write_text(f"{parts[0]}\n\n\n{writer}\n\n\n{broken}")
    file = tmp_path / "report.json"
    words = ["check", "--source", str(source), *SCENARIO, "--law", "D2", "--json", str(file)]
    assert cli.main(words) == cli.VIOLATED
    reports = json.loads(file.read_text())["reports"]
    assert [report["laws"][0]["status"] for report in reports] == ["holds", "violated"]
    replay = shlex.split(reports[1]["laws"][0]["violations"][0]["replay"])
    assert replay[:6] == ["verl-dump", "check", "--source", str(source), "--class", "Broken"]
    capsys.readouterr()
    assert cli.main(replay[1:]) == cli.VIOLATED


def test_a_reader_that_stops_early_gets_no_traceback(writers: str) -> None:
    """When the report is piped into a command that reads one line, the rest is dropped quietly."""
    read, write = os.pipe()
    os.close(read)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "fault_injection.cli", "check", f"{writers}:Writer", *SCENARIO],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert result.returncode == 141
    assert result.stderr == ""


def written_to(where: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module with standard output redirected as a shell does it."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", sys.executable, "-m", *words],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def torn(tmp_path: Path) -> str:
    """A directory of dumps that is not whole."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    (folder / "1.jsonl").write_text('{"input": ')
    return str(folder)


COMMANDS = [
    pytest.param(["fault_injection.cli", "check", "{writers}:InPlace", *SCENARIO, "-q"], 1, id="check"),
    pytest.param(["fault_injection.cli", "check", "{writers}:Writer", *SCENARIO], 0, id="check-that-holds"),
    pytest.param(["fault_injection.cli", "verify", "{torn}"], 1, id="verify"),
    pytest.param(["verl_dump.verify", "{torn}"], 1, id="verify-alone"),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(("words", "code"), COMMANDS)
def test_a_report_that_cannot_be_written_is_one_clear_line(
    words: list[str], code: int, writers: str, torn: str
) -> None:
    """On a full disk the command says that the report cannot be written and ends with 2, whatever the report says."""
    del code
    result = written_to("> /dev/full", *(word.format(writers=writers, torn=torn) for word in words))
    said = "verl-dump: the report cannot be written: No space left on device; write it elsewhere\n"
    assert (result.returncode, result.stderr) == (cli.UNUSABLE, said)


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes a stream")
@pytest.mark.parametrize("where", [">&-", ">&- 2>&-", "<&- >&-"], ids=["output", "errors-too", "input-too"])
@pytest.mark.parametrize(("words", "code"), COMMANDS)
def test_without_standard_output_the_run_ends_with_its_own_exit_code(
    words: list[str], code: int, where: str, writers: str, torn: str
) -> None:
    """Where standard output is closed nobody wants the report, and the exit code is what it would be with it."""
    result = written_to(where, *(word.format(writers=writers, torn=torn) for word in words))
    assert (result.returncode, result.stderr) == (code, "")


class Full(io.StringIO):
    """A stream on a full disk, which is found out when what was written is flushed."""

    def flush(self) -> None:
        """Fail as the disk does."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Filled(Full):
    """A stream on a full disk, which is found out at once."""

    def write(self, text: str) -> int:
        """Fail as the disk does."""
        del text
        self.flush()
        return 0


class Gone(Full):
    """A pipe that nobody reads."""

    def flush(self) -> None:
        """Fail as the pipe does."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@pytest.mark.parametrize("stream", [Full, Filled, Gone])
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["check", "{writers}:Writer", *SCENARIO], id="report"),
        pytest.param(["check", "{writers}:Writer", *SCENARIO, "-q", "--json", "-"], id="json"),
        pytest.param(["check", "{writers}:Writer", *SCENARIO, "--plan", "none"], id="replay"),
        pytest.param(["check", "--help"], id="help"),
        pytest.param(["verify", "{torn}"], id="verify"),
        pytest.param(["verify", "{torn}", "--json", "-"], id="verify-json"),
    ],
)
def test_whatever_is_written_to_standard_output_may_fail(
    words: list[str],
    stream: type[Full],
    writers: str,
    torn: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each part of the report it is said that it cannot be written, but not where its reader has read enough."""
    replaced = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "dup2", lambda source, target: (os.close(source), replaced.append(target)))
        patch.setattr(sys, "stdout", stream())
        code = cli.main([word.format(writers=writers, torn=torn) for word in words])
    assert (code, replaced) == ((141 if stream is Gone else cli.UNUSABLE), [1])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("verl-dump: ")]
    assert len(said) == (stream is not Gone)
    assert all("cannot be written: No space left on device" in line for line in said)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_standard_stream_that_is_not_there_is_the_null_device(
    name: str, torn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process without a standard stream writes there goes nowhere, and no file of the run gets its number."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, name, None)
        assert cli.main(["verify", torn]) == cli.VIOLATED
        stream = getattr(sys, name)
        assert os.path.samestat(os.fstat(stream.fileno()), os.stat(os.devnull))
        assert os.get_inheritable(stream.fileno())
    os.close(stream.fileno())


@pytest.mark.skipif(os.name != "posix", reason="SIGTERM ends a process at once elsewhere")
def test_a_terminated_run_removes_its_scratch_directory(writers: str, tmp_path: Path) -> None:
    """SIGTERM in the middle of a run ends it with 143, and no file is left where the trials wrote."""
    # The directory that is used where /dev/shm is not.
    code = "import os, sys; real = os.path.isdir; os.path.isdir = lambda p: p != '/dev/shm' and real(p)\n"
    code += "from fault_injection import cli; sys.exit(cli.main(sys.argv[1:]))"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", code, "check", f"{writers}:Writer", "--scenario", "three-dumps"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    ) as process:
        process.stdout.readline()
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said == ""
    assert list(scratch.iterdir()) == []


def test_progress_is_told_now_and_then_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, writers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Progress goes to standard error, with percent, trials and the laws violated so far."""
    monkeypatch.setattr(cli, "_BEAT", 0.0)
    cli.main(["check", f"{writers}:InPlace", *SCENARIO])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("100 %  1 trials in ")
    assert line.endswith(", violated: D2")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([""], "TARGET is empty", id="target"),
        pytest.param(["--law", ""], "--law is empty", id="law"),
        pytest.param(["--json", ""], "--json is empty", id="json"),
        pytest.param(["--law", "E2", "--scenario", "same-step"], "says nothing of the laws", id="no-bearing"),
        pytest.param(["--law", "Q7", "--plan", "none"], "says nothing of the laws", id="no-bearing-plan"),
        pytest.param(["--plan", "write#1:kill"], "kills the process", id="kill"),
        pytest.param(
            ["--scenario", "three-dumps-in-memory", "--plan", "write#1:short(3)"],
            "cannot be run",
            id="memory",
        ),
        pytest.param(["--plan", "write#1:slow(1e999s)"], "at most", id="endless"),
    ],
)
def test_a_run_that_would_judge_nothing_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would pass without having judged anything ends with one line and exit code 2."""
    assert cli.main(["check", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
