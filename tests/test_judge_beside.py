"""What the rules about data leave to other rules, excuse, go on after, and say: case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fault_injection.history import Mark, Seen
from fault_injection.judge import judge
from tests.histories import Story, failed, refused
from tests.test_judge_data import twins

STEP = 3


def with_file(name: str, *, renamed: bool, directory: str = "dump") -> Story:
    """A whole dump, and beside it at the end another file, which may have been renamed into place."""
    story = Story()
    story.write(story.dump(STEP, directory=directory))
    if renamed:
        story.operate("open", f"{directory}/.new")
        story.operate("rename", f"{directory}/.new", name)
    story.files[name] = b"{}\n"
    story.drain()
    return story


@pytest.mark.parametrize(
    ("name", "renamed", "directory", "wrong"),
    [
        pytest.param("dump/index.json", True, "dump", False, id="index"),
        pytest.param("dump/index.json", False, "dump", True, id="never-renamed"),
        pytest.param(f"dump/{STEP}.json", True, "dump", True, id="of-a-step"),
        pytest.param("dump/index.jsonl", True, "dump", True, id="read-as-a-dump"),
        pytest.param(f"dump/{STEP}/index.json", True, f"dump/{STEP}", False, id="folder-named-like-a-step"),
    ],
)
def test_a_file_that_was_renamed_into_place_may_stay(
    name: str, renamed: bool, directory: str, wrong: bool
) -> None:
    """A writer may keep an index beside its dumps: renamed into place, of no step, and no reader's dump."""
    found = with_file(name, renamed=renamed, directory=directory).accused("D3")
    assert found == ((f"after drain {name} is left behind (3 bytes)",) if wrong else ())


@pytest.mark.parametrize(("name", "wrong"), [("dump/index.json", False), (f"dump/{STEP}.json", True)])
def test_in_memory_the_renames_are_not_seen(name: str, wrong: bool) -> None:
    """Where operations are not recorded, a file of no step is not held against the writer, one of a step is."""
    history = replace(with_file(name, renamed=False).history(), mechanism="memory")
    assert len(judge(history, frozenset({"D3"}))) == wrong


@pytest.mark.parametrize("law", ["D1", "D4"])
@pytest.mark.parametrize("fault", ["", "ENOSPC", "vanish", "replace", "kill", "torn"])
def test_each_loss_is_the_matter_of_one_law(law: str, fault: str) -> None:
    """D1 is about disks that cannot fail and D4 about those that can, but for directories that are taken away."""
    story = Story(f"write#9:{fault}" if fault else "none")
    story.dump(STEP)
    story.drain()
    of_law = {"D1": {""}, "D4": {"ENOSPC", "kill", "torn"}}
    assert len(story.accused(law)) == (fault in of_law[law])


@pytest.mark.parametrize("before", ["written", "refused"])
def test_a_loss_after_a_dump_that_is_well_is_accused(before: str) -> None:
    """A dump that was written, or refused, excuses none that comes later."""
    story = Story()
    first = story.dump(STEP, refused(STEP) if before == "refused" else None)
    if before == "written":
        story.write(first)
    story.dump(STEP + 1)
    story.drain()
    (message,) = story.accused("D1")
    assert message.startswith(f"dump 2 (step {STEP + 1})")


def test_files_seen_at_one_instant_are_all_looked_at() -> None:
    """A file that is gone does not hide a torn one that is seen at the same time."""
    story = Story("write#2:vanish")
    story.dump(STEP)
    story.dump(STEP + 1)
    torn = story.content(1)[:-5]
    story.events.append(Seen(1, ((story.names[0], None), (story.names[1], torn))))
    (message,) = story.accused("D2")
    assert story.names[1] in message


