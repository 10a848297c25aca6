"""The judge of group E accuses every smallest violation and no correct writer."""

from __future__ import annotations

import errno
import os
import re
import sys

import pytest

from fault_injection.history import Hung, Logged
from fault_injection.judge import RULES, Violation, judge, relevant
from fault_injection.ways import WAYS
from tests.histories import ROOT, DumpError, Story, failed, refused

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

STEP = 7_000_001
TEMP = f"dump/.{STEP}.tmp"


def one_failure(plan: str = "write#1:ENOSPC", **strike: str) -> tuple[Story, BaseException]:
    """One dump whose write was struck; the error as the fault layer raised it."""
    story = Story(plan)
    story.dump(STEP)
    return story, story.strike("write", TEMP, **strike)


# E1 and E3


@pytest.mark.parametrize("when", ["by-drain", "by-the-next-dump", "by-its-own-call"])
def test_a_failure_that_is_raised_in_time_is_not_accused(when: str) -> None:
    """A failure may come from drain, from the next dump, or from the dump's own call."""
    story = Story("write#1:ENOSPC")
    if when == "by-its-own-call":
        number = story.hand_over(STEP)
        story.end("dump", failed(STEP, story.strike("write", TEMP)), number)
        story.drain()
    else:
        story.dump(STEP)
        error = failed(STEP, story.strike("write", TEMP))
        story.write(story.dump(STEP + 1, error if when == "by-the-next-dump" else None))
        story.drain(error if when == "by-drain" else None)
    for law in ("E1", "E2", "E3", "E4", "E5", "E7"):
        assert story.accused(law) == ()


def test_a_lost_dump_that_nobody_is_told_of_is_accused() -> None:
    """A failed dump that no call raises violates E1."""
    story, _ = one_failure()
    story.drain()
    assert story.accused("E1") == (
        f"dump 1 (step {STEP}) is not on disk, and no call ever raised the failure",
    )
    assert story.accused("E3") == story.accused("E4") == ()


def test_lost_dumps_that_nobody_is_told_of_are_all_named() -> None:
    """Of several failed dumps that no call raises, E3 names each."""
    story, _ = _two_failures()
    story.drain()
    assert story.accused("E3") == (
        f"dump 1 (step {STEP}), dump 2 (step {STEP + 1}) are not on disk, and no call ever raised the failure",
    )
    assert story.accused("E1") == ()


@pytest.mark.parametrize(
    "raised",
    [
        pytest.param(lambda error: error, id="itself"),
        pytest.param(lambda error: failed(STEP, error), id="wrapped"),
        pytest.param(lambda error: RuntimeError(f"step {STEP}: {error}"), id="as-text"),
        pytest.param(lambda error: ExceptionGroup("failed", [failed(STEP, error)]), id="in-a-group"),
        pytest.param(lambda _: KeyError(f"{STEP}"), id="another-type"),
    ],
)
def test_e1_takes_a_failure_in_any_wrapping(raised: object) -> None:
    """E1 asks whether the failure was raised, not how it was wrapped."""
    story, error = one_failure()
    story.drain(raised(error))
    assert story.accused("E1") == ()


@pytest.mark.parametrize(
    "joined",
    [
        pytest.param(lambda a, b: ExceptionGroup("two", [a, b]), id="group"),
        pytest.param(lambda a, b: ExceptionGroup("two", [a, ExceptionGroup("one", [b])]), id="nested-group"),
        pytest.param(lambda a, b: _chained(a, cause=b), id="cause"),
        pytest.param(lambda a, b: _chained(a, context=b), id="context"),
    ],
)
def test_several_failures_may_be_joined_in_any_way(joined: object) -> None:
    """Of several failed dumps each is reachable, by group, cause or context."""
    story, errors = _two_failures()
    story.drain(joined(*(failed(STEP + i, error) for i, error in enumerate(errors))))
    for law in ("E1", "E2", "E3", "E4"):
        assert story.accused(law) == ()


def test_a_second_failure_that_is_hidden_is_accused() -> None:
    """Of two failed dumps one is raised and the other hidden from the user: E3, not E1."""
    for hide in ("dropped", "context-suppressed"):
        story, (first, second) = _two_failures()
        error = failed(STEP, first)
        if hide == "context-suppressed":
            error.__context__ = failed(STEP + 1, second)
        story.drain(error)
        assert story.accused("E3") == (
            f"dump 2 (step {STEP + 1}) is not on disk, and no call ever raised the failure",
        )
        assert story.accused("E1") == ()


@pytest.mark.parametrize("kind", ["fsync", "close"])
def test_a_swallowed_failure_is_accused_though_the_file_can_be_read(kind: str) -> None:
    """A failed fsync or close that nobody is told of violates E1, wherever the bytes seem to be."""
    for temp in (TEMP, "dump/tmpq1w2e3"):
        story = Story(f"{kind}#1:EIO")
        number = story.dump(STEP)
        story.operate("open", temp)
        story.operate("write", temp)
        story.strike(kind, temp, fault="EIO")
        story.operate("rename", temp, story.names[number])
        story.put(story.names[number], story.content(number))
        story.drain()
        assert story.accused("E1") == (
            f"EIO at the {kind} of dump 1 (step {STEP}) was swallowed: no call ever raised it",
        )


