"""The judge of crash states, in both directions, and what it says that a writer needs."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.crash.judge import Finding, Group, Judge, attributed, needs, sufficient
from fault_injection.crash.model import PROPERTIES
from fault_injection.crash.states import Choice, State
from fault_injection.judge.facts import Facts
from tests.histories import ROOT, Story, failed, refused

FIRST, SECOND = "dump/7.jsonl", "dump/8.jsonl"


def found(story: Story, files: dict[str, bytes], *, lacks: frozenset[str] = frozenset()) -> list[tuple]:
    """What is wrong with some files when the power is lost at the end of a story: law, kind, name."""
    judging = Judge(Facts(story.history()))
    moment = judging.moment(len(story.events))
    state = State(Choice(1), tuple(sorted(files.items())), lacks)
    findings = judging.findings(state, moment)
    assert all(judging.told(each, state) for each in findings)
    return [(each.law, each.kind, each.name) for each in findings]


def drained(*steps: int) -> Story:
    """A story of dumps, all accepted and drained."""
    story = Story()
    for step in steps:
        story.dump(step)
    story.drain()
    return story


def test_what_was_drained_and_is_there_is_sound() -> None:
    """A state with every drained dump, whole, breaks nothing; a hidden leftover does not either."""
    story = drained(7, 8)
    files = {FIRST: story.content(0), SECOND: story.content(1), "dump/.8.jsonl.tmp": b"\0\0"}
    assert found(story, files) == []


@pytest.mark.parametrize(
    ("content", "kind"),
    [(None, "missing"), (b"", "damaged"), (b'{"input": 1', "damaged"), (bytes(40), "damaged")],
    ids=["absent", "empty", "torn", "zeros"],
)
def test_what_was_drained_and_is_not_there_breaks_d7(content: bytes | None, kind: str) -> None:
    """A drained dump that is absent, empty, torn or zeros after a power loss breaks D7, and D7 alone."""
    story = drained(7)
    files = {} if content is None else {FIRST: content}
    assert found(story, files, lacks=frozenset({"data"})) == [("D7", kind, FIRST)]


@pytest.mark.parametrize("content", [None, "whole"], ids=["absent", "whole"])
def test_before_the_drain_nothing_was_promised(content: str | None) -> None:
    """Until drain has returned, a dump may be lost as a whole."""
    story = Story()
    story.dump(7)
    files = {} if content is None else {FIRST: story.content(0)}
    assert found(story, files) == []


def test_before_the_drain_a_torn_file_breaks_d2() -> None:
    """A file under a final name is whole at every instant, also where its dump may still be lost."""
    story = Story()
    story.dump(7)
    assert found(story, {FIRST: story.content(0)[:-9]}) == [("D2", "torn", FIRST)]


def test_a_name_that_matches_and_is_no_dump_breaks_d2() -> None:
    """A temporary file in sight that a reader of *.jsonl would take for a dump breaks D2; one in a hidden folder does not."""
    story = drained(7)
    files = {FIRST: story.content(0), "dump/tmp-7.jsonl": b"", "dump/.staging/7.jsonl": b""}
    assert found(story, files) == [("D2", "stray", "dump/tmp-7.jsonl")]


@pytest.mark.parametrize(
    ("at_dump", "at_drain"),
    [
        pytest.param(refused(7), None, id="refused"),
        pytest.param(None, failed(7), id="failed"),
        pytest.param(None, OSError(5, "Input/output error"), id="nameless"),
    ],
)
def test_what_somebody_was_told_of_is_not_promised(
    at_dump: BaseException | None, at_drain: BaseException | None
) -> None:
    """A dump that was refused, or whose failure was raised, or may be the one that failed, may be gone."""
    story = Story()
    story.dump(7, at_dump)
    story.drain(at_drain)
    assert found(story, {}) == []


def test_the_failure_of_another_dump_does_not_excuse_this_one() -> None:
    """A drain that raises the failure of one step has answered for the others."""
    story = Story()
    story.dump(7)
    story.dump(8)
    story.drain(failed(7))
    assert found(story, {}) == [("D7", "missing", SECOND)]


def test_an_older_file_is_there_until_it_is_replaced() -> None:
    """The older file or the new one is there in every state; the older one alone is too little once drain has returned."""
    story = Story()
    story.older(FIRST, b'{"input": "older"}\n')
    story.dump(7)
    older, new = {FIRST: story.files[FIRST]}, {FIRST: story.content(0)}
    assert (found(story, older), found(story, new)) == ([], [])
    assert found(story, {}) == [("D3", "gone", FIRST)]
    story.drain()
    assert found(story, new) == []
    assert found(story, older) == [("D7", "missing", FIRST)]


def test_a_restarted_run_may_replace_what_was_drained() -> None:
    """Where a later run dumps the step again, its whole file is as good as the first one's."""
    story = drained(7)
    story.mark("new run")
    story.dump(7)
    for dump in (0, 1):
        assert found(story, {FIRST: story.content(dump)}) == []
    assert found(story, {}) == [("D7", "missing", FIRST)]


PROPERTY_SETS = st.sets(st.sampled_from(list(PROPERTIES)[:6]), min_size=1, max_size=3).map(frozenset)


@given(st.lists(PROPERTY_SETS, min_size=1, max_size=4))
def test_what_suffices_is_all_that_suffices(lacks: list[frozenset[str]]) -> None:
    """A set of properties suffices when each state is ruled out by one of them, and exactly the smallest ones are told."""
    names = sorted(frozenset().union(*lacks))
    every = chain.from_iterable(combinations(names, size) for size in range(1, len(names) + 1))
    enough = [set(chosen) for chosen in every if all(set(chosen) & each for each in lacks)]
    smallest = [chosen for chosen in enough if not any(other < chosen for other in enough)]
    told = sufficient(lacks)
    assert sorted(map(sorted, told)) == sorted(map(sorted, smallest))
    assert needs(lacks).startswith("needs: ")


def test_where_nothing_suffices_it_is_said() -> None:
    """A state that no property rules out is the writer's own doing."""
    assert needs([frozenset({"data"}), frozenset()]) == "no property of a file system helps"


def test_one_defect_is_told_by_one_law() -> None:
    """Bytes that are never synced are told by D7 alone, though a power loss before the drain shows them too."""
    state = State(Choice(1), (), frozenset({"data"}))
    torn, damaged, missing, stray = (
        Group(law, kind, Finding(law, kind, FIRST), state)
        for law, kind in (("D2", "torn"), ("D7", "damaged"), ("D7", "missing"), ("D2", "stray"))
    )
    assert attributed([torn, damaged, stray]) == (damaged, stray)
    assert attributed([torn, missing]) == (torn, missing)


def test_the_message_says_what_happens_and_what_is_needed() -> None:
    """One sentence tells which file is hurt, how, and the property that the writer relies on."""
    story = drained(7)
    judging = Judge(Facts(story.history()))
    state = State(Choice(1), ((FIRST, b""),), frozenset({"data", "name-after-data"}))
    (finding,) = judging.findings(state, judging.moment(len(story.events)))
    group = Group(finding.law, finding.kind, finding, state)
    group.add(finding, state)
    assert group.message(judging) == (
        f"after drain has returned, a power loss leaves nothing of 2 rows in {FIRST}; "
        "needs: rename persists after data, or data persists without fsync"
    )
    assert ROOT not in group.message(judging)