@pytest.mark.parametrize(
    ("number", "code", "later", "when"),
    [
        pytest.param(4, None, False, "before operation 4", id="operation"),
        pytest.param(0, None, True, "while the writer was at rest", id="rest"),
        pytest.param(0, None, False, "at the end", id="end"),
        pytest.param(0, 0, False, "at the end", id="end-of-process"),
        pytest.param(0, -9, False, "after the process was killed", id="kill"),
    ],
)
def test_the_instant_of_a_torn_file_is_told(number: int, code: int | None, later: bool, when: str) -> None:
    """What D2 says begins with the instant at which the file was seen, and tells what it held of what."""
    story = Story()
    story.dump(STEP)
    story.operate("open", f"dump/{STEP}.jsonl")
    if code is not None:
        story.exit(code)
    story.events.append(Seen(number, ((story.names[0], story.content(0)[:-5]),)))
    if later:
        story.operate("close", f"dump/{STEP}.jsonl")
    (message,) = story.accused("D2")
    size = len(story.content(0).splitlines()[1]) - 4
    assert message == f"{when}, {story.names[0]} held 1 complete row and a torn one of {size} bytes of 2 rows"


def test_a_partial_file_after_drain_is_told_of_in_rows() -> None:
    """What D3 says of a file that was cut short is what it holds, and of how many rows."""
    story = Story()
    story.dump(STEP)
    story.put(story.names[0], story.content(0).splitlines(keepends=True)[1])
    story.drain()
    assert story.accused("D3") == (f"after drain {story.names[0]} holds 1 complete row of 2 rows",)


@pytest.mark.parametrize(
    ("strikes", "dumps", "message"),
    [
        pytest.param(0, 1, "0 operations failed, but 1 dump is missing (steps 3)", id="none"),
        pytest.param(1, 2, "1 operation failed, but 2 dumps are missing (steps 3, 4)", id="one"),
        pytest.param(2, 3, "2 operations failed, but 3 dumps are missing (steps 3, 4, 5)", id="two"),
    ],
)
def test_what_is_lost_beyond_the_strikes_is_counted(strikes: int, dumps: int, message: str) -> None:
    """Where more dumps are missing than operations failed, D4 tells both numbers and the steps."""
    story = Story("write#1+:ENOSPC")
    errors = []
    for number in range(dumps):
        story.dump(STEP + number)
        if number < strikes:
            errors.append(failed(STEP + number, story.strike("write", f"dump/.{STEP + number}.tmp")))
    for error in errors:
        story.drain(error)
    assert story.accused("D4") == (message,)


def test_a_loss_beside_a_strike_that_was_made_good_is_named() -> None:
    """Where as many dumps are missing as operations failed, but others, D4 names the one that nothing had struck."""
    story = Story("write#1:EIO")
    struck = story.dump(STEP)
    story.strike("write", f"dump/.{STEP}.jsonl.tmp", fault="EIO")
    story.write(struck)
    story.dump(STEP + 1)
    story.drain()
    (message,) = story.accused("D4")
    assert message == "dump 2 (step 4) is missing, though only other dumps' operations failed"


def test_the_row_that_the_caller_changed_is_counted_from_one() -> None:
    """D5 names the row that differs, the first one being row 1."""
    (message,) = twins(lambda rows: [rows[0], {**rows[1], "output": "changed"}]).accused("D5")
    assert "row 2 of dump 2 (step 7000002) differs in 'output'" in message


def test_twins_that_cannot_be_compared_do_not_hide_others() -> None:
    """A pair of which neither is on disk does not end the search for changes."""
    story = twins(lambda rows: [{**row, "output": "changed"} for row in rows])
    story.dump(STEP + 7)
    story.dump(STEP + 8)
    compared = next(i for i, event in enumerate(story.events) if isinstance(event, Mark))
    story.events.insert(compared, Mark("twins", "2 3"))
    story.drain(failed(STEP + 7))
    assert [message for message in story.accused("D5") if "differs in 'output'" in message]


