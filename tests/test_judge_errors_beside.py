"""What the rules about errors leave to other rules, excuse, go on after, and say: case by case."""

from __future__ import annotations

import copy
import errno
from dataclasses import replace

import pytest

from fault_injection.judge import judge
from tests.histories import ROOT, DumpError, Story, failed

STEP = 3


def struck(*steps: int) -> tuple[Story, list[BaseException]]:
    """Dumps whose writes were all struck, with the errors as the fault layer raised them."""
    story = Story("write#1+:ENOSPC")
    errors = []
    for step in steps:
        story.dump(step)
        errors.append(story.strike("write", f"dump/.{step}.tmp"))
    return story, errors


# E1


def test_the_operation_that_was_swallowed_is_named() -> None:
    """Where a write that failed was made good and the sync behind it was not, E1 names the sync."""
    story = Story("write#1:EIO;fsync#1:EIO")
    number = story.dump(STEP)
    story.strike("write", f"dump/.{STEP}.tmp", fault="EIO")
    story.operate("write", f"dump/.{STEP}.tmp")
    story.strike("fsync", f"dump/.{STEP}.tmp", fault="EIO")
    story.put(story.names[number], story.content(number))
    story.drain()
    assert story.accused("E1") == (
        f"EIO at the fsync of dump 1 (step {STEP}) was swallowed: no call ever raised it",
    )


@pytest.mark.parametrize("other", ["before", "of-another-dump"])
def test_only_a_later_sync_of_the_dump_makes_a_failed_one_good(other: str) -> None:
    """A sync that succeeded before, or one of another dump, does not make good the sync that failed."""
    story = Story("fsync#2:EIO")
    number = story.dump(STEP)
    for kind in ("write", "fsync", "write") if other == "before" else ("write",):
        story.operate(kind, f"dump/.{STEP}.tmp")
    story.strike("fsync", f"dump/.{STEP}.tmp", fault="EIO")
    story.put(story.names[number], story.content(number))
    if other == "of-another-dump":
        story.write(story.dump(STEP + 1))
    story.drain()
    assert len(story.accused("E1")) == 1


def test_a_file_without_bytes_loses_none_at_its_close() -> None:
    """Where nothing had been written to a file, that its close failed need not be raised."""
    story = Story("close#1:EIO")
    number = story.dump(STEP)
    story.operate("open", f"dump/.{STEP}.lock")
    story.operate("write", f"dump/.{STEP}.tmp")
    story.strike("close", f"dump/.{STEP}.lock", fault="EIO")
    story.put(story.names[number], story.content(number))
    story.drain()
    assert story.accused("E1") == ()


# E2


def test_what_a_call_has_raised_may_end_the_training() -> None:
    """A failure that a call of dump raises goes on through fit(), which is not to raise it again."""
    story, (error,) = struck(STEP)
    story.dump(STEP + 1, failed(STEP, error))
    story.end("fit", failed(STEP, error))
    assert story.accused("E2") == ()


def test_a_training_that_ended_of_a_failure_does_not_excuse_its_coming_again() -> None:
    """A drain after fit() that raises what a call of dump had raised is accused."""
    story, (error,) = struck(STEP)
    story.dump(STEP + 1, failed(STEP, error))
    story.end("fit", failed(STEP, error))
    story.drain(failed(STEP, error))
    assert len(story.accused("E2")) == 1


def test_a_copy_of_the_original_is_the_same_failure() -> None:
    """An error that was copied on its way, as between processes, tells of the same operation as before."""
    story, (error,) = struck(STEP)
    story.dump(STEP + 1, failed(STEP, error))
    story.drain(failed(STEP, copy.copy(error)))
    (message,) = story.accused("E2")
    assert message.endswith("was raised by the call of dump 2 and again by drain")


@pytest.mark.parametrize("same", [True, False], ids=["object", "text"])
def test_a_call_that_repeats_itself_is_told_from_the_first(same: bool) -> None:
    """Where two calls of one name raise one failure, E2 calls the second the next one."""
    story, (error,) = struck(STEP)
    first = failed(STEP, error)
    story.drain(first)
    story.drain(first if same else DumpError(str(first)))
    (message,) = story.accused("E2")
    text = f"DumpError(dump of step {STEP} to ROOT/dump/{STEP}.jsonl failed)"
    assert message == (
        f"{text} was raised by drain and again by the next drain"
        if same
        else f"the failure that drain raised was told again by the next drain: {text}"
    )


# E4


@pytest.mark.parametrize(
    "raised",
    [
        pytest.param(lambda error: error, id="without-step"),
        pytest.param(lambda _: failed(STEP), id="without-original"),
        pytest.param(lambda _: RuntimeError("dump failed"), id="without-anything"),
    ],
)
def test_what_fit_raises_is_not_asked_for_step_path_and_original(raised: object) -> None:
    """E4 is about the writer's own calls: what comes out of fit() is for the laws of the ways out."""
    story, (error,) = struck(STEP)
    story.end("fit", raised(error))
    assert story.accused("E4") == ()


