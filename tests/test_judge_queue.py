"""The judge of group Q accuses every smallest violation and no correct writer."""

from __future__ import annotations

import pytest

from fault_injection.history import Hung
from tests.histories import ROOT, DumpError, Story, failed, refused

STEP = 7_000_001


# Q1


@pytest.mark.parametrize(("call", "wrong"), [("dump", True), ("drain", False), ("open", False)])
def test_only_a_dump_may_not_wait_for_the_disk(call: str, wrong: bool) -> None:
    """A dump that waited while the disk was stalled violates Q1; a drain waits by its nature."""
    story = Story()
    number = story.hand_over(STEP)
    story.waited(call, number if call == "dump" else None)
    story.end("dump", None, number)
    story.write(number)
    story.drain()
    message = f"with the disk stalled the call of dump 1 (step {STEP}) did not return"
    assert story.accused("Q1") == ((message,) if wrong else ())


# Q2


def test_a_queue_without_a_bound_is_accused() -> None:
    """Dumps accepted without end behind a stalled disk violate Q2."""
    story = Story()
    story.mark("unbounded", "1,025 dumps")
    assert story.accused("Q2") == ("with the disk stalled 1,025 dumps were accepted, and nothing said stop",)


@pytest.mark.parametrize("how", ["waited", "refused", "dropped-aloud", "dropped-silently"])
def test_at_the_bound_a_call_waits_or_something_is_said(how: str) -> None:
    """At the bound a call may wait or be refused, and a dump may be dropped if that is raised; never in silence."""
    story = Story()
    first, second = story.dump(STEP), story.hand_over(STEP + 1)
    if how == "waited":
        story.waited("dump", second)
    story.end("dump", refused(STEP + 1) if how == "refused" else None, second)
    if not how.startswith("dropped"):
        story.write(first)
    if how != "refused":
        story.write(second)
    story.drain(DumpError(f"step {STEP} was dropped: the queue was full") if how == "dropped-aloud" else None)
    message = f"dump 1 (step {STEP}) was accepted while the queue was full and is not on disk"
    assert story.accused("Q2") == ((message,) if how == "dropped-silently" else ())


# Q3


def past_deadline(error: BaseException | None, *, second_is_written: bool = True) -> Story:
    """One dump is on disk and another stuck when a drain runs out of time; then the disk goes on."""
    story = Story("write#2:stuck")
    story.write(story.dump(STEP))
    number = story.dump(STEP + 1)
    story.operate("write", f"dump/.{STEP + 1}.tmp", fault="stuck")
    story.end("drain-deadline", error)
    if second_is_written:
        story.write(number)
    story.drain()
    return story


def test_a_deadline_names_what_is_not_on_disk_and_need_not_name_more() -> None:
    """Past its deadline a drain names the steps that are not on disk; those that are need not be named."""
    assert past_deadline(TimeoutError(f"step {STEP + 1} is not on disk")).accused("Q3") == ()
    assert past_deadline(TimeoutError(f"not on disk: {STEP}, {STEP + 1}")).accused("Q3") == ()


@pytest.mark.parametrize(
    ("error", "word"),
    [
        pytest.param(None, "as if all were well, with 1 dump not on disk", id="quiet"),
        pytest.param(TimeoutError("timed out"), f"does not name step {STEP + 1}", id="names-none"),
        pytest.param(TimeoutError(f"step {STEP}"), f"does not name step {STEP + 1}", id="names-another"),
    ],
)
def test_a_deadline_that_does_not_name_the_steps_is_accused(error: BaseException | None, word: str) -> None:
    """A drain that runs out of time quietly, or without the steps, violates Q3."""
    (message,) = past_deadline(error).accused("Q3")
    assert word in message


def test_a_deadline_that_passes_quietly_tells_how_many_are_pending() -> None:
    """Where a drain runs out of time quietly with several dumps not on disk, Q3 counts them."""
    story = Story("write#1+:stuck")
    story.dump(STEP)
    story.dump(STEP + 1)
    story.end("drain-deadline")
    assert story.accused("Q3") == (
        "drain returned at its deadline as if all were well, with 2 dumps not on disk",
    )


