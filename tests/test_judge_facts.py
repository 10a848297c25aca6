"""What the judge takes a history for: what struck, what a kill left, who owns an operation, what an error is about."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from fault_injection.history import HandedOver, History, Hung, Seen
from fault_injection.judge import judge
from tests.histories import DumpError, Story, failed

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

STEP = 7_000_001
TEMP = f"dump/.{STEP}.tmp"


def test_a_history_that_was_cut_short_is_judged() -> None:
    """Where a call never ended there is no last look at the files, and nothing is on disk."""
    events = (HandedOver(0, STEP, "dump", ("{}",)), Hung("drain"))
    found = judge(History("told", "none", "disk", 0, events, complete=False), frozenset({"Q5"}))
    assert [violation.message for violation in found] == [
        f"dump 1 (step {STEP}), handed over after a drain, was accepted and is not on disk"
    ]


# What struck


@pytest.mark.parametrize(
    ("kind", "fault", "mechanism", "fails"),
    [
        pytest.param("write", "EINTR", "disk", False, id="tried-again-by-python"),
        pytest.param("write", "EINTR", "kernel", True, id="seen-again-through-the-kernel"),
        pytest.param("rename", "EINTR", "disk", True, id="not-tried-again"),
        pytest.param("write", "EIO", "disk", True, id="another-error"),
    ],
)
def test_what_python_tries_again_has_not_failed(kind: str, fault: str, mechanism: str, fails: bool) -> None:
    """An interrupted call that Python repeats costs no dump, so a dump that is missing then is held against the writer."""
    story = Story(f"{kind}#1:{fault}")
    story.dump(STEP)
    story.strike(kind, TEMP, fault=fault)
    story.drain()
    found = judge(replace(story.history(), mechanism=mechanism), frozenset({"D4"}))
    assert (found == ()) is fails


def test_a_write_that_took_some_bytes_has_not_failed() -> None:
    """On a disk that is nearly full a write that is told its room has succeeded in part; the next one fails."""
    for room, fails in ((7, False), (0, True)):
        story = Story("bytes>100:ENOSPC")
        story.dump(STEP)
        story.operate("write", TEMP, fault="ENOSPC", room=room)
        story.drain()
        assert (story.accused("D4") == ()) is fails


# Kills


class Killed(Story):
    """The history of a process that is killed, and of the next run."""

    def kill(self) -> None:
        """The process is found dead, with these files, and the next run begins."""
        self.exit(-9)
        if self.files:
            self.events.append(Seen(0, tuple(sorted(self.files.items()))))
        self.mark("killed")
        self.mark("new run")

    def settle(self) -> None:
        """The next run works."""
        self.write(self.dump(STEP + 9))
        self.drain()


@pytest.mark.parametrize(
    "case",
    [
        "kept",
        "replaced",
        "not-drained",
        "drain-raised",
        "call-raised",
        "told-later",
        "drained-after-it-raised",
    ],
)
def test_what_a_kill_may_take_is_not_held_against_the_writer(case: str) -> None:
    """A kill takes no dump that was drained without error; what raised, or was not drained, it may take."""
    story = Killed("any#9:kill")
    number = story.dump(STEP, ValueError("no") if case == "call-raised" else None)
    if case in {"kept", "replaced"}:
        story.write(number)
    if case == "replaced":
        story.write(story.dump(STEP))
    if case == "told-later":
        story.write(story.dump(STEP + 1, failed(STEP)))
    if case != "not-drained":
        raised = {"drain-raised": failed(STEP), "drained-after-it-raised": ValueError("no")}
        story.drain(raised.get(case))
    if case == "drained-after-it-raised":
        story.drain()
    story.kill()
    story.settle()
    assert story.accused("D1") == ()


@pytest.mark.parametrize("case", ["gone", "never-seen", "torn", "an-earlier-one", "of-an-earlier-run"])
def test_what_was_drained_without_error_outlives_a_kill(case: str) -> None:
    """After a kill a dump that a drain had acknowledged is on disk as it was, or D1 is violated."""
    story = Killed("any#9:kill")
    if case == "an-earlier-one":
        story.write(story.dump(STEP))
        story.drain()
        story.mark("new run")
    number = story.dump(STEP)
    if case != "never-seen":
        story.write(number)
    story.drain()
    if case == "of-an-earlier-run":
        story.kill()
    content = {"torn": story.content(number)[:-1], "an-earlier-one": story.content(0)}.get(case)
    if case != "never-seen":
        story.put(story.names[number], content)
    story.kill()
    story.settle()
    message = f"dump {number + 1} (step {STEP}) was drained without error before the kill, and is not on disk after it"
    assert story.accused("D1") == ((message,) if case != "of-an-earlier-run" else ())


@pytest.mark.parametrize("case", ["raises", "loses"])
def test_the_next_run_works_over_what_a_kill_has_left(case: str) -> None:
    """A run after a kill that raises, or whose dump is not on disk, violates D1."""
    story = Killed("any#9:kill")
    story.end("flush", ValueError("before the kill"))
    story.dump(STEP)
    story.kill()
    if case == "raises":
        story.write(story.dump(STEP + 1))
        story.drain(FileExistsError("of the killed run"))
        said = "drain raised FileExistsError: of the killed run"
    else:
        story.dump(STEP + 1)
        story.drain()
        said = f"there is no dump/{STEP + 1}.jsonl"
    assert story.accused("D1") == (f"the next run over what the kill had left does not work: {said}",)


@pytest.mark.parametrize("drained", [False, True], ids=["pending", "drained"])
def test_of_two_dumps_of_a_step_a_kill_may_take_those_it_was_pending_with(drained: bool) -> None:
    """Two dumps of one step that died with the process are lost to the kill, but not one that was drained before."""
    story = Killed("any#9:kill")
    story.write(story.dump(STEP))
    if drained:
        story.drain()
    story.write(story.dump(STEP))
    story.kill()
    story.settle()
    assert bool(story.accused("D6")) is drained


# What was there before


def test_what_was_seen_once_is_there_until_it_is_seen_to_be_gone() -> None:
    """A look tells only what has changed: a dump that was on disk need not be named at a deadline, others seen since."""
    story = Story("write#3:stuck")
    for step in (STEP, STEP + 1):
        story.write(story.dump(step))
    number = story.dump(STEP + 2)
    story.end("drain-deadline", TimeoutError(f"step {STEP + 2} is not on disk"))
    story.write(number)
    story.drain()
    assert story.accused("Q3") == ()


def test_a_dump_of_no_rows_is_pending_until_its_file_is_there() -> None:
    """A drain that returns at its deadline without the file of an empty dump violates Q3."""
    for written in (False, True):
        story = Story("open#1:stuck")
        number = story.dump(STEP, rows=0)
        if written:
            story.write(number)
        story.end("drain-deadline")
        message = "drain returned at its deadline as if all were well, with 1 dump not on disk"
        assert story.accused("Q3") == ((message,) if not written else ())


@pytest.mark.parametrize("fault", ["vanish", "replace"])
@pytest.mark.parametrize(
    ("opened", "renames", "lost"),
    [
        pytest.param("before", False, False, id="open-then"),
        pytest.param("before", True, True, id="open-then-but-renamed-later"),
        pytest.param("at", False, True, id="opened-just-then"),
        pytest.param("after", False, True, id="opened-later"),
        pytest.param("never", False, True, id="never-opened"),
        pytest.param("written", True, False, id="on-disk-then"),
    ],
)
def test_what_was_taken_away_from_outside_is_not_lost(
    fault: str, opened: str, renames: bool, lost: bool
) -> None:
    """A file that was there, or open, when its directory was removed is not the writer's to tell of; others are."""
    story = Story(f"write#1:{fault}")
    number = story.dump(STEP)
    if opened == "written":
        story.write(number)
    if opened == "before":
        story.operate("open", TEMP)
    story.operate("open" if opened == "at" else "write", TEMP, fault=fault)
    story.put(story.names[number], None)
    if opened == "after":
        story.operate("open", TEMP)
    if renames:
        story.operate("rename", TEMP, story.names[number])
    story.drain()
    assert (story.accused("E1") != ()) is lost


