"""Scenarios of groups D and E: batches are handed over, some operation fails, everything is drained."""

from __future__ import annotations

import os
from contextlib import suppress

from fault_injection.batches import make_batch
from fault_injection.fault import Fault
from fault_injection.plan import Plan
from fault_injection.scenario import Family, Menu, Scenario, at_every, every_errno
from fault_injection.targets.base import Batch
from fault_injection.trial import Trial

FIRST = 7_000_001
"""The first step; steps lie above any process identifier, so that a path shows whose it is."""
WIDE = 9_000
"""Characters that make a batch larger than Python's buffer, so that its write comes before its close."""
MANY_ROWS = 1_100
"""Rows of a large batch: more than the 1,024 prompts that a training batch of verl has by default."""
MANY_WAITING, MANY_ALONE = 40, 30
"""Dumps that fail at once, and one after another: more than a writer has room for that does not get it back."""

_ALIAS = "alias"

_COMMON = frozenset({"D2", "D3", "D4", "E1", "E2", "E3", "E4", "E5", "E7"})
_FEW = ("ENOSPC", "EIO", "EACCES")


def three_dumps(trial: Trial, seed: int) -> None:
    """Three dumps, each at rest before the next; drain, drain again; then a clean run."""
    trial.open()
    for number in range(3):
        dump_and_settle(trial, make_batch(seed, number, FIRST + number, wide=WIDE * (number == 1)))
    _drain_and_go_on(trial, seed)


def three_waiting(trial: Trial, seed: int) -> None:
    """Three dumps while the disk is held, so that all of them wait; then the same end."""
    trial.open()
    with trial.held():
        for number in range(3):
            trial.dump(make_batch(seed, number, FIRST + number, wide=WIDE * (number == 1)))
    _drain_and_go_on(trial, seed)


def dump_and_settle(trial: Trial, batch: Batch, spelled: str | None = None) -> None:
    """Dump with the disk held until the call has returned, then let the writer come to rest: one interleaving, always."""
    with trial.held():
        trial.dump(batch, spelled=spelled)
    trial.settle()


def _drain_and_go_on(trial: Trial, seed: int) -> None:
    trial.drain()
    trial.drain(threads=False)
    trial.mark("next run")
    trial.open()
    with trial.held():
        trial.dump(make_batch(seed, 3, FIRST + 3))
    trial.drain()


def lay_older(trial: Trial, seed: int) -> None:
    """Complete files of an earlier run, under the names that this run will use, and others beside them."""
    for number in range(2):
        batch = make_batch(seed + 1, number + 10, FIRST + number, rows=5)
        lines = "".join(
            f'{{"input": "older {batch.step}.{i}", "output": "", "gts": "", "score": 0.0, "step": {batch.step}}}\n'
            for i in range(5)
        )
        trial.older(f"dump/{batch.step}.jsonl", lines.encode())
    # What somebody else has put there is not the writer's to clear away.
    for name in ("notes.md", "metrics.csv"):
        trial.older(f"dump/{name}", b"of somebody else\n")


def over_older(trial: Trial, seed: int) -> None:
    """A restarted run dumps steps whose files an earlier run left complete."""
    trial.open()
    for number in range(2):
        dump_and_settle(trial, make_batch(seed, number, FIRST + number))
    trial.drain()


def all_sizes(trial: Trial, seed: int) -> None:
    """Dumps of plain values in every size: step 0, many rows, long texts, numbers to the last digit, empty values."""
    trial.open()
    batches = [
        make_batch(seed, 0, 0, rows=2),
        make_batch(seed, 1, FIRST + 1, rows=MANY_ROWS),
        make_batch(seed, 2, FIRST + 2, rows=3, wide=200_000),
        Batch(
            FIRST + 3,
            ["", "a", "b", "c", "d"],
            [f"out {i}" for i in range(5)],
            [None, "", "0", "null", " "],
            [0.1 + 0.2, 1 / 3, 1e-300, -1.7976931348623157e308, 5e-324],
            {
                "long": [2**53 + 1, -(2**62), 0, 10**15, 1],
                "hole": [None, 1, None, 2, None],
                "empty": [[], {}, "", [[]], {"": {}}],
            },
        ),
    ]
    for batch in batches:
        trial.dump(batch)
    trial.drain()