def test_a_failed_sync_that_is_raised_is_not_accused_though_the_file_can_be_read() -> None:
    """To raise the failure of a dump whose bytes are there for now is right."""
    story = Story("fsync#1:EIO")
    number = story.dump(STEP)
    story.operate("write", TEMP)
    error = story.strike("fsync", TEMP, fault="EIO")
    story.put(story.names[number], story.content(number))
    story.drain(failed(STEP, error))
    for law in ("D3", "D4", "E1", "E2", "E3", "E4"):
        assert story.accused(law) == ()


@pytest.mark.parametrize("kind", ["write", "flush", "fsync", "close", "rename"])
@pytest.mark.parametrize(
    "temp", [TEMP, f"dump/.{STEP}.tmp-2", "dump/tmpz9y8x7"], ids=["same", "other", "random"]
)
def test_a_second_try_that_succeeds_makes_a_failure_good(kind: str, temp: str) -> None:
    """A writer that tries again and succeeds need not raise, whatever the file of its second try is called."""
    story = Story(f"{kind}#1:EIO")
    number = story.dump(STEP)
    story.operate("open", TEMP)
    story.operate("write", TEMP)
    story.strike(kind, TEMP, story.names[number] if kind == "rename" else "", fault="EIO")
    story.write(number, temp=temp)
    story.drain()
    for law in ("E1", "E3", "D4"):
        assert story.accused(law) == ()


def test_a_rename_that_failed_and_was_replaced_by_a_copy_is_made_good() -> None:
    """Where the file is whole under its final name, a failed rename has lost nothing."""
    story = Story("rename#1+:EIO")
    number = story.dump(STEP)
    story.operate("write", TEMP)
    story.strike("rename", TEMP, story.names[number], fault="EIO")
    story.operate("write", story.names[number])
    story.put(story.names[number], story.content(number))
    story.drain()
    assert story.accused("E1") == ()


def test_a_temporary_name_that_is_used_again_belongs_to_the_dump_that_used_it() -> None:
    """The failure at a fixed temporary name is not charged to the next dump, which opens that name anew."""
    story = Story("close#1:EIO")
    first, second = story.dump(STEP), story.dump(STEP + 1)
    story.operate("write", "dump/.current")
    error = story.strike("close", "dump/.current", fault="EIO")
    story.write(second, temp="dump/.current")
    story.drain(failed(STEP, error))
    assert first == 0
    for law in ("E1", "E2", "E3", "E4", "D4"):
        assert story.accused(law) == ()


def test_failures_at_paths_without_a_step_account_for_one_dump_each() -> None:
    """An error of mkdir shows no step: it accounts for one lost dump, and not for two."""
    story = Story("mkdir#1:EACCES")
    story.dump(STEP, story.strike("mkdir", "dump", fault="EACCES"))
    assert story.accused("E1") == ()
    story.dump(STEP + 1)
    story.drain()
    assert story.accused("E3") == (
        f"dump 2 (step {STEP + 1}) is not on disk, and no call ever raised the failure",
    )


def test_a_nameless_error_accounts_for_the_dump_of_its_own_call() -> None:
    """Of two lost dumps the one whose call raised is told of, and the other is accused."""
    story = Story("write#1+:ENOSPC")
    story.dump(STEP)
    story.dump(STEP + 1, ValueError("closed"))
    story.drain()
    assert story.accused("E3")[0].startswith(f"dump 1 (step {STEP}) is not on disk")


# E2


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(lambda first, _: first, id="same-object"),
        pytest.param(lambda first, _: failed(STEP + 1, first), id="as-cause"),
        pytest.param(lambda _, cause: failed(STEP, cause), id="same-original-wrapped-anew"),
        pytest.param(lambda first, _: ExceptionGroup("again", [first]), id="in-a-group"),
        pytest.param(lambda first, _: RuntimeError(str(first)), id="as-text"),
    ],
)
def test_a_failure_that_comes_again_is_accused(again: object) -> None:
    """A failure that was raised once and reaches the caller again, in whatever wrapping, violates E2."""
    story, cause = one_failure()
    first = failed(STEP, cause)
    story.write(story.dump(STEP + 1, first))
    story.drain(again(first, cause))
    (message,) = story.accused("E2")
    assert re.search(r"the call of dump 2 (raised was told|and) again by drain", message)


def test_two_failures_of_one_type_and_text_are_two() -> None:
    """Different exceptions with the same type and words are different failures."""
    story, (first, second) = _two_failures()
    story.dump(STEP + 2, first)
    story.drain(second)
    assert str(first) == str(second)
    assert story.accused("E2") == ()


def test_naming_an_earlier_failure_beside_a_new_one_is_not_raising_it_again() -> None:
    """An error of a new failure may mention an old one in its words."""
    story, (first, second) = _two_failures()
    story.dump(STEP + 2, failed(STEP, first))
    error = failed(STEP + 1, second)
    error.args = (f"{error} (as did step {STEP})",)
    story.drain(error)
    assert story.accused("E2") == ()