def test_a_deadline_that_finds_everything_written_may_pass_quietly() -> None:
    """With every dump on disk a drain with a deadline has nothing to say."""
    story = Story("fsyncdir#1:stuck")
    story.write(story.dump(STEP))
    story.end("drain-deadline")
    story.drain()
    assert story.accused("Q3") == ()


def test_what_was_only_named_as_pending_must_not_be_lost() -> None:
    """A dump named at the deadline and gone after a second drain violates Q3, unless its failure was raised then."""
    story = past_deadline(TimeoutError(f"step {STEP + 1}"), second_is_written=False)
    assert len(story.accused("Q3")) == 1
    story.drain(failed(STEP + 1))
    assert story.accused("Q3") == ()


def test_a_refused_dump_is_not_pending() -> None:
    """What was not accepted need not be named at the deadline."""
    story = Story("write#1:stuck")
    number = story.dump(STEP)
    story.dump(STEP + 1, refused(STEP + 1))
    story.end("drain-deadline", TimeoutError(f"step {STEP}"))
    story.write(number)
    story.drain(failed(STEP + 1))
    assert story.accused("Q3") == ()


def test_a_drain_with_a_deadline_that_waits_is_accused() -> None:
    """A deadline that is not kept violates Q3."""
    story = Story("write#1:stuck")
    story.dump(STEP)
    story.waited("drain-deadline")
    assert story.accused("Q3") == ("drain with a timeout did not return while the disk was stuck",)


@pytest.mark.parametrize(
    ("code", "stderr", "hung", "word"),
    [
        pytest.param(0, f"step {STEP} is not on disk", False, "", id="says-so"),
        pytest.param(1, "", False, "", id="exit-code"),
        pytest.param(0, "bye", False, f"did not say that step {STEP} is not on disk", id="silent"),
        pytest.param(-9, "", True, "held the exit of the process", id="held"),
    ],
)
def test_a_stuck_write_does_not_hold_the_exit(code: int, stderr: str, hung: bool, word: str) -> None:
    """A process with a stuck write ends in time and says which steps are not on disk."""
    story = Story("write#1:stuck")
    story.dump(STEP)
    if hung:
        story.events.append(Hung("the exit of the process"))
    story.exit(code, stderr)
    messages = story.accused("Q3")
    assert len(messages) == bool(word)
    assert all(word in message for message in messages)


# Q4


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0), (1, 2)], ids=str)
def test_dumps_appear_in_the_order_they_were_handed_over(order: tuple[int, ...]) -> None:
    """A later dump on disk before an earlier one violates Q4; one that never came is another law's matter."""
    story = Story()
    for step in range(3):
        story.dump(STEP + step)
    for number in order:
        story.write(number)
    assert bool(story.accused("Q4")) is (list(order) != sorted(order))


def test_files_first_seen_together_are_in_no_order() -> None:
    """Two files that appeared between two looks are not accused, whatever they are called."""
    story = Story()
    story.dump(STEP + 1)
    story.dump(STEP)
    files = tuple(sorted((name, story.content(i)) for i, name in enumerate(story.names)))
    story.put(files[0][0], files[0][1])
    seen = story.events.pop()
    story.events.append(type(seen)(seen.number, files))
    assert story.accused("Q4") == ()


def test_older_files_and_later_runs_are_in_no_order() -> None:
    """A file of an earlier run was there before, and a restarted run begins anew."""
    story = Story()
    story.older(f"dump/{STEP + 1}.jsonl", b'{"input": "older"}\n')
    story.put(f"dump/{STEP + 1}.jsonl", b'{"input": "older"}\n')
    story.write(story.dump(STEP))
    story.write(story.dump(STEP + 1))
    story.mark("new run")
    story.write(story.dump(STEP - 1))
    assert story.accused("Q4") == ()


# Q5