def test_a_step_that_is_excused_does_not_hide_another() -> None:
    """A second dump of a step that was refused does not hide a first one that another replaced."""
    story = Story()
    story.write(story.dump(STEP))
    story.dump(STEP, refused(STEP))
    story.dump(STEP + 1)
    story.write(story.dump(STEP + 1))
    story.drain()
    (message,) = story.accused("D6")
    assert f"step {STEP + 1} was dumped twice" in message


def test_one_exception_may_tell_of_two_strikes() -> None:
    """Two dumps of one step that were on disk once and failed later are told of by one chain that holds both errors."""
    story = Story("write#1+:EIO")
    for number in (story.dump(STEP), story.dump(STEP)):
        story.put(story.names[0], story.content(number))
    story.put(story.names[0], None)
    first, second = (story.strike("write", f"dump/.{STEP}.jsonl.tmp", fault="EIO") for _ in range(2))
    first.__context__ = second
    story.drain(failed(STEP, first))
    assert story.accused("D6") == ()


@pytest.mark.parametrize(
    ("story", "why"),
    [
        pytest.param("nothing", f"there is no dump/{STEP}.jsonl", id="silent"),
        pytest.param(
            "own", f"DumpError: dump of step {STEP} to ROOT/dump/{STEP}.jsonl was not accepted", id="call"
        ),
        pytest.param("drain", f"DumpError: dump of step {STEP} to ROOT/dump/{STEP}.jsonl failed", id="drain"),
        pytest.param("earlier", f"there is no dump/{STEP}.jsonl", id="another-failure-before"),
    ],
)
def test_what_a_locale_costs_is_told_with_its_reason(story: str, why: str) -> None:
    """S3 names each dump that is not on disk, with the failure that came of it or else what is there instead."""
    told = Story()
    if story == "earlier":
        told.end("open", failed(STEP + 1))
    told.dump(STEP, refused(STEP) if story == "own" else None)
    told.drain(failed(STEP) if story == "drain" else None)
    assert told.accused("S3") == (
        f"under a locale of ASCII only dump 1 (step {STEP}) is not on disk as handed over: {why}",
    )


def test_a_dump_that_no_locale_hurts_is_not_accused() -> None:
    """S3 has nothing to say of a dump that is on disk."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain()
    assert story.accused("S3") == ()


def test_every_restarted_run_may_replace_what_those_before_it_wrote() -> None:
    """A step that three runs have dumped is on disk as the last of them dumped it."""
    story = Story()
    for _ in range(3):
        story.write(story.dump(STEP))
        story.drain()
        story.mark("new run")
    assert story.accused("D1") == story.accused("D6") == ()


def test_an_older_file_need_not_be_a_dump() -> None:
    """A file of an earlier run is complete as it was found, whatever it holds."""
    story = Story()
    story.older(f"dump/{STEP}.jsonl", b"no JSON")
    story.put(f"dump/{STEP}.jsonl", b"no JSON")
    number = story.dump(STEP)
    story.put(f"dump/{STEP}.jsonl", story.content(number))
    assert story.accused("D1") == story.accused("D2") == ()


@pytest.mark.parametrize("dumps", [(1,), (0, 1)], ids=["alone", "behind-its-own"])
def test_rows_of_another_step_make_no_file_whole(dumps: tuple[int, ...]) -> None:
    """Rows that were handed over for another step are no complete content of a file, alone or behind its own."""
    story = Story()
    story.dump(STEP)
    story.dump(STEP + 1)
    story.put(f"dump/{STEP}.jsonl", story.content(*dumps))
    assert len(story.accused("D2")) == 1


def test_a_file_that_is_there_before_its_dump_is_accused() -> None:
    """Only what has been handed over by then can be the complete content of a file."""
    story = Story()
    story.put(f"dump/{STEP}.jsonl", story.content(story.dump(STEP)))
    assert story.accused("D2") == ()
    story.events.insert(0, story.events.pop())
    assert len(story.accused("D2")) == 1


def test_an_empty_file_is_a_whole_dump_of_no_rows() -> None:
    """A dump of no rows is whole in a file that is empty."""
    story = Story()
    story.put(f"dump/{STEP}.jsonl", story.content(story.dump(STEP, rows=0)))
    story.drain()
    assert story.accused("D1") == story.accused("D2") == ()


def test_a_torn_file_at_the_end_is_told_of_as_torn() -> None:
    """D1 tells that the file of a dump is torn, where it is."""
    story = Story()
    story.put(f"dump/{STEP}.jsonl", story.content(story.dump(STEP))[:-1])
    story.drain()
    (message,) = story.accused("D1")
    assert message.endswith(f"drained without error, but dump/{STEP}.jsonl is torn")


@pytest.mark.parametrize("where", ["beside", "between"])
def test_rows_that_lie_elsewhere_are_not_lost_to_another_dump(where: str) -> None:
    """D6 is about rows that are nowhere: those under another name, or between others, are for D2 to judge."""
    story = Story()
    first, second = story.dump(STEP), story.dump(STEP)
    if where == "beside":
        story.write(second)
        story.files["dump/first.jsonl"] = story.content(first)
    else:
        lines = (story.content(number).splitlines(keepends=True) for number in (first, second))
        story.put(story.names[first], b"".join(line for pair in zip(*lines, strict=True) for line in pair))
    story.files["dump/torn"] = b"{"
    story.drain()
    assert story.accused("D6") == ()


@pytest.mark.parametrize("kind", ["open", "unlink", "rmdir"])
def test_a_folder_that_could_not_be_removed_is_excused(kind: str) -> None:
    """A folder of the writer's own stays without blame, with what it holds, where removing it was made to fail."""
    story = Story("unlink#1:EIO")
    story.dump(STEP)
    error = story.strike(kind, "dump/.stage", fault="EIO")
    story.files["dump/.stage/part"] = b"half"
    story.drain(failed(STEP, error))
    assert story.accused("D3") == ()


