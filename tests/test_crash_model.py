"""The persistence model: what a power loss may leave, what it may not, and what each property takes away."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.crash.data import SMALL, subsets, variants
from fault_injection.crash.model import PROPERTIES, DataOp, File, describe, visible
from fault_injection.crash.record import ROOT, Journal, Step
from fault_injection.crash.replay import PowerPlan, build
from fault_injection.crash.replay import told as in_words
from fault_injection.plan import Plan
from tests.crash_journals import Teller, contents, disk_after, scripts, states_of, told


def live(journal: Journal, steps: int | None = None) -> tuple[tuple[str, bytes], ...]:
    """What the running system shows."""
    disk = disk_after(journal, steps)
    shown = visible(disk.live, journal.folders, disk.links)
    return tuple(sorted((path, disk.files[entry.node].content) for path, entry in shown.items()))


@given(scripts())
def test_a_synced_history_has_exactly_one_state(script: list) -> None:
    """After everything was synced, a power loss leaves what was there and nothing else."""
    journal = told(script, end="syncall")
    assert contents(states_of(journal)) == {live(journal)}


@given(scripts())
def test_the_running_state_can_always_be_left(script: list) -> None:
    """That nothing at all is lost is one of the states at every moment, and the only one that no property rules out."""
    journal = told(script)
    for steps in range(len(journal.steps) + 1):
        states = states_of(journal, steps)
        assert {state.files for state in states if not state.lacks} == {live(journal, steps)}


@given(scripts(), st.booleans())
def test_a_sync_only_takes_states_away(script: list, of_folder: bool) -> None:
    """What a power loss may leave after a sync it could have left before."""
    teller = told(script)
    for node in (ROOT,) if of_folder else range(1, 4):
        synced = Journal(folders=teller.folders, steps=(*teller.steps, Step("sync", 99, node)))
        if node == ROOT or node in disk_after(teller).files:
            assert contents(states_of(synced)) <= contents(states_of(teller))


@given(scripts(), st.sets(st.sampled_from(list(PROPERTIES)), max_size=3), st.sampled_from(list(PROPERTIES)))
def test_granting_a_property_only_takes_states_away(script: list, some: set[str], one: str) -> None:
    """The more a file system grants, the fewer states there are, and never none."""
    states = states_of(told(script))
    before = {state.files for state in states if not state.lacks & some}
    after = {state.files for state in states if not state.lacks & (some | {one})}
    assert after <= before
    assert after


@given(scripts("create", "write", "sync", "sync_folder", "rename"))
def test_every_state_comes_from_a_prefix(script: list) -> None:
    """Where names and bytes persist in order and whole, what is left of the names and of each file was so at some time."""
    journal = told(script)
    ordered = {"ordered-names", "ordered-data", "whole-writes", "size"}
    shown = [live(journal, steps) for steps in range(len(journal.steps) + 1)]
    names = {tuple(name for name, _ in files) for files in shown}
    known = {b""} | {
        disk_after(journal, steps).files[node].content
        for steps in range(len(journal.steps) + 1)
        for node in disk_after(journal, steps).files
    }
    for state in states_of(journal):
        if not state.lacks & ordered:
            assert tuple(name for name, _ in state.files) in names
            assert {content for _, content in state.files} <= known


@given(scripts())
def test_the_text_of_a_state_builds_it_again(script: list) -> None:
    """Every state that is built has a text that parses back and names it, with the same properties."""
    journal = told(script)
    for state in states_of(journal):
        text = str(PowerPlan(state.choice))
        assert build(journal, PowerPlan.parse(text).choice) == state
        assert in_words(journal, state.choice).startswith(f"after step {len(journal.steps)}")


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=1, max_size=3)), min_size=1, max_size=3))
def test_few_small_writes_are_lost_and_torn_in_every_way(writes: list[tuple[int, bytes]]) -> None:
    """Each subset of a file's unsynced writes is built, and each in which the last one kept is torn at any byte."""
    ops = tuple(DataOp(n, offset, data) for n, (offset, data) in enumerate(writes, 1))
    built = {variant.content for variant in variants(File(b"base", ops), fine=True).found}
    for size in range(len(ops) + 1):
        for chosen in itertools.combinations(ops, size):
            content = bytearray(b"base")
            for op in chosen:
                op.on(content)
            assert bytes(content) in built
    for n, op in enumerate(ops):
        content = bytearray(b"base")
        for earlier in ops[:n]:
            earlier.on(content)
        for count in range(len(op.data or b"")):
            torn = bytearray(content)
            if count:
                op.on(torn, count)
            assert bytes(torn) in built


def test_blocks_of_one_write_persist_in_any_order() -> None:
    """Of a long write later blocks may be there and earlier ones not, and the size without any of them."""
    data = bytes(range(1, 251)) * 50
    built = variants(File(b"", (DataOp(1, 0, data),)), fine=True).found
    hole = bytes(4096) + data[4096:]
    zeros = bytes(len(data))
    for content, lacks in ((hole, {"data", "whole-writes"}), (zeros, {"data", "size"})):
        assert [v.lacks for v in built if v.content == content] == [lacks]
    assert {v.content for v in built} >= {data[:n] for n in (0, 1, 512, 4095, 4096, 4097, len(data))}


@pytest.mark.parametrize("count", [0, 1, SMALL])
def test_few_things_have_all_of_their_subsets(count: int) -> None:
    """Up to a number that is said, every proper subset is built, once each."""
    found = list(subsets(count))
    assert len(found) == len(set(found)) == 2**count - 1