@pytest.mark.parametrize("kept", [True, False], ids=["with-original", "alone"])
def test_a_step_named_as_pending_may_fail_afterwards(kept: bool) -> None:
    """What a deadline named as not yet on disk is no failure raised before."""
    story = Story("write#1:stuck;write#2:EIO")
    story.dump(STEP)
    story.end("drain-deadline", TimeoutError(f"step {STEP} is not on disk"))
    error = story.strike("write", TEMP, fault="EIO")
    story.drain(failed(STEP, error if kept else None))
    assert story.accused("E2") == ()


def test_two_dumps_of_one_step_may_each_fail() -> None:
    """Two failures of one step are two when the step was dumped twice, and one too many when three are raised."""
    story = Story("write#1+:EIO")
    story.dump(STEP)
    story.dump(STEP, DumpError(f"step {STEP} to {ROOT}/dump failed"))
    story.drain(DumpError(f"step {STEP} to {ROOT}/dump failed"))
    assert story.accused("E2") == ()
    story.drain(DumpError(f"step {STEP} to {ROOT}/dump failed"))
    assert len(story.accused("E2")) == 1


# E4


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda e: _from(DumpError(f"step {STEP}, {ROOT}/dump/{STEP}.jsonl"), e), id="message"),
        pytest.param(
            lambda e: _noted(_from(DumpError("failed"), e), f"step {STEP} in {ROOT}/dump"), id="note"
        ),
        pytest.param(lambda e: _noted(e, f"dump/{STEP}.jsonl"), id="note-on-the-original"),
        pytest.param(
            lambda e: _with(_from(DumpError("failed"), e), step=STEP, path=f"{ROOT}/dump"), id="attributes"
        ),
        pytest.param(lambda e: _with(e, filename=f"{ROOT}/dump/{STEP}.jsonl"), id="filename"),
        pytest.param(
            lambda e: _from(DumpError(f"in {ROOT}/dump"), _from(DumpError(f"{STEP}"), e)), id="chain"
        ),
        pytest.param(lambda e: ExceptionGroup(f"in {ROOT}/dump: {STEP}", [e]), id="group"),
        pytest.param(
            lambda e: _copy(e, f"{ROOT}/dump/{STEP}.jsonl").with_traceback(e.__traceback__),
            id="copy-with-traceback",
        ),
    ],
)
def test_step_and_path_count_wherever_they_stand(make: object) -> None:
    """Message, notes, attributes and the whole chain count; a copy that keeps errno and traceback is an original."""
    story, error = one_failure()
    story.drain(make(error))
    assert story.accused("E4") == ()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        pytest.param(lambda e: e, "does not name the step", id="nothing"),
        pytest.param(
            lambda e: _from(DumpError(f"dump of step {STEP} failed"), e), "not name the path", id="no-path"
        ),
        pytest.param(
            lambda e: _from(DumpError(f"in {ROOT}/dump-2/{STEP}"), e), "not name the path", id="other-path"
        ),
        pytest.param(
            lambda e: _from(DumpError(f"{STEP}0 in {ROOT}/dump"), e), "not name the step", id="longer-number"
        ),
        pytest.param(lambda e: failed(STEP), "the original ENOSPC cannot be reached", id="original-dropped"),
        pytest.param(lambda e: _hiding(failed(STEP), e), "ENOSPC cannot be reached", id="from-none"),
        pytest.param(
            lambda e: failed(STEP, OSError(errno.EIO, "another")),
            "ENOSPC cannot be reached",
            id="other-errno",
        ),
        pytest.param(
            lambda e: failed(STEP, _copy(e, "x")),
            "the traceback of the write is gone",
            id="copy-without-traceback",
        ),
        pytest.param(
            lambda e: failed(STEP, e.with_traceback(None)),
            "the traceback of the write is gone",
            id="cut-traceback",
        ),
        pytest.param(
            lambda e: RuntimeError("dump failed"), "neither the step nor the ENOSPC", id="tells-nothing"
        ),
    ],
)
def test_what_an_error_does_not_tell_is_accused(make: object, word: str) -> None:
    """An error without the step, the path, the original, its errno or its traceback violates E4."""
    story, error = one_failure()
    story.drain(make(error))
    (message,) = story.accused("E4")
    assert word in message
    assert story.accused("E1") == ()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path, other: DumpError(f"dump of step {other} to {path} failed"), id="message"),
        pytest.param(lambda path, other: DumpError(f"{other}:{path}: failed"), id="before-a-colon"),
        pytest.param(lambda path, other: DumpError(f"step {other} -> '{path}.12.tmp'"), id="quoted-path"),
        pytest.param(lambda _, other: DumpError(f"{other}: {STEP}.jsonl in {ROOT}/dump"), id="file-name"),
        pytest.param(lambda path, other: _noted(DumpError(path), f"this was step {other}"), id="note"),
        pytest.param(lambda path, other: _with(DumpError("failed"), step=other, path=path), id="attribute"),
        pytest.param(
            lambda path, other: _with(DumpError(path), global_steps=[other]), id="attribute-of-several"
        ),
        pytest.param(lambda path, other: _with(DumpError(path), steps={other}), id="attribute-steps"),
        pytest.param(lambda path, other: _with(DumpError(path), global_step=other), id="attribute-of-verl"),
        pytest.param(lambda path, other: _with(DumpError(path), step=f"at {other}"), id="attribute-in-words"),
        pytest.param(
            lambda _, other: DumpError(f"{other}: {STEP}.JSONL in {ROOT}/dump"), id="upper-case-name"
        ),
        pytest.param(
            lambda path, other: ExceptionGroup(f"step {other}", [OSError(errno.EIO, "broken", path)]),
            id="group",
        ),
    ],
)
def test_a_wrong_step_is_accused_whatever_the_path_says(make: object) -> None:
    """The right digits in a path do not mend an error that tells the step of another dump, wherever it tells it."""
    story, cause = _failed_then_written()
    story.drain(_from(make(f"{ROOT}/dump/{STEP}.jsonl", STEP + 2), cause))
    (message,) = story.accused("E4")
    text = f"the failure of dump 1 (step {STEP}) raised by drain names step {STEP + 2} instead of its own: "
    assert message.startswith(text)


