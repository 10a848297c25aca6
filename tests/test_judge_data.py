"""The judge of group D accuses every smallest violation and no correct writer."""

from __future__ import annotations

import json
import re

import pytest

from tests.histories import DumpError, Story, failed, refused

STEP = 7_000_001


def one_dump(content: bytes | None = None, plan: str = "none") -> Story:
    """One dump and a drain, after which the file holds `content`, by default what it should."""
    story = Story(plan)
    number = story.dump(STEP)
    story.put(story.names[number], story.content(number) if content is None else content)
    story.drain()
    return story


# D1


def test_a_file_that_holds_the_dump_is_not_accused() -> None:
    """A dump whose every row is in its file breaks no law of the data."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain()
    for law in ("D1", "D2", "D3", "D4", "D6"):
        assert story.accused(law) == ()


def test_key_order_and_whitespace_are_the_writers_own() -> None:
    """A row is judged by its JSON value, not by its spelling."""
    story = Story()
    number = story.dump(STEP)
    rows = [json.loads(row) for row in story.rows[number]]
    spelled = "".join(
        "  " + json.dumps(dict(reversed(row.items())), ensure_ascii=False, separators=(" , ", ":\t")) + " \n"
        for row in rows
    )
    story.put(story.names[number], spelled.encode())
    story.drain()
    assert story.accused("D1") == story.accused("D2") == story.accused("D3") == ()


def test_a_lost_file_is_accused() -> None:
    """A dump that was accepted and is nowhere violates D1."""
    story = Story()
    story.dump(STEP)
    story.drain()
    (message,) = story.accused("D1")
    assert message == (
        f"dump 1 (step {STEP}) was accepted and drained without error, but there is no dump/{STEP}.jsonl"
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param(lambda rows: rows[:1], "holds 1 row instead of 2", id="row-lost"),
        pytest.param(lambda rows: rows[::-1], "row 1 of .* has another", id="order"),
        pytest.param(lambda rows: [{**rows[0], "gts": "no"}, rows[1]], "has another 'gts'", id="value"),
        pytest.param(
            lambda rows: [{k: v for k, v in row.items() if k != "gts"} for row in rows],
            "row 1 of .* lacks 'gts'",
            id="column-lost",
        ),
        pytest.param(
            lambda rows: [{**row, "score": str(row["score"])} for row in rows],
            "has another 'score'",
            id="type",
        ),
        pytest.param(
            lambda rows: [{**row, "more": 1} for row in rows], "has the extra 'more'", id="column-added"
        ),
        pytest.param(lambda rows: [*rows, rows[0]], "holds 1 row that nobody handed over", id="row-again"),
        pytest.param(lambda rows: [*rows, *rows], "holds 2 rows that nobody handed over", id="rows-again"),
    ],
)
def test_changed_rows_are_accused(change: object, word: str) -> None:
    """Rows lost, reordered, added or changed in a value, a column or a JSON type violate D1."""
    story = Story()
    number = story.dump(STEP)
    rows = change([json.loads(row) for row in story.rows[number]])
    story.put(story.names[number], "".join(json.dumps(row) + "\n" for row in rows).encode())
    story.drain()
    (message,) = story.accused("D1")
    assert re.search(word, message)


def test_an_error_on_a_healthy_disk_is_accused() -> None:
    """A writer that fails a dump, or its drain, although nothing failed, violates D1."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain(DumpError("something else"))
    assert story.accused("D1") == ("on a healthy disk drain raised DumpError: something else",)
    story = Story()
    story.dump(STEP, ValueError("no"))
    assert story.accused("D1") == ("on a healthy disk the call of dump 1 raised ValueError: no",)


def test_a_refusal_is_not_a_loss() -> None:
    """A dump whose call says that it was not accepted need not be on disk."""
    story = Story()
    story.dump(STEP, refused(STEP))
    story.drain()
    assert story.accused("D1") == ()


def test_a_writer_that_raises_on_a_short_write_lost_nothing_silently() -> None:
    """D1 is about dumps without an error: one whose short write was raised as a failure is not accused."""
    story = Story("write#1:short(7)")
    story.dump(STEP)
    story.operate("write", f"dump/.{STEP}.jsonl.tmp", fault="short(7)")
    story.drain(failed(STEP, OSError("7 of 200 bytes were written")))
    assert story.accused("D1") == ()
    story = Story("write#1:short(7)")
    story.dump(STEP)
    story.operate("write", f"dump/.{STEP}.jsonl.tmp", fault="short(7)")
    story.drain()
    assert len(story.accused("D1")) == 1


