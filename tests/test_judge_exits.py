"""The judge of group X accuses every smallest violation at a way out of fit(), and no correct trainer."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from fault_injection.history import Hung
from fault_injection.judge import judge, relevant
from fault_injection.ways import cells
from tests.histories import Story, failed, refused

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

STEP = 7_000_001
TEMP = f"dump/.{STEP}.tmp"
CELLS = {(cell.way.name, cell.pending, cell.write): cell for cell in cells()}


class TrainingError(Exception):
    """What the training failed of."""


class Exit(Story):
    """The history of one cell of the matrix in the making."""

    def __init__(self, way: str, pending: str = "one", write: str = "healthy") -> None:
        self.cell = CELLS[way, pending, write]
        super().__init__(self.cell.plan)

    def leave(self, error: BaseException | None = None) -> None:
        """The fit() ends."""
        self.end("fit", error)
        self.mark("left")

    def train(self, error: BaseException) -> BaseException:
        """The way out is taken."""
        self.mark("way out", type(error).__name__)
        return error

    @property
    def told(self) -> tuple[str, ...]:
        """What the judge says."""
        history = replace(self.history(), scenario=self.cell.scenario)
        return tuple(violation.message for violation in judge(history, frozenset({self.cell.way.law})))


def lost(dumps: str = "1 of 1 dumps was", steps: str = f"step {STEP}", when: str = "fit() ended") -> str:
    """The message of data that are not there."""
    when = "when the process had ended" if when == "process" else f"when {when}"
    return f"data: {when}, {dumps} not on disk ({steps})"


# Data


def test_a_dump_that_is_on_disk_when_fit_ends_is_not_accused() -> None:
    """What is written before the end of fit() is there in time."""
    story = Exit("last-step")
    story.write(story.dump(STEP))
    story.leave()
    assert story.told == ()


def test_a_dump_that_comes_after_fit_is_accused() -> None:
    """A file that appears when fit() has ended came too late, and the message says that it came."""
    story = Exit("last-step")
    number = story.dump(STEP)
    story.leave()
    story.write(number)
    assert story.told == (f"{lost()}; written later, while the process lived",)


def test_a_dump_that_never_comes_is_accused() -> None:
    """Of three dumps, those that never come are counted and named."""
    story = Exit("exhausted", "several")
    story.write(story.dump(STEP))
    story.dump(STEP + 1)
    story.dump(STEP + 2)
    story.leave()
    assert story.told == (lost("2 of 3 dumps were", f"steps {STEP + 1}, {STEP + 2}"),)


@pytest.mark.parametrize("harm", ["torn", "short", "turned", "mixed", "prompts", "answers"])
def test_a_file_without_all_rows_in_order_does_not_count(harm: str) -> None:
    """A file under the right name is no dump while a row of it is missing, torn, out of order, or another."""
    story = Exit("last-step")
    number, other = story.dump(STEP, rows=3), story.hand_over(STEP, directory="other")
    lines = story.content(number).splitlines(keepends=True)
    content = {
        "torn": story.content(number)[:-1],
        "short": b"".join(lines[:2]),
        "turned": b"".join(reversed(lines)),
        "mixed": b"".join([lines[0], story.content(other), *lines[1:]]),
        "prompts": story.content(number).replace(b'"prompt ', b'"question '),
        "answers": story.content(number).replace(b'"answer ', b'"reply '),
    }[harm]
    story.put(story.names[number], content)
    story.put(story.names[other], story.content(other))
    story.leave()
    assert story.told == (lost("1 of 2 dumps was"),)


def test_a_dump_of_no_rows_is_there_when_its_file_is() -> None:
    """A dump of no rows is on disk in an empty file, and not where there is none."""
    story = Exit("last-step")
    number = story.dump(STEP, rows=0)
    story.leave()
    assert story.told == (lost(),)
    story.events[-2:] = []
    story.put(story.names[number], b"")
    story.leave()
    assert story.told == ()


def test_dumps_that_share_a_file_count_apart() -> None:
    """Two dumps of one step are both there when the file holds the rows of one behind those of the other."""
    story = Exit("val-only", "several")
    first, second = story.dump(STEP), story.dump(STEP)
    story.write(first, second)
    story.leave()
    assert story.told == ()
    story.put(story.names[second], story.content(second))
    assert story.told == ()


def test_more_columns_and_other_values_are_not_judged_here() -> None:
    """What became of scores and extras is for other laws: prompt and answer say whether a row is there."""
    story = Exit("last-step")
    number = story.dump(STEP, rows=1)
    row = story.content(number).replace(b'"score"', b'"reward"').replace(b'"acc"', b'"mine"')
    story.put(story.names[number], row)
    story.leave()
    assert story.told == ()


def test_a_dump_that_failed_is_no_matter_of_data() -> None:
    """A dump that a fault struck is not missing, it failed: that it is told is asked of the errors."""
    story = Exit("last-step", "several", "failing")
    first, second = story.dump(STEP), story.dump(STEP + 1)
    error = failed(STEP, story.strike("write", TEMP))
    story.write(second)
    story.leave(error)
    assert story.told == ()
    assert first == 0


def test_a_fault_of_unknown_owner_excuses_one_dump_and_no_more() -> None:
    """A fault at a file that shows no step struck one dump: the second that is missing is lost."""
    for missing in (1, 2):
        story = Exit("last-step", "several", "failing")
        dumps = [story.dump(STEP + i) for i in range(3)]
        error = story.strike("write", "dump/tmpq1w2e3")
        for number in dumps[missing:]:
            story.write(number)
        story.leave(failed(STEP, error))
        told = [message for message in story.told if message.startswith("data: ")]
        assert told == [lost("1 of 3 dumps was", f"step {STEP + 1}")][: missing - 1]


def test_a_dump_that_was_refused_is_not_missing() -> None:
    """A dump whose call says that it was not accepted need not be there, nor be told of again."""
    story = Exit("last-step")
    story.dump(STEP, refused(STEP))
    story.leave(refused(STEP))
    assert [message for message in story.told if message.startswith("data: ")] == []


def test_a_training_that_hands_nothing_over_is_accused() -> None:
    """A fit() that ends well with fewer dumps than were due has lost them before anybody saw them."""
    for due in (1, 3):
        story = Exit("last-step", "several")
        story.mark("due", str(due))
        story.write(story.dump(STEP))
        story.leave()
        assert story.told == ("data: fit() handed over 1 dumps of the 3 that were due",)[: due - 1]


@pytest.mark.parametrize("way", ["last-step", "step-raises"])
def test_a_training_that_failed_early_owes_no_more(way: str) -> None:
    """A fit() that a failed dump has ended need not hand over the rest, nor raise what was to end it later."""
    story = Exit(way, "several", "failing")
    story.mark("due", "3")
    error = failed(STEP, story.strike("write", TEMP))
    story.dump(STEP, error)
    story.leave(error)
    assert story.told == ()


# Errors of a fit() that is asked to raise them


def test_a_failure_that_fit_raises_is_not_accused() -> None:
    """A failure of a dump that comes out of fit() has come out."""
    story = Exit("last-step", write="failing")
    story.dump(STEP)
    story.leave(failed(STEP, story.strike("write", TEMP)))
    assert story.told == ()


def test_a_failure_that_fit_keeps_is_accused() -> None:
    """A fit() that returns though a dump has failed lies."""
    story = Exit("last-step", write="failing")
    story.dump(STEP)
    story.strike("write", TEMP)
    story.leave()
    assert story.told == (f"errors: dump 1 (step {STEP}) failed, and fit() returned as if nothing had",)


def test_of_two_failures_the_hidden_one_is_accused() -> None:
    """Every failure has to come out, not only the first."""
    story = Exit("last-step", "several", "failing twice")
    story.write(story.dump(STEP))
    story.dump(STEP + 1)
    story.dump(STEP + 2)
    errors = [story.strike("write", f"dump/.{STEP + i}.tmp") for i in (1, 2)]
    story.leave(failed(STEP + 1, errors[0]))
    (message,) = story.told
    assert message.startswith(f"errors: dump 3 (step {STEP + 2}) failed, and what fit() raised does not tell")
    story.events[-2:] = []
    both = [failed(STEP + i, error) for i, error in enumerate(errors, 1)]
    story.leave(ExceptionGroup("two", both))
    assert story.told == ()


def test_an_error_without_a_name_accounts_for_one_failure() -> None:
    """An error that names no dump tells of the only one that failed, and of none where two have."""
    for failures in (1, 2):
        story = Exit("last-step", "several", "failing twice")
        for i in range(failures):
            story.dump(STEP + i)
            story.strike("write", f"dump/.{STEP + i}.tmp")
        story.leave(OSError(28, "the disk is full"))
        assert len(story.told) == failures - 1


def test_an_error_though_nothing_failed_is_accused() -> None:
    """A fit() that raises on a healthy disk, with no training error, is at fault itself."""
    story = Exit("last-step")
    story.write(story.dump(STEP))
    story.leave(RuntimeError("cannot schedule new futures after shutdown"))
    (message,) = story.told
    assert message.startswith("errors: fit() raised RuntimeError: cannot schedule")
    assert message.endswith("though nothing failed")


# Errors of a fit() that something else ends


def attached(error: BaseException, failure: BaseException, how: str) -> BaseException:
    """The training error with a failure of a dump attached to it."""
    if how == "note":
        error.__notes__ = [str(failure)]
    elif how == "context":
        error.__context__ = failure
    elif how == "cause":
        error.__cause__ = failure
    return error


@pytest.mark.parametrize("how", ["note", "context", "cause"])
def test_a_failure_that_is_attached_is_not_accused(how: str) -> None:
    """A failure may be attached to the training error in any way that lets it be found."""
    story = Exit("step-raises", write="failing")
    story.dump(STEP)
    error = story.train(TrainingError())
    story.leave(attached(error, failed(STEP, story.strike("write", TEMP)), how))
    assert story.told == ()


def test_a_failure_that_is_not_attached_is_accused() -> None:
    """A training error that tells nothing of the failed dump lets it be forgotten."""
    story = Exit("step-raises", write="failing")
    story.dump(STEP)
    error = story.train(TrainingError("the loss is not finite"))
    story.strike("write", TEMP)
    story.leave(error)
    (message,) = story.told
    assert message.startswith(f"errors: dump 1 (step {STEP}) failed, and what fit() raised does not tell")
    assert message.endswith("TrainingError: the loss is not finite")


@pytest.mark.parametrize("hidden", [False, True], ids=["reachable", "hidden"])
def test_a_failure_in_the_place_of_the_training_error_is_accused(hidden: bool) -> None:
    """The training error is what propagates, whether or not it could still be found behind the dump's."""
    story = Exit("checkpoint-raises", write="failing")
    story.dump(STEP)
    failure = failed(STEP, story.strike("write", TEMP))
    training = story.train(TrainingError())
    if not hidden:
        failure.__context__ = training
    story.leave(failure)
    (message,) = story.told
    assert message.startswith(f"errors: fit() raised DumpError: dump of step {STEP}")
    assert message.endswith("instead of the TrainingError")