@pytest.mark.parametrize("text", ["1 dump failed", "1 DUMP FAILED", "the Dump at step 3 is Missing"])
def test_a_loss_may_be_told_in_letters_of_any_size(text: str) -> None:
    """What a process says at its end counts whether or not it shouts."""
    story = Story("write#1:EIO")
    story.dump(STEP)
    story.strike("write", f"dump/.{STEP}.jsonl.tmp", fault="EIO")
    story.exit(0, text)
    assert story.accused("E10") == ()


def test_a_dump_that_died_with_its_process_does_not_hide_another() -> None:
    """What nobody had acknowledged before a kill is excused, and what the next run loses of one step is not."""
    story = Story()
    story.dump(STEP)
    story.mark("killed")
    story.mark("new run")
    story.dump(STEP + 1)
    story.write(story.dump(STEP + 1))
    story.drain()
    assert story.accused("D6") == (
        f"step {STEP + 1} was dumped twice in one run; the rows of dump 2 (step {STEP + 1}) are lost and nobody was told",
    )


def test_a_restarted_run_that_is_killed_as_well_is_excused() -> None:
    """The last dump of a step may be missing where its own run was killed before it was acknowledged, too."""
    story = Story()
    story.write(story.dump(STEP))
    story.drain()
    story.mark("new run")
    story.dump(STEP)
    story.mark("killed")
    assert story.accused("D6") == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "nothing"),
        (b"{}\n", "1 complete row"),
        (b"{}\n{}\n{", "2 complete rows and a torn one of 1 bytes"),
        (b'{"a"', "0 complete rows and a torn one of 4 bytes"),
    ],
    ids=["empty", "whole", "torn-behind-rows", "torn"],
)
def test_what_an_older_file_was_cut_to_is_told_in_rows(content: bytes, words: str) -> None:
    """A file of an earlier run that nobody dumped again should hold what it held; what it holds is counted."""
    story = Story()
    story.older("dump/9.jsonl", b'{"input": "older", "step": 9}\n')
    story.put("dump/9.jsonl", content)
    assert story.accused("D2") == (f"before operation 1, dump/9.jsonl held {words} of its content",)