def test_a_step_dumped_again_by_a_restarted_run_replaces_the_first() -> None:
    """What a restarted run wrote again may take the place of the earlier rows."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain()
    story.mark("new run")
    story.write(story.dump(STEP, rows=3))
    story.drain()
    assert story.accused("D1") == story.accused("D6") == story.accused("D2") == ()


# D2


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda content: content[:-1], id="newline-missing"),
        pytest.param(lambda content: content[: content.index(b"\n") + 1], id="row-missing"),
        pytest.param(lambda content: content[: len(content) // 3], id="torn-in-first-row"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda content: b"\0" * len(content), id="zeros"),
        pytest.param(lambda content: b"\xff" + content, id="not-utf-8"),
        pytest.param(lambda content: content + content[: content.index(b"\n") + 1], id="row-twice"),
        pytest.param(lambda content: content + content, id="dump-twice"),
    ],
)
def test_an_incomplete_file_under_the_final_name_is_accused_at_any_instant(cut: object) -> None:
    """A file that was incomplete for one moment violates D2, though it is whole in the end."""
    story = Story()
    number = story.dump(STEP)
    story.operate("open", story.names[number])
    story.put(story.names[number], cut(story.content(number)))
    story.operate("write", story.names[number])
    story.put(story.names[number], story.content(number))
    story.drain()
    (message,) = story.accused("D2")
    assert message.startswith(f"before operation 2, dump/{STEP}.jsonl held ")
    assert message.endswith("of 2 rows")
    assert story.accused("D3") == ()


def test_rows_of_a_dump_that_was_not_yet_handed_over_are_accused() -> None:
    """What lies under a final name can only be what had been handed over by then."""
    story = Story()
    first = story.dump(STEP)
    story.rows.append(("{}",))
    story.put(story.names[first], b'{"input": "from nowhere"}\n')
    assert len(story.accused("D2")) == 1


@pytest.mark.parametrize("order", [pytest.param((0, 1), id="in-order"), pytest.param((1, 0), id="swapped")])
def test_merged_batches_of_one_step_are_whole(order: tuple[int, int]) -> None:
    """A file that holds several whole batches of its step, each once, is complete."""
    story = Story()
    for _ in range(2):
        story.dump(STEP)
    story.put(story.names[0], story.content(0))
    story.put(story.names[0], story.content(*order))
    assert story.accused("D2") == story.accused("D6") == ()


def test_interleaved_batches_are_not_whole() -> None:
    """Rows of two batches mixed with each other are no complete file."""
    story = Story()
    for _ in range(2):
        story.dump(STEP)
    rows = [row for pair in zip(story.rows[0], story.rows[1], strict=True) for row in pair]
    story.put(story.names[0], "".join(row + "\n" for row in rows).encode())
    assert len(story.accused("D2")) == 1


@pytest.mark.parametrize("merge", [False, True], ids=["replaced", "appended"])
def test_an_older_file_may_stay_or_be_replaced_or_appended_to(merge: bool) -> None:
    """The file of an earlier run, byte for byte, is complete, and so is what replaces or extends it."""
    story = Story()
    old = b'{"input": "older"}\n'
    story.older(f"dump/{STEP}.jsonl", old)
    story.put(f"dump/{STEP}.jsonl", old)
    number = story.dump(STEP)
    story.put(f"dump/{STEP}.jsonl", (old if merge else b"") + story.content(number))
    story.drain()
    assert story.accused("D1") == story.accused("D2") == story.accused("D3") == ()


def test_an_older_file_cut_short_is_accused() -> None:
    """The file of an earlier run that lost its rows while a new one was written violates D2."""
    story = Story("write#1:ENOSPC")
    story.older(f"dump/{STEP}.jsonl", b'{"input": "older"}\n{"input": "older too"}\n')
    story.dump(STEP)
    story.put(f"dump/{STEP}.jsonl", b'{"input": "older"}\n')
    assert len(story.accused("D2")) == 1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param(f"dump/{STEP}.tmp.jsonl", True, id="temporary-name"),
        pytest.param(f"dump/.{STEP}.jsonl", True, id="hidden-name"),
        pytest.param(f"dump/staging/{STEP}.jsonl", True, id="folder-below"),
        pytest.param(f"dump/.staging/{STEP}.jsonl", False, id="hidden-folder-below"),
        pytest.param(f"elsewhere/{STEP}.jsonl", False, id="another-directory"),
    ],
)
def test_another_file_that_readers_would_find_is_accused(name: str, wrong: bool) -> None:
    """No other name in the dump directory matches *.jsonl, not even for an instant."""
    story = Story()
    number = story.dump(STEP)
    story.put(name, story.content(number))
    story.put(name, None)
    story.write(number)
    assert story.accused("D2") == ((f"{name} matches *.jsonl but is no dump",) if wrong else ())


def test_a_torn_file_left_by_a_kill_is_accused() -> None:
    """A file under a final name is whole also after the process was killed."""
    story = Story("write#1:kill")
    number = story.dump(STEP)
    story.exit(-9)
    story.operations = -1
    story.put(story.names[number], story.content(number)[:-5])
    (message,) = story.accused("D2")
    assert message.startswith("after the process was killed, ")


def test_a_file_that_is_gone_is_not_torn() -> None:
    """A name that has no file (any more) holds nothing incomplete."""
    story = Story("write#2:vanish")
    story.write(story.dump(STEP))
    story.put(story.names[0], None)
    assert story.accused("D2") == ()


# D3


def test_a_temporary_file_after_drain_is_accused() -> None:
    """A failed dump that leaves its temporary file behind violates D3."""
    story = Story("write#1:ENOSPC")
    story.dump(STEP)
    error = story.strike("write", f"dump/.{STEP}.tmp")
    story.files[f"dump/.{STEP}.tmp"] = b"half"
    story.drain(failed(STEP, error))
    assert story.accused("D3") == (f"after drain dump/.{STEP}.tmp is left behind (4 bytes)",)


@pytest.mark.parametrize(
    ("kind", "path", "excused"),
    [
        pytest.param("unlink", f"dump/.stage/{STEP}.part", True, id="unlink-of-the-file"),
        pytest.param("open", "dump/.stage", True, id="its-folder-cannot-be-listed"),
        pytest.param("unlink", "dump/.stage/another", False, id="unlink-of-another"),
        pytest.param("write", f"dump/.stage/{STEP}.part", False, id="write-of-the-file"),
        pytest.param("open", "dump", False, id="sync-of-the-dump-directory"),
    ],
)
def test_what_could_not_be_removed_is_excused(kind: str, path: str, excused: bool) -> None:
    """A file stays without blame only where the operation that removes it was made to fail."""
    story = Story(f"{kind}#1:EIO")
    story.dump(STEP)
    error = story.strike(kind, path, fault="EIO")
    story.files[f"dump/.stage/{STEP}.part"] = b"half"
    story.drain(failed(STEP, error))
    assert bool(story.accused("D3")) is not excused


def test_what_a_killed_process_left_is_excused() -> None:
    """A temporary file of a killed process may stay, since nobody was left to remove it."""
    story = Story("write#1:kill")
    story.dump(STEP)
    story.files[f"dump/.{STEP}.tmp"] = b"half"
    story.exit(-9)
    story.mark("killed")
    assert story.accused("D3") == ()


def test_a_partial_file_after_drain_is_accused() -> None:
    """A failed dump that leaves part of itself under the final name violates D3."""
    story = Story("write#2:ENOSPC")
    number = story.dump(STEP)
    error = story.strike("write", story.names[number])
    story.put(story.names[number], story.content(number)[:-3])
    story.drain(failed(STEP, error))
    (message,) = story.accused("D3")
    assert message.startswith(f"after drain dump/{STEP}.jsonl holds 1 complete row and a torn one of ")


def test_an_older_file_that_a_failure_removed_is_accused() -> None:
    """The complete file of an earlier run must outlive the failure of its replacement, unless the plan removes it."""
    for plan, wrong in (("rename#1:EIO", True), ("rename#1:vanish", False)):
        story = Story(plan)
        story.older(f"dump/{STEP}.jsonl", b'{"input": "older"}\n')
        story.dump(STEP)
        story.put(f"dump/{STEP}.jsonl", None)
        assert bool(story.accused("D3")) is wrong


# D4


def test_a_dump_lost_beside_a_failed_one_is_accused() -> None:
    """One failed operation costs one dump: a second missing one violates D4."""
    story = Story("write#1:ENOSPC")
    story.dump(STEP)
    story.dump(STEP + 1)
    error = story.strike("write", f"dump/.{STEP}.tmp")
    story.drain(failed(STEP, error))
    (message,) = story.accused("D4")
    assert message == f"1 operation failed, but 2 dumps are missing (steps {STEP}, {STEP + 1})"


def test_a_writer_that_tries_again_in_vain_does_not_hide_another_loss() -> None:
    """However often one dump was tried, it does not excuse the loss of another that was never struck."""
    story = Story("write#1+:ENOSPC")
    story.dump(STEP)
    story.dump(STEP + 1)
    for _ in range(3):
        error = story.strike("write", f"dump/.{STEP}.tmp")
    story.drain(failed(STEP, error))
    (message,) = story.accused("D4")
    assert message == f"dump 2 (step {STEP + 1}) is missing, though only other dumps' operations failed"


@pytest.mark.parametrize("second_is_lost", [False, True])
def test_random_names_excuse_one_dump_each(second_is_lost: bool) -> None:
    """An operation on a random name may have been any one dump's, but not two dumps'."""
    story = Story("write#1:ENOSPC")
    first, second = story.dump(STEP), story.dump(STEP + 1)
    error = story.strike("write", "dump/tmpab12cd")
    if not second_is_lost:
        story.write(second, temp="dump/tmpzz")
    story.drain(failed(STEP, error))
    assert first == 0
    assert bool(story.accused("D4")) is second_is_lost


def test_a_batch_that_was_not_accepted_is_not_lost() -> None:
    """A call that says that it did not take its batch lost nothing."""
    story = Story("write#1:ENOSPC")
    story.dump(STEP)
    error = story.strike("write", f"dump/.{STEP}.tmp")
    story.dump(STEP + 1, DumpError(f"step {STEP + 1} was not accepted: step {STEP} failed before"))
    story.drain(failed(STEP, error))
    assert story.accused("D4") == ()


def test_each_of_several_struck_dumps_may_be_missing() -> None:
    """Dumps that were each struck are each missing without violating D4."""
    story = Story("write#1+:ENOSPC")
    errors = []
    for step in (STEP, STEP + 1):
        story.dump(step)
        errors.append(failed(step, story.strike("write", f"dump/.{step}.tmp")))
    errors[0].__context__ = errors[1]
    story.drain(errors[0])
    assert story.accused("D4") == ()


# D5


def twins(change: object = None, *, first: bool = True, error: BaseException | None = None) -> Story:
    """Two dumps with equal rows, the second of which the caller changed after its call."""
    story = Story()
    story.dump(STEP)
    story.dump(STEP + 1)
    story.rows[1] = tuple(json.dumps({**json.loads(row), "step": STEP + 1}) for row in story.rows[0])
    rows = [json.loads(row) for row in story.rows[1]]
    if first:
        story.put(story.names[0], story.content(0))
    rows = change(rows) if change is not None else rows
    if rows is not None:
        story.put(story.names[1], "".join(json.dumps(row) + "\n" for row in rows).encode())
    story.mark("twins", "0 1")
    story.drain(error)
    return story


def test_equal_twins_are_not_accused() -> None:
    """A dump that equals its twin but for the step holds D5."""
    assert twins().accused("D5") == ()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param(
            lambda rows: [{**row, "output": "changed"} for row in rows], "differs in 'output'", id="value"
        ),
        pytest.param(lambda rows: [{**row, "info": {}} for row in rows], "differs in 'info'", id="nested"),
        pytest.param(lambda rows: [{**row, "late": 1} for row in rows], "differs in 'late'", id="column"),
        pytest.param(lambda rows: rows[:1], "1 row of dump 2 .* instead of 2", id="fewer-rows"),
        pytest.param(lambda rows: [{**row, "step": 9} for row in rows], "carry step", id="step"),
        pytest.param(lambda _: None, "is missing or torn", id="missing"),
    ],
)
def test_a_twin_that_follows_the_callers_change_is_accused(change: object, word: str) -> None:
    """Whatever the caller's change after the call does to the file violates D5."""
    (message,) = twins(change).accused("D5")
    assert re.search(word, message)