def test_a_training_error_that_is_swallowed_is_accused() -> None:
    """A fit() that returns though its training has failed is accused once, of that."""
    story = Exit("logging-raises")
    story.write(story.dump(STEP))
    story.train(TrainingError())
    story.leave()
    assert story.told == ("errors: fit() swallowed the TrainingError",)


@pytest.mark.parametrize(
    ("way", "error"),
    [("keyboard-interrupt", KeyboardInterrupt()), ("system-exit", SystemExit(3))],
    ids=["interrupt", "exit"],
)
def test_an_interrupt_stays_what_propagates(way: str, error: BaseException) -> None:
    """An interrupt or exit that leaves fit() as it came is right, and the data are judged all the same."""
    story = Exit(way)
    number = story.dump(STEP)
    story.train(error)
    story.leave(error)
    assert story.told == (lost(),)
    story.events[-2:] = []
    story.write(number)
    story.leave(error)
    assert story.told == ()


# A second fit()


def test_what_the_first_fit_has_raised_is_not_raised_again() -> None:
    """A second fit() that raises the failure which the first had raised is poisoned."""
    for again in (False, True):
        story = Exit("second-fit", write="failing")
        story.dump(STEP)
        failure = failed(STEP, story.strike("write", TEMP))
        story.leave(failure)
        story.write(story.dump(STEP + 1))
        story.leave(failure if again else None)
        message = f"errors: the second fit() raised the failure of dump 1 (step {STEP}) again, which the first had raised"
        assert story.told == (message,) * again