def test_an_error_without_words_is_shown_by_its_type() -> None:
    """An error that says nothing at all is accused of not naming the step, and shown as such."""
    story, (error,) = struck(STEP)
    wordless = DumpError()
    wordless.__cause__ = error
    story.drain(wordless)
    assert story.accused("E4") == (
        f"the failure of dump 1 (step {STEP}) raised by drain does not name the step: DumpError()",
    )


@pytest.mark.parametrize("case", ["before-the-strike", "in-the-next-run", "made-good", "shown-elsewhere"])
def test_an_error_that_tells_nothing_is_not_held_against_what_it_is_not_of(case: str) -> None:
    """An error without step and original is accused only where it may stand for a failure that nobody was told of."""
    story = Story("mkdir#1:EACCES" if case == "shown-elsewhere" else "write#1:ENOSPC")
    number = story.dump(STEP)
    if case == "before-the-strike":
        story.end("flush", ValueError("no such option"))
    if case == "shown-elsewhere":
        story.dump(STEP + 1, story.strike("mkdir", "dump", fault="EACCES"))
        story.write(number)
        story.dump(STEP + 2)
    else:
        story.strike("write", f"dump/.{STEP}.tmp")
    if case == "made-good":
        story.write(number)
    if case == "in-the-next-run":
        story.drain()
        story.mark("next run")
    story.drain(None if case == "before-the-strike" else ValueError("closed"))
    assert story.accused("E4") == ()


def test_an_error_that_tells_nothing_of_a_strike_of_unknown_owner_is_accused() -> None:
    """Where a file without a step was struck and a dump is lost, an error without both tells of neither."""
    story = Story("write#1:ENOSPC")
    story.dump(STEP)
    story.strike("write", "dump/tmpqwerty")
    story.mark("draining")
    story.drain(RuntimeError("dump failed"))
    (message,) = story.accused("E4")
    assert message.endswith("from which neither the step nor the ENOSPC can be told")


@pytest.mark.parametrize(("mechanism", "wrong"), [("kernel", False), ("disk", True)])
def test_through_the_kernel_a_traceback_ends_in_the_writer(mechanism: str, wrong: bool) -> None:
    """Where the kernel itself refuses the call, no function of a mechanism stands at the end of the traceback."""
    story, _ = struck(STEP)

    def write() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as caught:
        write()
    story.drain(failed(STEP, caught.value))
    found = judge(replace(story.history(), mechanism=mechanism), frozenset({"E4"}))
    assert ["the traceback of the write is gone" in violation.message for violation in found] == [
        True
    ] * wrong


def test_a_copy_of_what_a_worker_died_of_is_an_original() -> None:
    """What a worker died of may be raised as another object of that type with the same traceback."""
    story = Story("write#1:MemoryError")
    story.dump(STEP)
    error = story.strike("write", f"dump/.{STEP}.tmp", fault="MemoryError")
    story.drain(failed(STEP, MemoryError().with_traceback(error.__traceback__)))
    assert story.accused("E4") == ()


def test_an_error_of_something_else_does_not_hide_one_that_tells_too_little() -> None:
    """After an error that is about no dump, the failure of a dump is asked for its path all the same."""
    story = Story("write#1:ENOSPC")
    story.end("open", ValueError("no such option"))
    story.dump(STEP)
    error = DumpError(f"step {STEP} failed")
    error.__cause__ = story.strike("write", f"dump/.{STEP}.tmp")
    story.drain(error)
    assert story.accused("E4") == (
        f"the failure of dump 1 (step {STEP}) raised by drain does not name the path: DumpError(step {STEP} failed)",
    )


def test_a_traceback_that_ends_in_the_fake_file_system_is_that_of_the_write() -> None:
    """In memory the errors of the disk are raised by pyfakefs itself, and their traceback ends there."""
    story, (error,) = struck(STEP)

    def raise_os_error() -> None:
        raise error.with_traceback(None)

    with pytest.raises(OSError, match="No space") as caught:
        raise_os_error()
    story.drain(failed(STEP, caught.value))
    assert story.accused("E4") == ()


# E5