# Owners


def test_an_operation_before_a_dump_is_handed_over_is_none_of_its() -> None:
    """A sync of a leftover that failed before a dump of that step began is not a failure of the dump."""
    story = Story("fsync#1:EIO")
    story.operate("write", TEMP)
    story.strike("fsync", TEMP, fault="EIO")
    number = story.dump(STEP)
    story.put(story.names[number], story.content(number))
    story.drain()
    assert story.accused("E1") == ()


@pytest.mark.parametrize("kind", ["rename", "link"])
def test_a_file_belongs_to_the_dump_whose_name_it_gets(kind: str) -> None:
    """A file of a random name is that of the dump as which it is published, be it by a second name."""
    story = Story("fsync#1:EIO")
    number = story.dump(STEP)
    story.dump(STEP + 1)
    story.operate("write", "dump/tmpqwerty")
    story.strike("fsync", "dump/tmpqwerty", fault="EIO")
    story.operate(kind, "dump/tmpqwerty", story.names[number])
    story.put(story.names[number], story.content(number))
    story.put(story.names[1], story.content(1))
    story.drain()
    assert story.accused("E1") == (
        f"EIO at the fsync of dump 1 (step {STEP}) was swallowed: no call ever raised it",
    )


def test_a_rename_belongs_to_the_dump_of_its_new_name() -> None:
    """A rename of a random name that failed was the dump's whose name it was to get, and costs no other."""
    story = Story("rename#1:EIO")
    number = story.dump(STEP)
    story.dump(STEP + 1)
    story.strike("rename", "dump/tmpqwerty", story.names[number], fault="EIO")
    story.write(number)
    story.drain()
    assert story.accused("D4") == (
        f"dump 2 (step {STEP + 1}) is missing, though only other dumps' operations failed",
    )