@pytest.mark.parametrize(
    ("at_call", "at_drain", "wrong"),
    [
        pytest.param(None, None, True, id="forgotten"),
        pytest.param(RuntimeError("the writer is closed"), None, False, id="refused"),
        pytest.param(None, failed(STEP + 1), False, id="raised-by-drain"),
        pytest.param(None, RuntimeError("closed"), False, id="some-error-by-drain"),
    ],
)
def test_a_dump_after_drain_is_written_or_refused(
    at_call: BaseException | None, at_drain: BaseException | None, wrong: bool
) -> None:
    """A dump after a drain that is accepted and forgotten violates Q5; an error is fine."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain()
    story.dump(STEP + 1, at_call)
    story.drain(at_drain)
    message = f"dump 2 (step {STEP + 1}), handed over after a drain, was accepted and is not on disk"
    assert story.accused("Q5") == ((message,) if wrong else ())


def test_a_dump_after_drain_that_works_or_hangs() -> None:
    """A dump after a drain that is written holds Q5, and a call that never returns violates it."""
    story = Story()
    for step in (STEP, STEP + 1):
        story.write(story.dump(step))
        story.drain()
    assert story.accused("Q5") == ()
    story.events.append(Hung("drain"))
    assert story.accused("Q5") == ("drain after a drain never returned",)


# Q6


def test_dumps_of_several_threads_are_all_written_or_raised() -> None:
    """A dump from a thread of its own that is lost, or that raises on a healthy disk, violates Q6."""
    story = Story()
    for directory in ("dump-a", "dump-b"):
        story.write(story.dump(STEP, directory=directory))
    story.drain()
    assert story.accused("Q6") == ()
    story.dump(STEP, directory="dump-c")
    assert "is not on disk, and nobody was told" in story.accused("Q6")[0]
    story.dump(STEP, RuntimeError("busy"), directory="dump-d")
    assert f"dump 4 (step {STEP}), handed over from a thread of its own, raised" in story.accused("Q6")[0]


def test_a_thread_whose_dump_finds_no_room_may_be_refused() -> None:
    """A refusal at the bound is a policy, also for several threads."""
    story = Story()
    story.dump(STEP, refused(STEP))
    story.drain()
    assert story.accused("Q6") == ()


# Q7


@pytest.mark.parametrize(
    ("mark", "text", "word"),
    [
        ("child hung", "every thread slept", "the forked child never ended"),
        ("child wrote", f"dump/{STEP}.jsonl", f"the forked child wrote dump/{STEP}.jsonl"),
        ("child forked", "", ""),
    ],
    ids=["hung", "wrote", "neither"],
)
def test_what_a_forked_child_does_wrong_is_accused(mark: str, text: str, word: str) -> None:
    """A child that hangs, or that writes the parent's dump, violates Q7."""
    story = Story()
    story.write(story.dump(STEP))
    story.mark(mark, text)
    messages = story.accused("Q7")
    assert len(messages) == bool(word)
    assert all(word in message for message in messages)


@pytest.mark.parametrize("by", ["its-own-call", "drain"])
def test_a_parent_that_is_told_of_its_lost_dump_is_not_accused(by: str) -> None:
    """A dump that was pending at the fork may be lost if its call, or a later one, said so."""
    story = Story()
    story.dump(STEP, RuntimeError("no room") if by == "its-own-call" else None)
    story.drain(failed(STEP) if by == "drain" else None)
    assert story.accused("Q7") == ()


def test_a_parent_that_loses_or_doubles_its_dump_over_a_fork_is_accused() -> None:
    """The parent's pending dump is written once: a lost one and one written twice violate Q7."""
    story = Story()
    number = story.dump(STEP)
    assert story.accused("Q7") == (f"dump 1 (step {STEP}), pending at the fork, is not on disk",)
    story.put(story.names[number], story.content(number, number))
    assert story.accused("Q7") == (f"dump/{STEP}.jsonl holds its rows twice after the fork",)
    story.put(story.names[number], story.content(number))
    assert story.accused("Q7") == ()
    assert ROOT not in story.names[number]