def test_each_fit_answers_for_its_own_dumps() -> None:
    """A dump of the first fit() that comes in the second came too late."""
    story = Exit("second-fit")
    first = story.dump(STEP)
    story.leave()
    story.write(first)
    story.write(story.dump(STEP + 1))
    story.leave()
    assert story.told == (f"{lost()}; written later, while the process lived",)


# The end of a process


def test_what_is_there_when_the_process_has_ended_counts() -> None:
    """Where the process ends by itself, a dump may come after fit() and before that end."""
    story = Exit("sigint")
    number = story.dump(STEP)
    story.leave(KeyboardInterrupt())
    story.write(number)
    story.exit(-2, "KeyboardInterrupt")
    assert story.told == ()


def test_what_is_found_only_after_the_end_of_the_process_counts() -> None:
    """A file that nobody saw while the process lived, but that is there after its end, came in time."""
    story = Exit("sigint")
    number = story.dump(STEP)
    story.leave(KeyboardInterrupt())
    story.exit(-2, "KeyboardInterrupt")
    story.files[story.names[number]] = story.content(number)
    assert story.told == ()


def test_what_is_not_there_when_the_process_has_ended_is_lost() -> None:
    """A dump that is missing when the process has ended is accused, and none of the errors."""
    story = Exit("sigterm")
    story.dump(STEP)
    story.exit(-15)
    assert story.told == (lost(when="process"),)