@pytest.mark.parametrize(
    ("path", "silent"),
    [
        pytest.param(f"dump/.{STEP + 1}.tmp", True, id="itself"),
        pytest.param("dump/tmpqwerty", True, id="perhaps-itself"),
        pytest.param(f"dump/.{STEP + 2}.tmp", False, id="another"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_a_batch_that_was_struck_itself_is_not_e5s(path: str, silent: bool) -> None:
    """A missing batch is E5's unless a fault of its own, which other laws ask for, may have cost it."""
    story, (error,) = struck(STEP)
    story.dump(STEP + 1, failed(STEP, error))
    story.dump(STEP + 2)
    if path:
        story.strike("write", path)
    story.drain()
    assert (story.accused("E5") == ()) is silent


@pytest.mark.parametrize("before", ["drain", "kept", "struck"])
def test_a_call_that_is_excused_does_not_hide_another(before: str) -> None:
    """A drain that raised, a batch that was kept, or one that was struck itself, excuses no later call."""
    story, (first, second) = struck(STEP, STEP + 1)
    if before == "drain":
        story.drain(failed(STEP, first))
    else:
        kept = story.dump(STEP + 2, failed(STEP, first))
        if before == "kept":
            story.write(kept)
        else:
            story.strike("write", f"dump/.{STEP + 2}.tmp")
    story.dump(STEP + 3, failed(STEP + 1, second))
    story.drain()
    (message,) = story.accused("E5")
    assert f"(step {STEP + 3}) raised an earlier failure" in message


# E6


class TrainingError(Exception):
    """What training failed of."""


def training(end: BaseException | None = None, *marks: tuple[str, str]) -> Story:
    """A dump that was struck, some turns of the scenario, and the end of fit()."""
    story, _ = struck(STEP)
    for name, text in marks:
        story.mark(name, text)
    story.end("fit", end)
    return story


@pytest.mark.parametrize(
    "mark", [("due", "3"), ("way out", "")], ids=["another-turn", "way-out-without-error"]
)
def test_a_training_without_an_error_has_none_to_keep(mark: tuple[str, str]) -> None:
    """Where nothing but the failed dump went wrong, E6 asks nothing of what comes out of fit()."""
    assert training(None, mark).accused("E6") == ()
    assert training(failed(STEP), mark).accused("E6") == ()


def test_a_training_error_is_asked_for_after_other_turns() -> None:
    """What the scenario did before does not hide that fit() swallowed the training error."""
    story = training(None, ("due", "3"), ("way out", "TrainingError"))
    assert story.accused("E6") == ("fit() swallowed the training error TrainingError",)


@pytest.mark.parametrize("by", ["its-own-call", "a-later-call"])
def test_what_the_caller_was_told_before_need_not_be_attached(by: str) -> None:
    """A failure that a call of dump had raised before the training failed need not be attached to its error."""
    story, (error,) = struck(STEP)
    if by == "its-own-call":
        story.dump(STEP + 1, ValueError("no"))
    story.dump(STEP + 2, failed(STEP, error))
    story.write(2 if by == "its-own-call" else 1)
    story.mark("way out", "TrainingError")
    story.end("fit", TrainingError("loss"))
    assert story.accused("E6") == ()


@pytest.mark.parametrize("more", [False, True], ids=["alone", "beside-a-lost-one"])
def test_other_values_on_disk_are_not_a_failure_found_on_the_way_out(more: bool) -> None:
    """Where prompts and answers are on disk, what became of the scores is judged elsewhere, and hides no lost dump."""
    story = Story("write#2:ENOSPC")
    first = story.dump(STEP)
    story.put(story.names[first], story.content(first).replace(b'"score"', b'"reward"'))
    if more:
        story.dump(STEP + 1)
        story.strike("write", f"dump/.{STEP + 1}.tmp")
    story.mark("way out", "TrainingError")
    story.end("fit", TrainingError("loss"))
    message = f"the failure of dump 2 (step {STEP + 1}), found on the way out, is not attached to the training error"
    assert story.accused("E6") == (message,) * more


# E7


def test_threads_and_a_second_drain_and_the_next_run_are_judged_apart() -> None:
    """A writer that leaves its thread, raises again and does not start clean is accused of all three."""
    story, (error,) = struck(STEP)
    story.drain(failed(STEP, error), left=("worker",))
    story.drain(ValueError("closed"))
    story.mark("next run")
    story.dump(STEP + 1)
    story.drain()
    assert story.accused("E7") == (
        "after drain the writer's thread (worker) lives on",
        "a second drain raised again: ValueError: closed",
        f"the next run did not start clean: dump 2 (step {STEP + 1}) is not on disk",
    )


@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_a_directory_that_was_taken_away_at_first_excuses_the_next_run(before: int) -> None:
    """Where the dump directory was removed, be it at the first operation, the next run need not find it."""
    story = Story("open#1:vanish")
    story.log("begins")
    story.operate("open", "dump", fault="vanish")
    story.events = story.events[1 - before :]
    story.mark("next run")
    story.dump(STEP)
    story.drain()
    assert story.accused("E7") == ()


# E9


def test_a_run_that_never_drains_gives_no_summary() -> None:
    """Where the drain was not reached, a failure that was logged has yet to be counted."""
    story, _ = struck(STEP)
    story.log(f"dump of step {STEP} to {ROOT}/dump failed")
    assert story.accused("E9") == ("drain gave no summary that counts the 1 failed dumps",)