def test_a_write_that_is_tried_again_belongs_to_the_dump_that_the_file_becomes() -> None:
    """A file of a random name whose first write failed was the dump's as which it is published, and costs no other."""
    story = Story("write#1:EIO")
    number = story.dump(STEP)
    story.dump(STEP + 1)
    story.operate("open", "dump/tmpqwerty")
    story.strike("write", "dump/tmpqwerty", fault="EIO")
    story.operate("write", "dump/tmpqwerty")
    story.operate("rename", "dump/tmpqwerty", story.names[number])
    story.put(story.names[number], story.content(number))
    story.drain()
    assert story.accused("D4") == (
        f"dump 2 (step {STEP + 1}) is missing, though only other dumps' operations failed",
    )


# What an error is about


@pytest.mark.parametrize(
    ("kind", "paths"),
    [("write", (TEMP, f"dump/.{STEP + 1}.tmp")), ("mkdir", ("dump", "dump"))],
    ids=["of-each-dump", "of-no-dump"],
)
def test_originals_that_come_together_account_for_a_dump_each(kind: str, paths: tuple[str, str]) -> None:
    """Of two dumps both are told of by a group of the two errors, whether or not their paths show the step."""
    story = Story(f"{kind}#1+:EIO")
    story.dump(STEP)
    story.dump(STEP + 1)
    story.drain(ExceptionGroup("two", [story.strike(kind, path, fault="EIO") for path in paths]))
    assert story.accused("E3") == ()


def test_an_interrupted_call_that_is_raised_all_the_same_accounts_for_its_dump() -> None:
    """A writer that does not let Python try again, and raises what interrupted it, has told of the dump."""
    story = Story("write#1:EINTR;write#2:EIO")
    story.dump(STEP)
    error = story.strike("write", TEMP, fault="EINTR")
    story.strike("write", TEMP, fault="EIO")
    story.drain(error)
    assert story.accused("E1") == ()


def test_what_a_call_says_of_its_own_step_is_about_its_own_dump() -> None:
    """An error of a dump's own call that names its step is asked for the path as any other."""
    story = Story("write#1:EIO")
    number = story.hand_over(STEP)
    error = DumpError(f"step {STEP} failed")
    error.__cause__ = story.strike("write", "dump/tmpqwerty", fault="EIO")
    story.end("dump", error, number)
    story.drain()
    (message,) = story.accused("E4")
    assert message.startswith(
        f"the failure of dump 1 (step {STEP}) raised by the call of dump 1 does not name the path"
    )


@pytest.mark.parametrize(("step", "told"), [(STEP + 1, True), (STEP, False)], ids=["its-own", "the-other"])
def test_an_error_that_names_two_steps_is_about_the_one_that_it_carries(step: int, told: bool) -> None:
    """Where a call's error names its own step beside another's, its attribute tells whether its own dump failed."""
    story = Story("write#1+:EIO")
    story.dump(STEP)
    error = DumpError(f"step {STEP} failed, and so did step {STEP + 1}")
    error.step = step
    story.dump(STEP + 1, error)
    story.drain()
    message = f"dump 2 (step {STEP + 1}) is not on disk, and no call ever raised the failure"
    assert story.accused("E3") == ((message,) if not told else ())


def test_an_error_without_a_name_accounts_for_the_first_dump_only() -> None:
    """Of two lost dumps an error of drain that names none tells of the first."""
    story = Story("write#1+:EIO")
    story.dump(STEP)
    story.dump(STEP + 1)
    story.drain(ValueError("dumps failed"))
    (message,) = story.accused("E3")
    assert message.startswith(f"dump 2 (step {STEP + 1}) is not on disk")


def test_one_original_accounts_for_one_dump_however_often_it_comes() -> None:
    """An error of a directory that is raised twice tells of one lost dump, not of two."""
    story = Story("mkdir#1:EIO")
    story.dump(STEP)
    error = story.strike("mkdir", "dump", fault="EIO")
    story.dump(STEP + 1)
    story.end("flush", error)
    story.drain(error)
    (message,) = story.accused("E3")
    assert message.startswith(f"dump 2 (step {STEP + 1}) is not on disk")
