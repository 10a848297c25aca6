"""The kernel mechanism: what it probes, what it takes, what it strikes, and writers that write in C."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection import cli, engine, lacking
from fault_injection.batches import expected_rows
from fault_injection.docs_mechanisms import mechanisms_page
from fault_injection.fault import CATALOGUE
from fault_injection.history import Ended, Exited, Final, History, Operated, Seen
from fault_injection.judge import judge, relevant
from fault_injection.kernel_child import Course
from fault_injection.kernel_trial import run_in_kernel, run_through
from fault_injection.killing import run_killed
from fault_injection.mechanisms import kernel
from fault_injection.mechanisms.kernel import STAGES, means, missing
from fault_injection.mechanisms.kernel.strace import CannotAimError, Rehearsed, aim
from fault_injection.op import Op
from fault_injection.plan import Plan
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.targets.base import Batch, Target

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel mechanism is one of Linux")
IN_C = "tests.c_writers"


class InPlace(Target):
    """Writes under the final name, within the call, and says what failed."""

    asynchronous = False

    def dump(self, directory: str, batch: Batch) -> None:
        os.makedirs(directory, exist_ok=True)
        with open(f"{directory}/{batch.step}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(row + "\n" for row in expected_rows(batch))


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where the machine lacks a means, and say how to get it."""
    lack = [missing()[name] for name in names if sys.platform == "linux" and name in missing()]
    return pytest.mark.skipif(bool(lack), reason="; ".join(lack) or "it is there")


@pytest.fixture
def scratch() -> Iterator[str]:
    """A directory that another user can pass to."""
    path = tempfile.mkdtemp()
    yield path
    shutil.rmtree(path)


def through(
    location: str, plan: str, scratch: str, stage: str = "", scenario: str = "three-dumps"
) -> History:
    """Run one trial through the kernel."""
    folder = tempfile.mkdtemp(dir=scratch)
    chosen = STAGES[stage] if stage else None
    subject = load_subject(Spec(location))
    return run_in_kernel(subject, SCENARIOS[scenario], Plan.parse(plan), 0, folder, stage=chosen)


def violated(history: History) -> set[str]:
    """The laws that a history breaks."""
    laws = frozenset({"D1", "D2", "D3", "D4", "E1", "E2", "E3", "E4", "E5", "E7"})
    return {violation.law for violation in judge(history, relevant(history, laws))}


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without strace is told so in one line that names the package."""
    monkeypatch.setenv("PATH", "")
    lines = means.missing.__wrapped__()
    assert lines["strace"].startswith("kernel: no strace")
    assert "apt-get install strace" in lines["strace"]
    assert all(line.startswith(f"kernel: no {name}: ") and "\n" not in line for name, line in lines.items())


def test_what_watches_the_exit_of_a_process_does_not_hold_the_attempts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Coverage tools write and remove files at os._exit, which a child whose calls nobody answers must not come to."""
    usual, leave = means.missing.__wrapped__(), os._exit

    def watched(code: int) -> None:
        (tmp_path / "measured").write_text("")
        leave(code)

    monkeypatch.setattr(os, "_exit", watched)
    assert means.missing.__wrapped__() == usual


