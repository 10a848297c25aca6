"""Power loss through strace: writers in C and other programs are recorded as Python's are, and judged the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fault_injection import engine, lacking
from fault_injection.crash.judge import Judge, Moment
from fault_injection.crash.model import Disk, visible
from fault_injection.crash.record import Journal, Recorder
from fault_injection.crash.replay import PowerPlan
from fault_injection.crash.run import Bench, Recording, explore, next_run, record, replay, results_of
from fault_injection.crash.states import Enumeration
from fault_injection.crash.strace_follow import TRACED, Follower, NotFollowedError
from fault_injection.crash.strace_lines import CutShortError, calls, data
from fault_injection.engine import check
from fault_injection.history import History
from fault_injection.judge.facts import Facts
from fault_injection.look import DiskLook
from fault_injection.mechanisms import kernel
from fault_injection.plan import Plan
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.targets.errors import TargetError
from tests import c_writers

LACK = kernel.missing().get("strace", "") if sys.platform == "linux" else "strace is one of Linux"
straced = pytest.mark.skipif(bool(LACK), reason=LACK)
LAWS = frozenset({"D2", "D3", "D7"})
POWER = "power-loss-through-strace"
OVER = "power-loss-over-older-through-strace"
BROKEN = [item for item in vars(c_writers).values() if "broken_law" in getattr(item, "__dict__", ())]


def bench(spec: Spec, scenario: str, scratch: Path) -> Bench:
    """What a recording needs; a call that hangs fails the test."""

    def hung(history: History) -> None:
        pytest.fail(f"a call hangs in {history.scenario}")

    return Bench(load_subject(spec), SCENARIOS[scenario], 0, str(scratch), hung)


def in_c(name: str) -> Spec:
    """A writer whose calls Python does not see."""
    return Spec(f"tests.c_writers:{name}")


# The calls.


def followed(root: Path, script: str) -> Journal:
    """What the recorder makes of the calls of a Python program that runs in a directory."""
    start, output = Recorder(os.path.realpath(root)).journal(), root.parent / "calls"
    command = [
        "strace",
        "-f",
        "-y",
        "-xx",
        "-s",
        "9999",
        "-e",
        "abbrev=none",
        "-e",
        "signal=none",
        "-o",
        str(output),
    ]
    command += ["-e", f"trace={','.join(TRACED)}", sys.executable, "-I", "-S", "-c", f"import os\n{script}"]
    subprocess.run(command, cwd=root, check=True, timeout=30)
    made = tuple(calls(output.read_text(encoding="latin-1").splitlines()))
    # Calls that take a path alone are relative to the directory of the program.
    here = os.getcwd()
    os.chdir(root)
    try:
        return Follower(os.path.realpath(root), start, made, 0, ()).journal()
    finally:
        os.chdir(here)


def end_of(journal: Journal) -> dict[str, bytes]:
    """The files that the steps of a journal lead to."""
    end = Disk(journal)
    for _ in journal.steps:
        end.advance()
    shown = visible(end.live, journal.folders, end.links)
    return {path: end.files[entry.node].content for path, entry in shown.items()}


SCRIPTS = {
    "names-that-look-like-syntax": """
f = os.open('a, "<b>) = 1', os.O_WRONLY | os.O_CREAT); os.write(f, b'") = 3'); os.close(f)
os.rename('a, "<b>) = 1', 'é')""",
    "appended": """
f = os.open('old', os.O_WRONLY | os.O_APPEND); os.write(f, b'1'); os.pwrite(f, b'2', 0)""",
    "positions": """
f = os.open('old', os.O_RDWR); os.read(f, 3); os.write(f, b'X'); os.lseek(f, -1, os.SEEK_END); os.writev(f, [b'Y', b'Z'])
os.pwrite(f, b'P', 1); os.write(f, b'Q')""",
    "copied-descriptors": """
import fcntl
f = os.open('new', os.O_WRONLY | os.O_CREAT); g = os.dup(f); os.dup2(f, 60); h = fcntl.fcntl(f, fcntl.F_DUPFD, 70)
for each in (f, g, 60, h): os.write(each, b'%d,' % (each > 50))""",
    "resized": """
os.truncate('old', 2); f = os.open('old', os.O_RDWR); os.ftruncate(f, 6); os.posix_fallocate(f, 0, 9)""",
    "moved": """