@pytest.mark.parametrize(
    ("stderr", "accused"),
    [
        ("", True),
        ("gave up after 30 s", True),
        (f"Training: 33% {STEP}/{STEP + 2} Exception in thread", True),
        (f"not on disk after 30 s: step {STEP}", False),
    ],
    ids=["silent", "without-step", "progress-bar", "with-step"],
)
def test_a_stuck_write_may_be_given_up_where_its_step_is_named(stderr: str, accused: bool) -> None:
    """Past a deadline a stuck dump may stay behind, when the process says which."""
    story = Exit("undrained", write="stuck")
    story.dump(STEP)
    story.operate("write", TEMP, fault="stuck")
    story.exit(0, stderr)
    assert (story.told != ()) is accused


def test_a_healthy_dump_is_not_given_up() -> None:
    """A step that is named on stderr is lost all the same where nothing was stuck."""
    story = Exit("undrained")
    story.dump(STEP)
    story.exit(0, f"step {STEP} is not on disk")
    assert story.told == (lost(when="process"),)


def ended(raised: BaseException | None, stderr: str, code: int = 1) -> tuple[str, ...]:
    """What is said of a process with one failed dump that ends by SIGTERM."""
    story = Exit("sigterm", write="failing")
    story.dump(STEP)
    story.strike("write", TEMP)
    story.leave(raised)
    story.exit(code, stderr)
    return story.told


@pytest.mark.parametrize(
    ("raised", "stderr"),
    [
        pytest.param(None, f"dump of step {STEP} failed", id="stderr"),
        pytest.param(SystemExit(143), "OSError: [Errno 28] No space left on device", id="errno-on-stderr"),
        pytest.param(failed(STEP), "", id="raised"),
        pytest.param(attached(KeyboardInterrupt(), failed(STEP), "note"), "", id="attached-to-an-interrupt"),
    ],
)
def test_a_process_that_tells_is_not_accused(raised: BaseException | None, stderr: str) -> None:
    """A failure is told where stderr says so, or where the process ends of an exception that holds it."""
    assert ended(raised, stderr) == ()


@pytest.mark.parametrize(
    ("raised", "stderr"),
    [
        pytest.param(None, "", id="silent"),
        pytest.param(None, "Killed", id="of-something-else"),
        pytest.param(attached(SystemExit(143), failed(STEP), "note"), "", id="attached-to-an-exit"),
        pytest.param(KeyboardInterrupt(), "KeyboardInterrupt", id="not-attached"),
    ],
)
def test_a_process_that_does_not_tell_is_accused(raised: BaseException | None, stderr: str) -> None:
    """An exit code alone tells of no dump, and nobody is shown what is attached to a SystemExit."""
    assert ended(raised, stderr, 143) == (
        f"errors: dump 1 (step {STEP}) failed, and the process ended with 143 and did not say so",
    )