def test_many_things_have_a_chosen_number_of_subsets() -> None:
    """Beyond, each alone, all but each, every prefix and every suffix is built."""
    n = SMALL + 3
    found, everything = set(subsets(n)), tuple(range(n))
    assert found == {()} | {(i,) for i in everything} | {
        part
        for i in everything
        for part in (everything[:i] + everything[i + 1 :], everything[:i], everything[i:])
    } - {everything}


def test_a_rename_leaves_the_old_file_or_the_new_one() -> None:
    """A rename over a durable name leaves one of the two files there in every state, and nothing third."""
    teller = Teller()
    for name, data in (("final", b"old"), ("temp", b"new")):
        teller.create(name)
        teller.write(name, data)
        teller.sync(name)
    teller.sync_folder()
    teller.rename("temp", "final")
    found = contents(states_of(teller.journal()))
    assert found == {(("final", b"new"),), (("final", b"old"), ("temp", b"new"))}


def test_a_synced_file_may_lose_its_name() -> None:
    """Fsync of a file makes its bytes durable and not its name, unless the file system grants that."""
    teller = Teller()
    teller.create("a")
    teller.write("a", b"data")
    teller.sync("a")
    states = states_of(teller.journal())
    assert {state.files: set(state.lacks) for state in states} == {
        (("a", b"data"),): set(),
        (): {"entry", "fsync-names"},
    }


def test_a_file_is_lost_with_the_directory_above_it() -> None:
    """What was synced within a new directory is gone with that directory's own name, until its parent is synced."""
    teller = Teller(folder=True)
    teller.create("a")
    teller.sync("a")
    teller.sync_folder()
    found = {state.files: set(state.lacks) for state in states_of(teller.journal())}
    assert found[()] == {"folder", "fsync-names"}
    teller.sync_folder(ROOT)
    assert contents(states_of(teller.journal())) == {(("d/a", b""),)}


def test_the_name_may_persist_before_the_bytes() -> None:
    """A renamed file may be there without its bytes, which a file system that orders the two rules out."""
    teller = Teller()
    teller.create("temp")
    teller.write("temp", b"data")
    teller.rename("temp", "final")
    teller.sync_folder()
    empty = [state for state in states_of(teller.journal()) if state.files == (("final", b""),)]
    assert [set(state.lacks) for state in empty] == [{"name-after-data", "data"}]


def test_what_a_failed_sync_dropped_is_not_brought_back_by_the_next() -> None:
    """After an fsync that failed the bytes may be gone for ever, though the next fsync succeeds (fsync study, ATC 2020)."""
    teller = Teller()
    teller.create("a")
    teller.sync_folder()
    teller.write("a", b"xy")
    teller.lose("a")
    teller.sync("a")
    found = {state.files: set(state.lacks) for state in states_of(teller.journal())}
    assert found[("a", b""),] == {"retry"}
    assert not found[("a", b"xy"),]


def test_a_move_between_directories_may_leave_both_names_and_never_neither() -> None:
    """A rename into another directory is durable with that directory; the old name goes with its own, and not before."""
    teller = Teller(folder=True)
    teller.create("a")
    teller.sync_folder()
    teller.sync_folder(ROOT)
    teller.names.pop("a")
    teller.note("rename", node=2, folder=ROOT, name="b", old_folder=1, old_name="a")
    both = {"b", "d/a"}
    seen = [{name for name, _ in state.files} for state in states_of(teller.journal())]
    assert all(seen)
    assert sorted(map(sorted, seen)) == [["b"], ["b", "d/a"], ["d/a"]]
    teller.sync_folder(1)
    assert {name for state in states_of(teller.journal()) for name, _ in state.files} == both
    teller.sync_folder(ROOT)
    assert all("b" in dict(state.files) for state in states_of(teller.journal()))


def test_the_model_is_described_with_every_property() -> None:
    """The text for the documentation states the rules and each property that a file system may grant beyond."""
    text = describe()
    assert all(f"- `{name}`: {sentence}" in text for name, sentence in PROPERTIES.items())
    assert "fsync of the file makes its bytes" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("power:", "names no crash state"),
        ("power:names=3", "does not say after which step"),
        ("power:after=x", "names no crash state"),
        ("power:after=1|2", "names no crash state"),
        ("power:after=1|plan=write#1:NOPE", "unknown fault"),
    ],
)
def test_a_text_that_names_no_state_is_one_clear_line(text: str, reason: str) -> None:
    """What is no crash state is refused with what is wrong and what to write."""
    with pytest.raises(ValueError, match=reason) as caught:
        PowerPlan.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("power:after=9", "there is no step 9"),
        ("power:after=2|names=7", "not all can be lost or kept"),
        ("power:after=2|5=cut(0+0)", "file 5 cannot be reached"),
        ("power:after=2|1=cut(3+0)", "nothing that a power loss leaves"),
        ("power:after=2|1=half", "nothing that a power loss leaves"),
    ],
)
def test_a_state_of_another_run_is_one_clear_line(text: str, reason: str) -> None:
    """A text that names no state of this run is refused, since it was taken from another."""
    teller = Teller()
    teller.create("a")
    teller.write("a", b"data")
    with pytest.raises(ValueError, match=reason) as caught:
        build(teller.journal(), PowerPlan.parse(text).choice)
    assert "\n" not in str(caught.value)


def test_a_plan_of_faults_is_part_of_the_text() -> None:
    """The faults of the run before the power loss are kept in the text, whatever signs they hold."""
    plan = Plan.parse("*.tmp@fsync#1:lost;a|b@write#2+:EIO")
    first = PowerPlan.parse("power:after=3|names=|2=ops(0.1)")
    again = PowerPlan.parse(str(PowerPlan(first.choice, plan)))
    assert again == PowerPlan(first.choice, plan)