os.makedirs('d/e'); os.rename('old', 'd/f'); os.rename('d', 'g'); f = os.open('g/e/h', os.O_WRONLY | os.O_CREAT)
os.rename('g/e/h', 'top'); os.write(f, b'late'); os.rmdir('g/e')""",
    "linked": """
os.link('old', 'two'); os.symlink('two', 'three'); os.rename('old', 'two'); os.unlink('old')
f = os.open('three', os.O_WRONLY | os.O_APPEND); os.write(f, b'!')""",
    "nameless-at-first": """
f = os.open('.', os.O_TMPFILE | os.O_WRONLY); os.write(f, b'all')
os.link(f'/proc/self/fd/{f}', 'new', dst_dir_fd=os.open('.', os.O_RDONLY), follow_symlinks=True)""",
    "below-a-directory": """
os.mkdir('d'); d = os.open('d', os.O_RDONLY); f = os.open('f', os.O_WRONLY | os.O_CREAT, dir_fd=d); os.write(f, b'1')
os.rename('f', 'g', src_dir_fd=d, dst_dir_fd=d); os.unlink('old')""",
    "another-process": """
import subprocess
f = os.open('new', os.O_WRONLY | os.O_CREAT); os.write(f, b'one ')
subprocess.run(['sh', '-c', 'printf two; printf three >> old'], stdout=f, check=True); os.write(f, b' four')""",
    "another-thread": """
import threading
f = os.open('new', os.O_WRONLY | os.O_CREAT)
for n in range(3):
    t = threading.Thread(target=os.write, args=(f, b'%d' % n)); t.start(); t.join()
os.write(f, b'end')""",
}


@straced
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_calls_lead_to_what_is_on_disk(name: str, tmp_path: Path) -> None:
    """Whatever calls write, move or remove a file, the journal's end is the directory as it is."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "old").write_bytes(b"as it was")
    assert end_of(followed(root, SCRIPTS[name])) == DiskLook(str(root))()


@straced
def test_syncs_are_told_apart(tmp_path: Path) -> None:
    """A sync names its file or directory, O_DSYNC syncs with each write, and a sync that failed is none."""
    root = tmp_path / "root"
    root.mkdir()
    script = """
f = os.open('f', os.O_WRONLY | os.O_CREAT); os.write(f, b'x'); os.fsync(f); os.fdatasync(f)
d = os.open('.', os.O_RDONLY); os.fsync(d); os.sync()
g = os.open('g', os.O_WRONLY | os.O_CREAT | os.O_DSYNC); os.write(g, b'x'); os.close(g)
try: os.fsync(g)
except OSError: pass"""
    assert [(step.kind, step.node) for step in followed(root, script).steps] == [
        ("create", 1), ("write", 1), ("sync", 1), ("sync", 1), ("sync", 0), ("syncall", 0),
        ("create", 2), ("write", 2), ("sync", 2),
    ]  # fmt: skip