def test_an_attribute_that_names_no_step_of_the_trial_is_a_wrong_one() -> None:
    """An attribute `step` is the error's own word for the step, also where no dump had that step."""
    story, cause = one_failure()
    story.drain(_from(_with(DumpError("failed"), step=3, path=f"{ROOT}/dump/{STEP}.jsonl"), cause))
    (message,) = story.accused("E4")
    assert "names step 3 instead of its own" in message


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda p, e: _from(DumpError(f"dump to {p} failed"), e), id="path-alone"),
        pytest.param(lambda p, e: _with(e, filename=p), id="file-name-alone"),
        pytest.param(lambda p, e: _with(e, filename=f"{ROOT}/dump/.{STEP}.1.tmp", filename2=p), id="rename"),
        pytest.param(
            lambda p, e: _from(DumpError(f"step {STEP} to {p} failed, seen at step {STEP + 2}"), e),
            id="seen-at-another",
        ),
        pytest.param(
            lambda p, e: _with(_from(DumpError(f"at step {STEP + 2}: {p} failed"), e), step=STEP),
            id="own-by-attribute",
        ),
        pytest.param(
            lambda p, e: _noted(_from(DumpError(f"{p} failed at {STEP + 2}"), e), f"it is of step {STEP}"),
            id="own-by-note",
        ),
        pytest.param(
            lambda p, e: _with(_from(DumpError(f"{p} failed at {STEP + 2}"), e), pending=[STEP]),
            id="own-by-pending",
        ),
        pytest.param(
            lambda p, e: _from(DumpError(f"steps {STEP} to {STEP + 2} were lost, from {p} on"), e), id="range"
        ),
    ],
)
def test_an_error_that_names_its_own_step_may_name_another(make: object) -> None:
    """A step may be named by the path alone, and any other may stand beside the right one."""
    story, cause = _failed_then_written()
    story.drain(make(f"{ROOT}/dump/{STEP}.jsonl", cause))
    assert story.accused("E4") == ()


@pytest.mark.parametrize(
    "join",
    [
        pytest.param(lambda a, b: ExceptionGroup("2 dumps failed", [a, b]), id="group"),
        pytest.param(lambda a, b: ExceptionGroup("2 dumps failed", [b, a]), id="group-in-any-order"),
        pytest.param(lambda a, b: _chained(b, cause=a), id="cause"),
        pytest.param(lambda a, b: _chained(b, context=a), id="context"),
    ],
)
def test_dumps_that_failed_may_each_be_named_in_its_own_way(join: object) -> None:
    """Of two failed dumps one may be named by its step and the other by its path alone."""
    story, (first, second) = _two_failures()
    first.filename = f"{ROOT}/dump/{STEP}.jsonl"
    story.drain(join(first, failed(STEP + 1, second)))
    assert story.accused("E4") == ()


def test_two_failures_under_one_step_are_accused() -> None:
    """Of two failed dumps the first does not pass under the step of the second."""
    story, (first, second) = _two_failures()
    wrong = DumpError(f"dump of step {STEP + 1} to {ROOT}/dump/{STEP}.jsonl failed")
    story.drain(ExceptionGroup("two", [_from(wrong, first), failed(STEP + 1, second)]))
    (message,) = story.accused("E4")
    assert f"names step {STEP + 1} instead of its own" in message


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "written"])
def test_a_call_that_refuses_its_batch_names_its_own_step(lost: bool) -> None:
    """A call may say of its own step that it was not accepted, because of a failure that is named by its path alone."""
    story, cause = one_failure()
    error = DumpError(f"step {STEP + 1} was not accepted: {ROOT}/dump/{STEP}.jsonl had failed")
    second = story.dump(STEP + 1, _from(error, cause))
    if not lost:
        story.write(second)
    story.drain()
    assert bool(story.accused("E4")) is not lost


def test_a_failure_that_was_made_good_is_not_told_of_another_step() -> None:
    """What struck a dump that is on disk after all is still that dump's, whatever step the error names."""
    story = Story("write#1:ENOSPC")
    first = story.dump(STEP)
    cause = story.strike("write", TEMP)
    story.write(first)
    story.write(story.dump(STEP + 2))
    story.drain(_from(DumpError(f"dump of step {STEP + 2} to {ROOT}/dump/{STEP}.jsonl failed"), cause))
    (message,) = story.accused("E4")
    assert f"names step {STEP + 2} instead of its own: DumpError" in message