def test_a_means_that_does_not_work_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A means counts as there only when the attempt to use it has worked."""

    def refused() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(means.system, "private_mounts", refused)
    assert "Operation not permitted" in means.missing.__wrapped__()["mounts"]


@pytest.mark.parametrize(
    ("plan", "stage"),
    [
        ("bytes>8192:ENOSPC", "tmpfs"),
        ("bytes>100:ENOSPC", "calls"),
        ("bytes>100:EFBIG", "limit"),
        ("dump/1.jsonl@write#1+:ENOSPC", "full"),
        ("open#1+:EROFS", "read-only"),
        ("mkdir#1+:EPERM", "immutable"),
        ("open#1+:EACCES", "user"),
        ("open#1+:EMFILE", "descriptors"),
        ("open#2:EMFILE", "calls"),
        ("any#7:kill", "calls"),
        ("none", "calls"),
    ],
)
def test_a_plan_goes_to_the_first_stage_that_can_make_it_real(plan: str, stage: str) -> None:
    """A state of the system is preferred to the answer of a call, and only where it means what the plan says."""
    chosen = kernel.stage_for(Plan.parse(plan))
    assert chosen is STAGES[stage]
    assert kernel.supports(Plan.parse(plan)) == ""


@pytest.mark.parametrize("plan", ["write#1:stuck", "fsync#1:lost", "flush#1:EIO", "thread#1:RuntimeError"])
def test_a_plan_beyond_the_kernel_is_refused_in_one_line(plan: str) -> None:
    """What no system call can be is named in one line."""
    assert len(kernel.supports(Plan.parse(plan)).splitlines()) == 1


def test_no_stage_claims_a_fault_where_the_catalogue_has_none() -> None:
    """Each stage lists operations to which its faults apply."""
    for stage in STAGES.values():
        assert set(stage.needs) <= set(means.MEANS)
        for name, ops in stage.faults.items():
            assert set(ops) <= CATALOGUE[name].ops


@pytest.mark.parametrize(
    ("plan", "number"),
    [("open#1+:EACCES", 13), ("open#1+:EMFILE", 24), ("bytes>4000:EFBIG", 27)],
    ids=["another-user", "no-descriptor", "size-limit"],
)
def test_a_real_error_is_noted_at_its_operation(plan: str, number: int, scratch: str) -> None:
    """What the kernel refused is an operation with its errno in the history, and the exception shows which it was."""
    history = through(DEFAULT, plan, scratch)
    struck = [event for event in history.of(Operated) if event.errno]
    assert {event.errno for event in struck} == {number}
    assert len(struck) == history.fired
    links = [link for ended in history.of(Ended) if ended.failure for link in ended.failure.links]
    assert {link.strike for link in links} - {None} == {event.number for event in struck}
    assert violated(history) == set()


def test_a_full_device_behind_the_final_name_fails_at_close_without_a_name(scratch: str) -> None:
    """A small dump to /dev/full fails when its buffer is written, and the error names neither file nor step."""
    history = through(f"{__name__}:InPlace", "dump/7000001.jsonl@write#1+:ENOSPC", scratch)
    failure = next(ended.failure for ended in history.of(Ended) if ended.failure)
    assert failure.links[0].errno == 28
    assert "7000001" not in failure.words
    struck = {(event.op.path, event.errno) for event in history.of(Operated) if event.errno}
    assert struck == {("dump/7000001.jsonl", 28)}


@needs("seccomp")
def test_every_state_of_a_file_is_seen_through_the_kernel(scratch: str) -> None:
    """A writer that fills its final file in place is seen half-way, whatever language it writes in."""
    for location in (f"{__name__}:InPlace", f"{IN_C}:ClibInPlace"):
        history = through(location, "none", scratch)
        assert violated(history) == {"D2"}
        assert sum(1 for _ in history.of(Seen)) > 3


@needs("seccomp")
@pytest.mark.parametrize(
    "plan", ["none", "write#2:EIO", "fsync#1+:EIO", "rename#2:ENOSPC", "mkdir#1+:EACCES", "write#1+:short(7)"]
)
def test_a_correct_writer_in_c_is_not_accused(plan: str, scratch: str) -> None:
    """The calls that the C library makes are struck, told of and judged as Python's are."""
    history = through(f"{IN_C}:ClibWriter", plan, scratch)
    assert bool(history.fired) == (plan != "none")
    assert violated(history) == set()
    assert {event.op.kind for event in history.of(Operated)} >= {"mkdir"}


@needs("seccomp")
def test_a_writer_in_c_that_looks_at_no_answer_is_caught(scratch: str) -> None:
    """A failed write that C code swallows is a dump that is lost without a word."""
    assert {"D2", "E1"} <= violated(through(f"{IN_C}:ClibInPlace", "write#2:EIO", scratch))


@needs("seccomp")
def test_a_writer_unseen_by_the_layer_is_sent_to_the_kernel() -> None:
    """A run of the contract on a writer in C uses the kernel mechanism, and finds what is wrong."""
    spec = Spec(f"{IN_C}:ClibInPlace")
    scenario = "same-step-through-the-kernel"
    verdicts = engine.check(spec, load_subject(spec), laws=frozenset({"D2"}), scenario=scenario).verdicts
    assert [(verdict.law, verdict.status) for verdict in verdicts] == [("D2", "violated")]


@needs("seccomp")
def test_a_full_disk_tears_what_is_written_in_place(scratch: str) -> None:
    """A file system that is truly full leaves a torn file under the final name of a writer that writes there."""
    assert {"D2", "D3"} <= violated(
        through("tests.zoo.broken_data:WritesInPlace", "bytes>4096:ENOSPC", scratch)
    )


@needs("mounts")
@pytest.mark.skipif(
    "VERL_DUMP_WHEELS" not in os.environ, reason="set VERL_DUMP_WHEELS to a folder with verl's wheels"
)
@pytest.mark.parametrize(
    ("scenario", "plan"), [("three-dumps", "bytes>4096:ENOSPC"), ("killed-by-the-kernel", "write#1:torn")]
)
def test_verl_breaks_its_promises_through_the_kernel(scenario: str, plan: str, scratch: str) -> None:
    """A file system that is truly full, and a kill at a system call, leave torn files of verl's own writer."""
    wheel = next(Path(os.environ["VERL_DUMP_WHEELS"]).glob("verl-0.9.1-*.whl"))
    subject = load_subject(Spec(str(wheel), source=True, class_name="RayPPOTrainer"))
    folder, chosen = tempfile.mkdtemp(dir=scratch), SCENARIOS[scenario]
    run = run_killed if chosen.place == "fork" else run_in_kernel
    assert {"D2", "D3"} <= violated(run(subject, chosen, Plan.parse(plan), 0, folder))