def test_a_dump_that_went_under_a_later_step_is_accused() -> None:
    """A step that is read after the call takes the file to another name."""
    assert "global_steps was advanced" in twins(lambda _: None, first=False).accused("D5")[0]


def test_twins_that_both_failed_say_nothing_of_changes() -> None:
    """Where neither file is there because an error was raised, D5 has nothing to compare."""
    assert twins(lambda _: None, first=False, error=failed(STEP)).accused("D5") == ()


# D6


def test_a_second_dump_of_a_step_that_replaces_the_first_is_accused() -> None:
    """Rows of the first dump that the second one took away violate D6."""
    story = Story()
    story.write(story.dump(STEP))
    story.write(story.dump(STEP))
    story.drain()
    (message,) = story.accused("D6")
    assert message.startswith(f"the rows of dump 1 (step {STEP}) were on disk;")


def test_a_first_dump_of_a_step_that_was_never_written_is_accused() -> None:
    """Of two waiting dumps of one step, the one that the other displaced in the queue violates D6."""
    story = Story()
    story.dump(STEP)
    story.write(story.dump(STEP))
    story.drain()
    (message,) = story.accused("D6")
    assert message.endswith(f"the rows of dump 1 (step {STEP}) are lost and nobody was told")


def test_a_writer_that_refuses_a_second_dump_of_a_step_is_not_accused() -> None:
    """To refuse the second dump with an error loses nothing silently."""
    story = Story()
    story.write(story.dump(STEP))
    story.dump(STEP, refused(STEP))
    story.drain()
    assert story.accused("D6") == ()