def test_one_that_was_made_good_may_be_told_beside_one_that_failed() -> None:
    """A failure that is named by its path alone is told apart from the only one that cost a dump."""
    story = Story("write#1+:ENOSPC")
    first = story.dump(STEP)
    good = story.strike("write", TEMP)
    story.write(first)
    story.dump(STEP + 1)
    bad = story.strike("write", f"dump/.{STEP + 1}.tmp")
    alone = _from(DumpError(f"the dump to {ROOT}/dump/{STEP}.jsonl failed once"), good)
    story.drain(ExceptionGroup("two", [alone, failed(STEP + 1, bad)]))
    assert story.accused("E4") == ()


def test_a_call_whose_batch_was_accepted_does_not_tell_an_old_failure_by_its_own_step() -> None:
    """Only a batch that was refused explains that the call names its own step for the failure of another."""
    story, cause = one_failure("write#1+:ENOSPC")
    error = DumpError(f"step {STEP + 1}: {ROOT}/dump/{STEP}.jsonl had failed")
    story.dump(STEP + 1, _from(error, cause))
    story.drain(failed(STEP + 1, story.strike("write", f"dump/.{STEP + 1}.tmp")))
    (message,) = story.accused("E4")
    assert f"names step {STEP + 1} instead of its own" in message


def test_a_file_that_is_whole_may_be_named_beside_the_step_that_failed() -> None:
    """The path of a dump that is on disk is no failure of that dump."""
    story = Story("write#1:ENOSPC")
    story.write(story.dump(STEP))
    story.dump(STEP + 1)
    error = story.strike("write", f"dump/.{STEP + 1}.tmp")
    story.drain(_from(DumpError(f"step {STEP + 1} failed; the last in {ROOT}/dump is {STEP}.jsonl"), error))
    assert story.accused("E4") == ()


def test_an_error_that_is_raised_with_its_traceback_cut_is_accused() -> None:
    """Raising an exception gives it a traceback again, but not that of the write."""
    story, error = one_failure()
    error.filename = f"{ROOT}/dump/{STEP}.jsonl"

    def drain() -> None:
        raise error.with_traceback(None)

    with pytest.raises(OSError, match="No space") as caught:
        drain()
    story.drain(caught.value)
    assert len(story.accused("E4")) == 1


def test_the_original_of_one_dump_does_not_stand_for_that_of_another() -> None:
    """In a group of two failures each must hold its own original."""
    story, (first, _) = _two_failures()
    story.drain(ExceptionGroup("two", [failed(STEP, first), failed(STEP + 1)]))
    assert "the original ENOSPC cannot be reached" in story.accused("E4")[0]


def test_every_directory_is_named() -> None:
    """Where dumps go to two directories, a failure in each names its own."""
    story = Story("write#1+:EIO")
    errors = []
    for step, directory in ((STEP, "train"), (STEP + 1, "val")):
        story.dump(step, directory=directory)
        errors.append(story.strike("write", f"{directory}/.{step}.tmp", fault="EIO"))
    group = [failed(STEP, errors[0], directory="train"), failed(STEP + 1, errors[1], directory="train")]
    story.drain(ExceptionGroup("two", group))
    (message,) = story.accused("E4")
    assert f"the failure of dump 2 (step {STEP + 1}) raised by drain does not name the path" in message


def test_a_failure_made_good_needs_no_telling() -> None:
    """E4 asks nothing of a failure that a second try made good."""
    story = Story("write#1:EIO")
    number = story.dump(STEP)
    story.strike("write", TEMP, fault="EIO")
    story.write(number)
    story.drain()
    assert story.accused("E4") == ()


# E5


def earlier_failure(raised: object, *, kept: bool = False) -> Story:
    """A first dump failed, and the call of the second raises that failure."""
    story, error = one_failure()
    second = story.dump(STEP + 1, raised(error))
    if kept:
        story.write(second)
    story.drain()
    return story


def test_a_call_that_raises_an_earlier_failure_and_drops_its_batch_is_accused() -> None:
    """The caller of the second dump cannot know that its batch is gone: E5."""
    message = f"the call of dump 2 (step {STEP + 1}) raised an earlier failure; its own batch is missing and nobody said so"
    assert earlier_failure(lambda e: failed(STEP, e)).accused("E5") == (message,)


@pytest.mark.parametrize(
    ("raised", "kept"),
    [
        pytest.param(lambda e: failed(STEP, e), True, id="kept"),
        pytest.param(
            lambda e: _noted(failed(STEP, e), "this batch was not accepted"), False, id="said-by-note"
        ),
        pytest.param(lambda e: _with(failed(STEP, e), accepted=False), False, id="said-by-attribute"),
        pytest.param(
            lambda e: DumpError(f"step {STEP} failed. The batch of step {STEP + 1} was refused."),
            False,
            id="said",
        ),
        pytest.param(lambda e: DumpError(f"step {STEP} failed. Rejected: this batch"), False, id="capital"),
        pytest.param(lambda e: _from(refused(STEP + 1), failed(STEP, e)), False, id="refused-by-cause"),
    ],
)
def test_a_batch_that_was_kept_or_refused_aloud_is_not_accused(raised: object, kept: bool) -> None:
    """A call may raise an earlier failure if it keeps its batch or says that it did not take it."""
    assert earlier_failure(raised, kept=kept).accused("E5") == ()


