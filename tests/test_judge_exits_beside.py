"""What the rule of the ways out leaves to other rules, excuses, goes on after, and says: case by case."""

from __future__ import annotations

from asyncio import CancelledError

import pytest

from tests.histories import failed
from tests.test_judge_exits import Exit, TrainingError

STEP = 7_000_001
TEMP = f"dump/.{STEP}.tmp"


def struck(way: str, pending: str = "one", write: str = "failing") -> tuple[Exit, BaseException]:
    """A dump whose write was struck, with the error as the fault layer raised it."""
    story = Exit(way, pending, write)
    story.dump(STEP)
    return story, story.strike("write", TEMP)


# Data


def test_what_is_there_before_the_end_of_fit_is_noted_is_in_time() -> None:
    """A file that is seen between the end of fit() and the turn that notes it was there when fit() ended."""
    story = Exit("last-step")
    number = story.dump(STEP)
    story.end("fit")
    story.put(story.names[number], story.content(number))
    story.mark("left")
    assert story.told == ()


def test_a_dump_that_fit_says_has_failed_is_not_missing() -> None:
    """A dump whose failure comes out of fit() has failed, be it of something that no fault has struck."""
    story = Exit("last-step")
    story.dump(STEP)
    story.leave(failed(STEP))
    assert story.told == ()


@pytest.mark.parametrize(
    ("kinds", "path", "excused"),
    [
        pytest.param(("write", "flush", "close"), "dump/tmpqwerty", 1, id="one-file"),
        pytest.param(("mkdir", "mkdir"), "dump", 2, id="one-directory"),
    ],
)
def test_what_strikes_one_file_again_excuses_no_second_dump(
    kinds: tuple[str, ...], path: str, excused: int
) -> None:
    """A write without a step that fails again at flush and close is one failure; a directory may fail for each dump."""
    story = Exit("last-step", "several", "failing")
    for i in range(3):
        story.dump(STEP + i)
    for kind in kinds:
        story.strike(kind, path)
    story.leave()
    (message,) = (message for message in story.told if message.startswith("data: "))
    assert f"{3 - excused} of 3 dumps" in message


# Errors of a fit() that something else ends


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("step-raises", TrainingError("loss")),
        ("keyboard-interrupt", KeyboardInterrupt()),
        ("system-exit", SystemExit(3)),
        ("cancelled", CancelledError()),
    ],
    ids=["training-error", "interrupt", "exit", "cancel"],
)
@pytest.mark.parametrize("note", [None, "a dump failed"], ids=["alone", "with-a-note"])
def test_what_ends_a_training_tells_of_no_dump_by_itself(
    way: str, error: BaseException, note: str | None
) -> None:
    """Of the only failed dump a note without a name tells, but not the bare error that ended the training."""
    story, _ = struck(way)
    story.train(error)
    error.__notes__ = [note] * (note is not None)
    story.leave(error)
    messages = [message for message in story.told if message.startswith("errors: dump 1 ")]
    assert len(messages) == (note is None)


# Errors of an actor


@pytest.mark.parametrize("told", [False, True], ids=["returns", "raises-without-a-step"])
def test_an_actor_whose_failure_has_no_name_tells_the_driver_of_the_only_one(told: bool) -> None:
    """Where fit() names no step neither need the driver's error, but there has to be one."""
    story, error = struck("ray-return")
    story.leave(error if told else None)
    story.mark("driver", "RayTaskError(OSError): No space left on device" if told else "done")
    message = f"errors: dump 1 (step {STEP}) failed, and fit() returned as if nothing had"
    assert story.told == ((message,) if not told else ())