@straced
@pytest.mark.parametrize("call", ["rename", "link"])
def test_a_file_from_outside_is_not_followed(call: str, tmp_path: Path) -> None:
    """What a file brings in with it from outside of the root is in no call, so the recording is refused."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_bytes(b"x")
    with pytest.raises(NotFollowedError, match="f in from outside"):
        followed(root, f"os.{call}('../outside', 'f')")


def test_calls_are_put_together_where_threads_cut_them() -> None:
    """A call stands where it returned, also when other lines came between; one that failed or never returned does not."""
    lines = [
        r'1 write(3</r/\x61>, "\x68\x69", 2 <unfinished ...>',
        "2 fsync(4<pipe:[7]>) = -1 EINVAL (Invalid argument)",
        "2 fsync(4</r>) = 0",
        "3 fsync(5</r> <unfinished ...>",
        "1 <... write resumed>) = 2",
        "9 <... close resumed>) = 0",
        "--- nothing of a call ---",
    ]
    found = list(calls(lines))
    assert [(call.thread, call.name, call.result) for call in found] == [(2, "fsync", 0), (1, "write", 2)]
    assert found[1].arguments[0] == r"3</r/\x61>"
    assert data(found[1].arguments[1]) == b"hi"


def test_a_write_that_strace_cut_short_is_refused() -> None:
    """Bytes that are not in the recording are not made up."""
    with pytest.raises(CutShortError):
        data(r'"\x61"...')


def test_what_was_told_stands_between_the_steps() -> None:
    """A step counts the events that were told by the time that its call returned, also in pieces and before strace came."""
    lines = [
        r'1 openat(AT_FDCWD</>, "\x66", O_WRONLY|O_CREAT, 0666) = 3</no\x2fwhere/f>',
        r'1 write(9<pipe:[77]>, "\x61\x61\x61", 3) = 2',
        "2 fsync(3</no/where/f> <unfinished ...>",
        r'1 write(9<pipe:[77]>, "\x61", 1) = 1',
        "2 <... fsync resumed>) = 0",
        r'1 write(8<pipe:[78]>, "\x61\x61\x61\x61\x61", 5) = 5',
        "1 fsync(3</no/where/f>) = 0",
        r'1 write(9<pipe:[77]>, "\x61\x61\x61\x61\x61", 5) = 5',
        "1 fsync(3</no/where/f>) = 0",
    ]
    # Ten bytes had been told before, with one event; then one of three bytes, and one of five.
    steps = Follower("/no/where", Journal(), tuple(calls(lines)), 77, (10, 13, 18)).journal().steps
    assert [(step.kind, step.at) for step in steps] == [("create", 1), ("sync", 2), ("sync", 2), ("sync", 3)]


def test_a_closed_descriptor_is_forgotten() -> None:
    """A number that came anew in a way that is not followed has neither the position nor the flags of what was closed."""
    lines = [
        r'1 openat(AT_FDCWD</>, "\x66", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3</no/where/f>',
        r'1 write(3</no/where/f>, "\x61\x62", 2) = 2',
        "1 close(3</no/where/f>) = 0",
        r'1 write(3</no/where/f>, "\x63", 1) = 1',
    ]
    steps = Follower("/no/where", Journal(), tuple(calls(lines)), 77, ()).journal().steps
    assert [(step.kind, step.offset) for step in steps] == [("create", 0), ("write", 0), ("write", 0)]


@pytest.mark.parametrize(
    ("flags", "at"), [("CLONE_VM|CLONE_FILES", 2), ("SIGCHLD", 0)], ids=["thread", "process"]
)
def test_threads_share_their_descriptors(flags: str, at: int) -> None:
    """What one thread opens and writes moves the position of the other, and what a forked process opens is its own."""
    lines = [
        f"1 clone(child_stack=NULL, flags={flags}) = 2",
        r'2 openat(AT_FDCWD</>, "\x66", O_WRONLY|O_CREAT, 0666) = 3</no/where/f>',
        r'1 write(3</no/where/f>, "\x61\x62", 2) = 2',
        r'2 write(3</no/where/f>, "\x63", 1) = 1',
    ]
    steps = Follower("/no/where", Journal(), tuple(calls(lines)), 77, ()).journal().steps
    assert [(step.kind, step.offset) for step in steps] == [("create", 0), ("write", 0), ("write", at)]


# The runs.


def shape(recording: Recording) -> list[tuple[object, ...]]:
    """The steps of a run and what was promised before each, without what differs from process to process."""
    judging = Judge(Facts(recording.history))
    found: list[tuple[object, ...]] = []
    for step in recording.journal.steps:
        moment = judging.moment(step.at)
        names = (_plain(step.name), _plain(step.old_name))
        found.append(
            (
                step.kind,
                step.node,
                step.folder,
                step.old_folder,
                *names,
                step.offset,
                step.data,
                *_promised(moment),
            )
        )
    return found


def states(recording: Recording) -> set[tuple[object, ...]]:
    """Every crash state of a run."""
    enumeration, disk = Enumeration(fine=False), Disk(recording.journal)
    found: set[tuple[object, ...]] = set()
    while True:
        for state in enumeration.states(disk):
            found.add(tuple((_plain(name), content) for name, content in state.files))
        if disk.step == len(recording.journal.steps):
            return found
        disk.advance()


def _plain(name: str) -> str:
    """A temporary file's name without the process and the count."""
    return re.sub(r"-\d+-\d+\.tmp$", ".tmp", name)


def _promised(moment: Moment) -> tuple[object, ...]:
    return moment.drained, moment.started


@straced
@pytest.mark.parametrize("name", ["power-loss", "power-loss-over-older"])
def test_both_recorders_see_the_same_states(name: str, tmp_path: Path) -> None:
    """Of the reference writer strace and the fault layer record the same steps and promises, so the same crash states."""
    inside = record(bench(Spec(DEFAULT), name, tmp_path), Plan())
    outside = record(bench(Spec(DEFAULT), f"{name}-through-strace", tmp_path), Plan())
    assert shape(outside) == shape(inside)
    assert states(outside) == states(inside)
    assert len(states(outside)) > 10
    assert os.listdir(tmp_path) == []