@pytest.mark.parametrize(
    "text",
    [
        f"step {STEP} was not written",
        f"step {STEP} was not written. Step {STEP + 1} waits.",
        f"the disk refused step {STEP}",
    ],
)
def test_words_about_the_earlier_dump_do_not_refuse_this_one(text: str) -> None:
    """That the earlier dump was not written says nothing of the call's own batch."""
    assert len(earlier_failure(lambda e: _from(DumpError(text), e)).accused("E5")) == 1


def test_a_batch_with_a_failure_of_its_own_is_not_e5s() -> None:
    """A batch that was struck itself is E3's matter."""
    story, (first, second) = _two_failures()
    story = Story("write#1+:ENOSPC")
    story.dump(STEP)
    first = story.strike("write", TEMP)
    story.dump(STEP + 1, failed(STEP, first))
    second = story.strike("write", f"dump/.{STEP + 1}.tmp")
    story.drain(failed(STEP + 1, second))
    assert story.accused("E5") == ()


# E6


def training(end: BaseException | None, *, lost: bool = True) -> Story:
    """Training failed while a dump was pending; `end` is what came out of fit()."""
    story = Story("write#1:ENOSPC")
    number = story.dump(STEP)
    story.mark("way out", "TrainingError")
    if lost:
        story.strike("write", TEMP)
    else:
        story.write(number)
    story.end("fit", end)
    return story


class TrainingError(Exception):
    """What training failed of."""


def test_a_training_error_with_the_failures_attached_is_not_accused() -> None:
    """The training error may carry the failures of the dump as notes, context or cause."""
    assert training(_noted(TrainingError("loss"), f"dump of step {STEP} failed")).accused("E6") == ()
    assert training(_chained(TrainingError("loss"), context=failed(STEP))).accused("E6") == ()
    assert training(TrainingError("loss"), lost=False).accused("E6") == ()


def test_a_training_error_that_is_replaced_swallowed_or_alone_is_accused() -> None:
    """Another error in its place, no error, or a dump's failure that is not attached, violates E6."""
    assert "instead of the training error" in training(failed(STEP, TrainingError("loss"))).accused("E6")[0]
    assert "swallowed the training error" in training(None).accused("E6")[0]
    assert "is not attached to the training error" in training(TrainingError("loss")).accused("E6")[0]


def test_training_that_ended_earlier_of_a_dump_is_not_accused() -> None:
    """Where the failed dump itself ended the training, there was no training error to keep."""
    story = Story("write#1:ENOSPC")
    number = story.hand_over(STEP)
    error = failed(STEP, story.strike("write", TEMP))
    story.end("dump", error, number)
    story.end("fit", error)
    assert story.accused("E6") == ()


# E7