@pytest.mark.parametrize(
    ("stderr", "silent"),
    [
        (f"dump of step {STEP} failed\ndump of step {STEP + 1} failed", 0),
        ("a dump failed: No space left on device\nDump failed: No space left on device", 0),
        (f"dump of step {STEP} failed: No space left on device", 1),
        (f"dump of step {STEP} failed\nOSError: No space left on device", 1),
        (f"dump of step {STEP} failed\n  in dump: No space left on device", 1),
    ],
    ids=["by-step", "by-line", "the-first-only", "the-first-at-length", "the-first-with-its-traceback"],
)
def test_every_failure_is_told_at_the_end_of_a_process(stderr: str, silent: int) -> None:
    """Of two failures, stderr has to tell both: by their steps, or by a line each."""
    story = Exit("sigterm", "several", "failing twice")
    for i in range(2):
        story.dump(STEP + i)
        story.strike("write", f"dump/.{STEP + i}.tmp")
    story.exit(143, stderr)
    assert len(story.told) == silent
    assert all(f"dump 2 (step {STEP + 1})" in message for message in story.told)


def test_after_a_kill_only_whole_files_are_asked_for() -> None:
    """A process that is gone at once may lose what was pending, with its failures."""
    for way in ("os-exit", "sigkill"):
        story = Exit(way, write="failing")
        story.dump(STEP)
        story.strike("write", TEMP)
        story.exit(3)
        assert story.told == ()


@pytest.mark.parametrize("way", ["os-exit", "sigkill"])
def test_after_a_kill_whole_files_and_temporary_ones_may_be_there(way: str) -> None:
    """What was published before the kill is whole, and what was on its way there may be torn."""
    story = Exit(way, "several", write="slow")
    story.write(story.dump(STEP))
    story.dump(STEP + 1)
    story.files[f"dump/.{STEP + 1}.tmp"] = b"half"
    story.exit(-9)
    assert story.told == ()


@pytest.mark.parametrize("way", ["os-exit", "sigkill"])
def test_after_a_kill_a_torn_file_is_accused(way: str) -> None:
    """What is under a final name is whole, whatever has ended the process."""
    story = Exit(way, write="slow")
    number = story.dump(STEP)
    story.put(story.names[number], story.content(number)[:-5])
    story.exit(-9)
    size = len(story.content(number).splitlines()[1]) - 4
    assert story.told == (
        f"data: dump/{STEP}.jsonl holds 1 complete row and a torn one of {size} bytes of 2 rows",
    )


# Ray


@pytest.mark.parametrize("driver", [None, "ActorDiedError", f"RayTaskError: dump of step {STEP} failed"])
def test_the_driver_of_an_actor_has_to_be_told(driver: str | None) -> None:
    """What fit() raises in an actor counts when the driver got it, with the step."""
    story = Exit("ray-return", write="failing")
    story.dump(STEP)
    story.leave(failed(STEP, story.strike("write", TEMP)))
    if driver is not None:
        story.mark("driver", driver)
    assert (story.told == ()) is (driver is not None and str(STEP) in driver)


# The rest


def test_a_way_that_never_ends_is_accused_of_both() -> None:
    """A fit(), or a process, that never ends has neither data nor errors to show."""
    story = Exit("last-step", write="stuck")
    story.dump(STEP)
    story.events.append(Hung("fit"))
    assert story.told == ("data: fit never ended", "errors: fit never ended")
    history = replace(story.history(), scenario=story.cell.scenario)
    assert relevant(history, frozenset({"X2", "D1"})) == {"X2", "E8"}


def test_other_scenarios_are_not_judged_by_the_matrix() -> None:
    """A history that is no cell of the matrix says nothing of the ways out."""
    story = Story()
    story.dump(STEP)
    story.end("fit", RuntimeError("boom"))
    assert story.accused("X2") == ()