@needs("strace")
@pytest.mark.parametrize("plan", ["rename#2:EIO", "fsync#1:slow(1ms)", "write#1:EDQUOT"])
def test_strace_strikes_where_the_plan_says(plan: str, scratch: str) -> None:
    """What strace injects is struck once, at the operation of the plan."""
    history = through(DEFAULT, plan, scratch, "strace")
    assert history.fired == 1
    assert violated(history) == set()


@needs("strace")
def test_strace_kills_at_an_operation(scratch: str) -> None:
    """A process that strace kills before a rename leaves the temporary file, and dies of SIGKILL."""
    course = Course(
        STAGES["strace"], load_subject(Spec(DEFAULT)), SCENARIOS["killed"], Plan.parse("rename#1:kill"), 0,
        tempfile.mkdtemp(dir=scratch),
    )  # fmt: skip
    done = run_through(course)
    (final,) = (event for event in done.events if isinstance(event, Final))
    assert done.code == -9
    assert [event.code for event in done.events if isinstance(event, Exited)] == [-9]
    assert [name.rpartition(".")[2] for name, _ in final.files] == ["tmp"]


OPS = (
    Op("mkdir", "dump", caller=True),
    Op("open", "dump/1.jsonl.77.tmp"),
    Op("write", "dump/1.jsonl.77.tmp"),
    Op("write", "dump/1.jsonl.77.tmp"),
    Op("write", "dump/2.jsonl.77.tmp"),
    Op("write", "dump/2.jsonl.77.tmp", caller=True),
)


@pytest.mark.parametrize(
    ("plan", "paths", "when"),
    [
        ("mkdir#1:EIO", ("dump",), "1"),
        ("write#2:EIO", ("dump/1.jsonl.5.tmp",), "2"),
        ("write#1..2:EIO", ("dump/1.jsonl.5.tmp",), "1..2"),
        ("write#1+:EIO", ("dump/1.jsonl.5.tmp", "dump/2.jsonl.5.tmp"), "1+"),
    ],
    ids=["first", "second", "range", "persistent"],
)
def test_strace_aims_at_a_path_and_a_count(plan: str, paths: tuple[str, ...], when: str) -> None:
    """A plan becomes the names, with the new process in them, and the count that strace understands."""
    aimed = aim(Plan.parse(plan).rules[0], Rehearsed(77, OPS), 5)
    assert aimed is not None
    assert (aimed.paths, aimed.when) == (paths, when)


def test_strace_aims_at_nothing_it_cannot_tell_apart() -> None:
    """Where two threads write one file, a count of each by itself means something else than the plan."""
    with pytest.raises(CannotAimError, match="cannot tell"):
        aim(Plan.parse("write#3:EIO").rules[0], Rehearsed(77, OPS), 5)
    assert aim(Plan.parse("write#9:EIO").rules[0], Rehearsed(77, OPS), 5) is None


def test_what_is_lacking_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units whose means are not there are left out, and one line says how many; the others stay."""
    line = "kernel: no mounts: not permitted (run as root)"
    monkeypatch.setattr(kernel, "missing", lambda: {"mounts": line})
    name = "three-dumps-through-the-kernel"
    units = tuple(Unit(name, plan=plan) for plan in ("none", "open#1+:EROFS", "mkdir#1+:EROFS"))
    lacks: list[lacking.Lack] = []
    kept = lacking.sort_out((*units, Unit("three-dumps", plan="none")), lacks.append)
    assert [unit.plan for unit in kept] == ["none", "none"]
    assert [str(lack) for lack in lacks] == [f"{line}; 2 units left out"]


def test_strict_fails_where_a_part_was_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--strict` a run that left something out ends with 1 and says why; without it, it ends well."""
    line = "kernel: no seccomp: not permitted (allow it)"
    monkeypatch.setattr(kernel, "missing", lambda: {"seccomp": line})
    arguments = ["check", "-q", "--scenario", "same-step-through-the-kernel"]
    codes = [cli.main([*arguments, *more]) for more in ([], ["--strict"])]
    said = capsys.readouterr().err
    assert codes == [0, 1]
    assert said.count(line) == 2
    assert "--strict: a part of the run was left out" in said


def test_the_page_of_the_mechanisms_names_every_fault_and_stage() -> None:
    """The page has a row for each fault of the catalogue, each stage and each means."""
    page = mechanisms_page()
    for name in (*CATALOGUE, *STAGES, *means.MEANS):
        assert f"\n| {name} | " in page