@straced
@pytest.mark.parametrize("scenario", [POWER, OVER])
@pytest.mark.parametrize("name", ["ClibDurable", "CommandDurable"])
def test_a_durable_writer_past_python_survives_every_power_loss(
    name: str, scenario: str, tmp_path: Path
) -> None:
    """No crash state of a writer in C, or of one that leaves the work to other programs, breaks a law."""
    at = bench(in_c(name), scenario, tmp_path)
    recording = record(at, Plan())
    outcome = explore(recording, LAWS, fine=False, tries=2)
    assert outcome.groups == ()
    assert outcome.states > 10
    for state, moment in outcome.sample:
        assert next_run(at, recording, state, moment)[0] == ()
    assert os.listdir(tmp_path) == []


@straced
@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_writer_in_c_is_caught_by_its_law_alone(cls: type, tmp_path: Path) -> None:
    """A crash defect in C is caught by the law that it breaks, by no other, and with what the writer needs."""
    found: dict[str, list[str]] = {}
    for scenario in (POWER, OVER):
        outcome = explore(
            record(bench(in_c(cls.__name__), scenario, tmp_path), Plan()), LAWS, fine=False, tries=0
        )
        for group in outcome.groups:
            found.setdefault(group.law, []).append(group.message(outcome.judging))
    assert list(found) == [cls.broken_law]
    assert any(cls.needs in message for message in found[cls.broken_law])


@straced
def test_a_violation_in_c_is_replayed_by_its_text(tmp_path: Path) -> None:
    """The plan of a result builds the same state of a fresh recording, which breaks the same law."""
    at = bench(in_c("ClibNoFsync"), OVER, tmp_path)
    results, _ = results_of(at, record(at, Plan()), LAWS)
    broken = next(result for result in results if result.violations)
    assert replay(at, PowerPlan.parse(broken.plan), LAWS)[0].violations == broken.violations


@straced
def test_what_strace_cannot_show_is_refused(tmp_path: Path) -> None:
    """A file that is filled through memory gives a recording that does not lead to what is on disk: one line says so."""
    with pytest.raises(TargetError, match=r"in a way that strace cannot show.*not with mmap") as caught:
        record(bench(in_c("ByMemory"), OVER, tmp_path), Plan())
    assert "\n" not in str(caught.value)


@straced
def test_a_plan_of_faults_is_refused(tmp_path: Path) -> None:
    """The recording through strace takes no faults and says so in one line."""
    with pytest.raises(TargetError, match="strace records no faults"):
        record(bench(in_c("ClibDurable"), OVER, tmp_path), Plan.parse("fsync#1:EIO"))


@straced
@pytest.mark.skipif(bool(LACK) or "seccomp" in kernel.missing(), reason="needs seccomp")
def test_an_unseen_writer_is_sent_to_strace() -> None:
    """A run of the contract judges D7 of a writer in C by its recording through strace."""
    spec = in_c("ClibNoDirectoryFsync")
    verdicts = check(spec, load_subject(spec), laws=frozenset({"D7"})).verdicts
    assert [(verdict.law, verdict.status) for verdict in verdicts] == [("D7", "violated")]


def names_of(scenario: str | None, *, seen: bool) -> frozenset[str]:
    """The scenarios that a subject is driven through."""
    return engine.driven_by(load_subject(Spec(DEFAULT)), scenario, seen=seen)


def test_the_recorder_is_chosen_by_what_the_layer_sees() -> None:
    """What the layer sees is recorded by it; what it does not, by strace; and who asks for strace gets it."""
    assert {POWER, OVER} <= names_of(None, seen=False)
    assert "power-loss" not in names_of(None, seen=False)
    assert not {POWER, OVER} & names_of(None, seen=True)
    assert names_of(POWER, seen=True) == {POWER}


def test_a_machine_without_strace_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that need strace are left out and counted under one line."""
    line = "kernel: no strace: not installed (install it)"
    monkeypatch.setattr(kernel, "missing", lambda: {"strace": line})
    units = tuple(engine.Unit(name, plan="none") for name in (POWER, OVER, "power-loss"))
    told: list[lacking.Lack] = []
    assert lacking.sort_out(units, told.append) == units[2:]
    assert told == [lacking.Lack(line, 2)]