def test_threads_left_after_drain_are_accused() -> None:
    """A worker that outlives the drain violates E7."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain(left=("dump-worker_0",))
    assert story.accused("E7") == ("after drain the writer's thread (dump-worker) lives on",)


@pytest.mark.parametrize("number", [0, 16, 17, 70])
def test_descriptors_left_open_are_accused(number: int) -> None:
    """A writer may keep a few descriptors, and not one for each dump that has failed."""
    story, error = one_failure()
    story.drain(failed(STEP, error))
    story.mark("left open", str(number))
    message = f"{number} descriptors below the root are open though everything is drained"
    assert story.accused("E7") == (message,) * (number > 16)


def test_a_second_drain_that_raises_is_accused() -> None:
    """A drain directly after a drain has nothing to tell."""
    story, error = one_failure()
    story.drain(failed(STEP, error))
    story.drain()
    assert story.accused("E7") == ()
    story.drain(failed(STEP))
    assert len(story.accused("E7")) == 1


def test_a_next_run_that_does_not_start_clean_is_accused() -> None:
    """After a drain that raised, the next run opens, dumps and drains as the first did."""
    said = {
        "raises": "the call of dump 2 raised RuntimeError: closed",
        "loses": f"dump 2 (step {STEP + 3}) is not on disk",
    }
    for wrong in ("raises", "loses", ""):
        story, error = one_failure()
        story.drain(failed(STEP, error))
        story.mark("next run")
        story.end("open")
        number = story.dump(STEP + 3, RuntimeError("closed") if wrong == "raises" else None)
        if not wrong:
            story.write(number)
        story.drain()
        assert story.accused("E7") == ((f"the next run did not start clean: {said[wrong]}",) if wrong else ())


def test_a_next_run_with_faults_of_its_own_is_not_accused() -> None:
    """A fault that persists strikes the next run too."""
    story, error = one_failure("write#1+:ENOSPC")
    story.drain(failed(STEP, error))
    story.mark("next run")
    story.dump(STEP + 3)
    again = story.strike("write", f"dump/.{STEP + 3}.tmp")
    story.drain(failed(STEP + 3, again))
    assert story.accused("E7") == ()


# E8


def test_a_call_that_never_returns_is_accused_under_every_plan() -> None:
    """A hang violates E8, also in a scenario that is judged by other laws."""
    story = Story("write#1:SystemExit")
    number = story.hand_over(STEP)
    story.events.append(Hung("dump", number))
    assert f"the call of dump 1 (step {STEP}) never returned" in story.accused("E8")
    story = Story()
    story.events.append(Hung("drain"))
    assert story.accused("E8") == ("drain never returned",)
    assert "E8" in relevant(story.history(), frozenset({"D1"}))


@pytest.mark.parametrize("fault", ["MemoryError", "SystemExit"])
def test_a_dead_worker_is_told_of(fault: str) -> None:
    """What a worker died of is raised, or E8 is violated."""
    story, error = one_failure(f"write#1:{fault}", fault=fault)
    story.drain(failed(STEP, error))
    assert story.accused("E8") == ()
    story, _ = one_failure(f"write#1:{fault}", fault=fault)
    story.drain()
    assert len(story.accused("E8")) == 1
    assert story.accused("E1") == story.accused("E3") == ()


def test_a_thread_that_cannot_start_is_told_of() -> None:
    """A dump that waits for a thread which never started is lost, unless its call or a later one says so."""
    for told in (True, False):
        story = Story("thread#1:RuntimeError")
        error = story.strike("thread", "", fault="RuntimeError")
        story.dump(STEP, refused(STEP, error) if told else None)
        story.drain()
        assert bool(story.accused("E8")) is not told


# E9


def warned(*texts: str, summary: str | None = "1 dump failed", plan: str = "write#1:ENOSPC") -> Story:
    """A dump failed in warn mode, with these lines logged before the drain and at it."""
    story, _ = one_failure(plan)
    for text in texts:
        story.log(text)
    story.mark("draining")
    if summary:
        story.log(summary)
    story.drain()
    return story


def test_a_failure_that_is_logged_and_counted_is_not_accused() -> None:
    """A line with step and path for each failure, and a summary at drain, hold E9."""
    assert warned(f"dump of step {STEP} to {ROOT}/dump failed").accused("E9") == ()


@pytest.mark.parametrize(
    ("story", "word"),
    [
        pytest.param(
            lambda: warned(f"a dump to {ROOT}/dump failed"), "not logged with its step", id="no-step"
        ),
        pytest.param(lambda: warned(f"dump of step {STEP} failed"), "logged without its path", id="no-path"),
        pytest.param(
            lambda: warned(f"step {STEP}, {ROOT}/dump: failed", summary=None), "no summary", id="no-summary"
        ),
        pytest.param(
            lambda: warned(f"step {STEP}, {ROOT}/dump: 1 failed", summary=None),
            "no summary",
            id="count-before-drain",
        ),
        *(
            pytest.param(
                lambda count=count: warned(f"step {STEP}, {ROOT}/dump: failed", summary=f"{count} failed"),
                "no summary that counts the 1 failed dump",
                id=f"miscount-{count}",
            )
            for count in (0, 2, 12)
        ),
    ],
)
def test_what_the_log_does_not_tell_is_accused(story: object, word: str) -> None:
    """A failure without step, path or count violates E9."""
    (message,) = story().accused("E9")
    assert word in message


def test_a_failure_that_is_raised_in_warn_mode_is_accused() -> None:
    """In warn mode nothing is raised."""
    story, error = one_failure()
    story.drain(failed(STEP, error))
    assert "in warn mode" in story.accused("E9")[0]


def test_other_lines_of_the_log_are_not_counted_as_failures() -> None:
    """A warning that a dump was slow does not make it a failed one."""
    story = Story("write#1:ENOSPC")
    story.dump(STEP)
    story.strike("write", TEMP)
    story.log(f"dump of step {STEP} to {ROOT}/dump failed")
    story.write(story.dump(STEP + 1))
    story.log(f"step {STEP + 1} took 3 s")
    story.mark("draining")
    story.events.append(Logged("WARNING", "1 of 2 dumps failed"))
    story.drain()
    assert story.accused("E9") == ()


def test_a_swallowed_sync_in_warn_mode_is_accused() -> None:
    """A failed fsync is a failure to be logged, though the file can be read."""
    story = Story("fsync#1:EIO")
    number = story.dump(STEP)
    story.operate("write", TEMP)
    story.strike("fsync", TEMP, fault="EIO")
    story.put(story.names[number], story.content(number))
    story.mark("draining")
    story.drain()
    assert "was not logged with its step" in story.accused("E9")[0]


# E10


@pytest.mark.parametrize(
    ("code", "stderr", "silent"),
    [
        pytest.param(0, "", True, id="nothing"),
        pytest.param(
            0, "/site/verl_dump/dumper.py:7: ResourceWarning: unclosed file", True, id="other-warning"
        ),
        pytest.param(0, "/data/me/dump/run.py: 1 row", True, id="path"),
        pytest.param(0, "1 dump written", True, id="a-dump-that-is-well"),
        pytest.param(0, "error: the connection is lost", True, id="another-loss"),
        pytest.param(0, "Dumps are pending at exit", False, id="the-word"),
        pytest.param(0, f"{STEP} lost", False, id="the-step"),
        pytest.param(0, f"OSError: {os.strerror(errno.ENOSPC)}", False, id="the-error"),
        pytest.param(0, "ended with ENOSPC", False, id="the-errno"),
        pytest.param(1, "", False, id="exit-code"),
        pytest.param(-6, "", False, id="signal"),
    ],
)
def test_a_process_that_ends_with_a_lost_dump_says_so(code: int, stderr: str, silent: bool) -> None:
    """Exit code 0 with nothing about the dumps on stderr violates E10."""
    story, _ = one_failure()
    assert story.accused("E10") == ()
    story.exit(code, stderr)
    message = (
        f"the process ended with exit code 0 and said nothing of dump 1 (step {STEP}), which is not on disk"
    )
    assert story.accused("E10") == (message,) * silent


@pytest.mark.parametrize(
    ("stderr", "silent"), [("", True), ("MemoryError", False)], ids=["nothing", "its-name"]
)
def test_a_process_whose_worker_died_says_so(stderr: str, silent: bool) -> None:
    """What a worker died of has no error number: the name of its type on stderr tells of it."""
    story, _ = one_failure("write#1:MemoryError", fault="MemoryError")
    story.exit(0, stderr)
    assert bool(story.accused("E10")) is silent


def test_a_process_that_wrote_everything_may_end_silently() -> None:
    """Nothing lost, nothing to say."""
    story = Story()
    story.write(story.dump(STEP))
    story.exit()
    assert story.accused("E10") == ()


def test_a_failure_that_a_call_raised_need_not_be_said_again_at_the_end() -> None:
    """A caller that was told and went on knows, also where the error shows no step."""
    story = Story("write#1:ENOSPC")
    number = story.hand_over(STEP)
    story.end("dump", story.strike("write", "dump/tmpa1b2c3"), number)
    story.exit()
    assert story.accused("E10") == ()


def test_a_failure_swallowed_at_the_end_is_accused() -> None:
    """A close that failed in a process that ends with 0 and says nothing violates E10."""
    story = Story("close#1:EIO")
    number = story.dump(STEP)
    story.operate("write", TEMP)
    story.strike("close", TEMP, fault="EIO")
    story.put(story.names[number], story.content(number))
    story.exit()
    assert "an operation of which failed" in story.accused("E10")[0]


def test_which_laws_a_history_says_something_of() -> None:
    """Laws about failures need a plan that can fail, E8 one that kills workers or a hang, D1 one that cannot fail."""
    every = frozenset({"D1", "D4", "E1", "E3", "E4", "E8", "E7"})
    assert relevant(Story().history(), every) == {"D1", "E7"}
    assert relevant(Story("write#1:short(7)").history(), every) == {"D1", "E7"}
    assert relevant(Story("write#1:EIO").history(), every) == {"D4", "E1", "E3", "E4", "E7"}
    assert relevant(Story("write#1:MemoryError").history(), every) == {"D4", "E7", "E8"}
    assert relevant(Story("a:kill?@write#1:slow(1ms)").history(), every) == {"D1", "E7"}
    story = Story("write#1:kill")
    for mark, also in (("draining", set()), ("killed", {"D1"})):
        story.mark(mark)
        assert relevant(story.history(), every) == {"D4", "E1", "E3", "E4", "E7"} | also


def test_a_history_with_a_hang_says_something_of_few_laws() -> None:
    """A call that never ended shows what is on disk, what waits and how training is left, and nothing that comes after."""
    story = Story()
    story.events.append(Hung("drain"))
    ways = {way.law for way in WAYS}
    assert relevant(story.history(), frozenset(RULES)) == {"D2", "Q1", "Q3", "Q5", "E8"} | ways


def test_what_is_violated_comes_with_its_law_in_the_order_of_the_laws() -> None:
    """The judge says of each violation which law it breaks, and asks no law that it was not given."""
    story, _ = one_failure()
    story.drain(left=("worker",))
    found = judge(story.history(), frozenset({"E7", "E1", "D2"}))
    assert found == (
        Violation("E1", f"dump 1 (step {STEP}) is not on disk, and no call ever raised the failure"),
        Violation("E7", "after drain the writer's thread (worker) lives on"),
    )


def _failed_then_written() -> tuple[Story, BaseException]:
    """One dump whose write was struck, and two that were written."""
    story, error = one_failure()
    story.write(story.dump(STEP + 1))
    story.write(story.dump(STEP + 2))
    return story, error


def _two_failures() -> tuple[Story, list[BaseException]]:
    story = Story("write#1+:ENOSPC")
    errors = []
    for step in (STEP, STEP + 1):
        story.dump(step)
        errors.append(story.strike("write", f"dump/.{step}.tmp"))
    return story, errors


def _chained(error: BaseException, *, cause: object = None, context: object = None) -> BaseException:
    if cause is not None:
        # The cause of the first keeps its place at the end of the chain.
        error.__cause__.__cause__ = cause
    if context is not None:
        error.__context__, error.__suppress_context__ = context, False
    return error


def _from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def _hiding(error: BaseException, context: BaseException) -> BaseException:
    error.__context__, error.__suppress_context__ = context, True
    return error


def _noted(error: BaseException, note: str) -> BaseException:
    error.__notes__ = [note]
    return error


def _with(error: BaseException, **attributes: object) -> BaseException:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def _copy(error: BaseException, path: str) -> OSError:
    return OSError(error.errno, error.strerror, path)