def test_rows_taken_away_by_a_failed_second_dump_are_accused() -> None:
    """The one failure that is raised accounts for one of the two dumps: the rows of the other are lost silently."""
    story = Story("write#2:ENOSPC")
    story.write(story.dump(STEP))
    story.dump(STEP)
    error = story.strike("write", story.names[0])
    story.put(story.names[0], None)
    story.drain(failed(STEP, error))
    assert len(story.accused("D6")) == 1


def test_rows_merged_from_a_file_that_could_not_be_read_are_accused() -> None:
    """A writer that takes an unreadable older part for an empty one loses the first dump's rows silently."""
    story = Story("read#1:EIO")
    story.write(story.dump(STEP))
    second = story.dump(STEP)
    story.strike("read", story.names[0], fault="EIO")
    story.write(second)
    story.drain()
    assert len(story.accused("D6")) == 1


def test_a_first_dump_that_was_raised_as_failed_may_be_replaced() -> None:
    """A dump that was on disk and yet failed (its directory could not be synced) was told of, and may go."""
    story = Story("fsyncdir#1:EIO")
    story.write(story.dump(STEP))
    error = story.strike("fsyncdir", "dump", fault="EIO")
    second = story.dump(STEP, failed(STEP, error))
    story.write(second)
    story.drain()
    assert story.accused("D6") == ()


def test_a_restarted_run_whose_dump_vanishes_is_accused() -> None:
    """What the restarted run dumped is on disk in the end, or its failure was raised."""
    for error, wrong in ((None, True), (refused(STEP), False)):
        story = Story()
        story.write(story.dump(STEP))
        story.drain()
        story.mark("new run")
        story.dump(STEP, error)
        story.drain()
        messages = story.accused("D6")
        assert bool(messages) is wrong
        assert all(f"dump 2 (step {STEP}) of the restarted run is not on disk" in m for m in messages)


def test_one_step_in_two_directories_is_two_files() -> None:
    """Equal steps in different directories have nothing to do with each other."""
    story = Story()
    story.write(story.dump(STEP, directory="train"))
    story.write(story.dump(STEP, directory="val"))
    story.drain()
    for law in ("D1", "D2", "D3", "D6"):
        assert story.accused(law) == ()


def test_a_writer_that_refuses_every_further_dump_of_a_step_is_not_accused() -> None:
    """Each refusal accounts for its own dump, whatever was refused before."""
    story = Story()
    story.write(story.dump(STEP))
    for _ in range(2):
        story.dump(STEP, refused(STEP))
        story.drain()
    assert story.accused("D6") == ()