def many_fail(trial: Trial, seed: int) -> None:
    """Many dumps fail that waited together, then more, one after another."""
    trial.open()
    with trial.held():
        for number in range(MANY_WAITING):
            trial.dump(make_batch(seed, number, FIRST + number, rows=1))
    trial.drain(threads=False)
    trial.open()
    for number in range(MANY_WAITING, MANY_WAITING + MANY_ALONE):
        dump_and_settle(trial, make_batch(seed, number, FIRST + number, rows=1))
    trial.drain()


def falling_steps(trial: Trial, seed: int) -> None:
    """Three dumps that wait together, each of a lower step than the one before, as when a training goes back."""
    trial.open()
    with trial.held():
        for number in range(3):
            trial.dump(make_batch(seed, number, FIRST + 3 - number))
    trial.drain()


def restarted(trial: Trial, seed: int) -> None:
    """One run dumps two steps; a fresh writer dumps the second of them again, as after a restart."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number))
    trial.drain()
    trial.new_run()
    for number in range(2, 4):
        trial.dump(make_batch(seed, number, FIRST + number - 1))
    trial.drain()


def same_step(trial: Trial, seed: int) -> None:
    """Two dumps of one step into one directory, in one run, one after the other."""
    trial.open()
    for number in range(2):
        dump_and_settle(trial, make_batch(seed, number, FIRST))
    trial.drain()


def same_step_waiting(trial: Trial, seed: int) -> None:
    """The same while the disk is held: both wait; a third one comes after a drain."""
    trial.open()
    with trial.held():
        for number in range(2):
            trial.dump(make_batch(seed, number, FIRST))
    trial.drain()
    trial.open()
    trial.dump(make_batch(seed, 2, FIRST))
    trial.drain()


def lay_alias(trial: Trial, seed: int) -> None:  # noqa: ARG001 - as every preparation
    """A second name of the dump directory, where the system lets this user make links."""
    os.mkdir(os.path.join(trial.root, trial.folder))
    with suppress(OSError):
        os.symlink(trial.folder, os.path.join(trial.root, _ALIAS), target_is_directory=True)


def same_step_spelled(trial: Trial, seed: int) -> None:
    """The same into one directory that is spelled in another way each time, as by two options that name it."""
    folder = os.path.join(trial.root, trial.folder)
    spellings = [folder, os.path.join(folder, ""), os.path.join(folder, os.pardir, trial.folder)]
    if os.path.islink(alias := os.path.join(trial.root, _ALIAS)):
        spellings.append(alias)
    trial.open()
    for number, spelled in enumerate(spellings):
        dump_and_settle(trial, make_batch(seed, number, FIRST), spelled)
    trial.drain()


def directory_changes(trial: Trial, seed: int) -> None:
    """Dumps into a relative directory wait while the program goes to work in another directory."""
    before, elsewhere = os.getcwd(), os.path.join(trial.root, "elsewhere")
    os.mkdir(elsewhere)
    os.chdir(trial.root)
    try:
        trial.open()
        with trial.held():
            for number in range(2):
                trial.dump(make_batch(seed, number, FIRST + number), spelled=trial.folder)
            os.chdir(elsewhere)
        trial.drain()
    finally:
        os.chdir(before)


def changed_after_call(trial: Trial, seed: int) -> None:
    """Of two equal batches one is left alone and the other changed in every way once its call has returned."""
    import numpy as np

    trial.open()
    alone, victim = make_batch(seed, 1, FIRST + 1, rows=3), make_batch(seed, 1, FIRST + 1, rows=3)
    twin = type(victim)(FIRST + 2, victim.inputs, victim.outputs, victim.gts, victim.scores, victim.extras)
    for batch in (alone, twin):
        batch.extras["array"] = np.arange(3, dtype=np.float64)
        batch.extras["nested"] = [{"values": [1, 2], "more": {"deep": [i]}} for i in range(3)]
    with trial.held():
        # The first dump keeps the writer busy at the held disk: nothing of the next ones is read before the change.
        trial.dump(make_batch(seed, 0, FIRST))
        trial.dump(alone)
        trial.dump(twin)
        _change(twin.inputs, twin.outputs, twin.gts, twin.scores)
        twin.extras["array"].fill(-1)
        for row in twin.extras["nested"]:
            row["values"].append(3)
            row["more"]["deep"][0] = "changed"
        for row in twin.extras["info"]:
            row["tags"].clear()
        twin.extras["acc"][0] = "changed"
        twin.extras["added"] = ["late"] * 3
        trial.dump(make_batch(seed, 3, FIRST + 3))
    trial.mark("twins", "1 2")
    trial.drain()


def _change(*columns: list[object]) -> None:
    for column in columns:
        column[0] = "changed"
        column.reverse()


def warned(trial: Trial, seed: int) -> None:
    """Three dumps and a drain in warn mode."""
    trial.open()
    for number in range(3):
        dump_and_settle(trial, make_batch(seed, number, FIRST + number, wide=WIDE * (number == 1)))
    trial.mark("draining")
    trial.drain()


_SHAPED = (
    *at_every("short", 1),
    *at_every("short", 7, both=True),
    *at_every("slow", 1),
)
_BROKEN = (
    *every_errno(),
    *at_every("lost"),
    *at_every("vanish"),
    *at_every("replace"),
    Family("bytes", Fault("ENOSPC"), stays=True, stride=1500),
    Family("bytes", Fault("EDQUOT"), stays=False, stride=1500),
)
_DEATHS = (*at_every("MemoryError"), *at_every("SystemExit"), *at_every("RuntimeError"))
# Who tries again until it succeeds never comes back from a disk that is full for good.
_FOR_GOOD = Family("write", Fault("ENOSPC"), stays=True)

SCENARIOS = (
    Scenario("three-dumps", _COMMON | {"D1", "Q4"}, three_dumps, Menu((Plan(),), (*_SHAPED, *_BROKEN))),
    Scenario("three-waiting", _COMMON | {"D1", "Q4"}, three_waiting, Menu((Plan(),), (*_SHAPED, *_BROKEN))),
    Scenario("worker-dies", frozenset({"D2", "E8"}), three_dumps, Menu((), (*_DEATHS, _FOR_GOOD))),
    Scenario("worker-dies-waiting", frozenset({"D2", "E8"}), three_waiting, Menu((), _DEATHS)),
    Scenario(
        "over-older",
        frozenset({"D1", "D2", "D3", "D4", "E1", "E3", "E4"}),
        over_older,
        Menu((Plan(),), every_errno(names=_FEW)),
        prepare=lay_older,
    ),
    Scenario("all-sizes", frozenset({"D1", "D2"}), all_sizes),
    Scenario(
        "many-fail",
        frozenset({"E1", "E2", "E3", "E7", "E8"}),
        many_fail,
        Menu((Plan.parse("open#1+:EACCES"), Plan.parse("write#1+:ENOSPC"))),
        counts_open=True,
    ),
    Scenario("falling-steps", frozenset({"D1", "D2", "Q4"}), falling_steps),
    Scenario("restarted", frozenset({"D1", "D2", "D6"}), restarted),
    Scenario("same-step", frozenset({"D2", "D3", "D6"}), same_step, Menu((Plan(),), every_errno(names=_FEW))),
    Scenario("same-step-waiting", frozenset({"D2", "D3", "D6"}), same_step_waiting),
    Scenario("same-step-spelled", frozenset({"D6"}), same_step_spelled, prepare=lay_alias),
    Scenario("directory-changes", frozenset({"D1"}), directory_changes),
    Scenario("changed-after-call", frozenset({"D5"}), changed_after_call),
    Scenario(
        "warned",
        frozenset({"D2", "D3", "D4", "E9"}),
        warned,
        Menu((Plan(),), every_errno(names=_FEW)),
        needs=frozenset({"warn"}),
        warn=True,
    ),
    Scenario(
        "three-dumps-in-memory",
        frozenset({"D1", "D2", "D3", "D4", "E1", "E2", "E3", "E4", "E5"}),
        three_dumps,
        Menu(
            (Plan(), Plan.parse("open#1+:EACCES"), Plan.parse("mkdir#1+:EACCES")),
            (Family("bytes", Fault("ENOSPC"), stays=True, stride=700),),
        ),
        mechanism="memory",
    ),
)
