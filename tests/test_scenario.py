"""Scenarios: what they are where they say nothing more, which plans they sweep, and what is laid down before."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fault_injection.fault import CATALOGUE, Fault
from fault_injection.plan import Plan
from fault_injection.scenario import MOST_K, Family, Menu, Scenario, Unit, at_every, every_errno, prepared
from fault_injection.scenarios import SCENARIOS

FULL = Family("write", Fault("ENOSPC"))


def nothing(trial: Any, seed: int) -> None:
    """A course of no events."""


def test_a_scenario_that_says_nothing_more_is_plain() -> None:
    """A scenario of a name, laws and a course runs once in this process, on disk, without faults and options."""
    assert Scenario("plain", frozenset({"D1"}), nothing) == Scenario(
        name="plain",
        laws=frozenset({"D1"}),
        run=nothing,
        menu=Menu((Plan(),), ()),
        prepare=None,
        after=None,
        prior="",
        needs=frozenset(),
        place="here",
        mechanism="disk",
        warn=False,
        exit_deadline=None,
        environment=(),
    )


def test_a_family_and_a_unit_that_say_nothing_more_are_plain() -> None:
    """A family strikes once, and a unit of it is swept from its first k to its end."""
    assert Family("write", Fault("ENOSPC")) == Family("write", Fault("ENOSPC"), stays=False, stride=0)
    assert Unit("three-dumps", family=FULL) == Unit("three-dumps", plan=None, family=FULL, start=1, most=0)
    assert Unit("three-dumps", "none") == Unit("three-dumps", "none", family=None)


@pytest.mark.parametrize(
    ("start", "most", "ks"),
    [(1, 0, range(1, MOST_K)), (3, 0, range(3, MOST_K)), (3, 2, range(3, 5))],
    ids=["all", "later", "some"],
)
def test_a_unit_is_of_some_k_or_of_all(start: int, most: int, ks: range) -> None:
    """A unit is swept over as many k as it says from its first, or over all."""
    assert Unit("three-dumps", family=FULL, start=start, most=most).ks == ks
    assert Unit("three-dumps", family=FULL, start=MOST_K - 1, most=5).ks == range(MOST_K - 1, MOST_K)


@pytest.mark.parametrize("both", [False, True], ids=["once", "both"])
def test_one_fault_at_every_operation_it_applies_to(both: bool) -> None:
    """A fault is swept over all of its operations, or over those that are named, once and if asked for good."""
    stays = {False, True} if both else {False}
    families = at_every("slow", 7, both=both)
    assert {(f.op, f.stays) for f in families} == {(op, s) for op in CATALOGUE["slow"].ops for s in stays}
    assert {f.fault for f in families} == {Fault("slow", 7)}
    assert {(f.op, f.stays) for f in at_every("slow", 7, ("write", "thread"), both=both)} == {
        ("write", s) for s in stays
    }
    assert {f.stays for f in at_every("stuck")} == {False}
    assert {f.fault for f in at_every("stuck")} == {Fault("stuck")}


def test_errors_are_swept_where_they_are_asked_for() -> None:
    """Of the operations and errors that are named each pair is swept, once and from then on."""
    assert [str(family) for family in every_errno(("write", "thread"), ("EIO", "ENOSPC"))] == [
        "eio-once-write",
        "eio-persistent-write",
        "enospc-once-write",
        "enospc-persistent-write",
    ]


@pytest.mark.parametrize(
    ("plan", "deadline"),
    [
        (Plan.parse("write#1+:stuck"), 0.5),
        (Plan.parse("open#1:ENOSPC;write#1:stuck"), 0.5),
        (Plan.parse("write#1+:slow(20ms)"), None),
        (Plan(), None),
        (None, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("prepares", [False, True], ids=["nothing", "something"])
def test_a_target_has_its_options_before_the_scenario_lays_anything_down(
    prepares: bool, plan: Plan | None, deadline: float | None
) -> None:
    """The options of the target are set, a deadline only where something is stuck, and then the scenario prepares."""
    trial = SimpleNamespace(target=SimpleNamespace())
    seen: list[object] = []

    def prepare(given: Any, seed: int) -> None:
        seen.append((given, seed, given.target.warn, given.target.exit_deadline))

    scenario = Scenario(
        "s", frozenset(), nothing, prepare=prepare if prepares else None, warn=True, exit_deadline=0.5
    )
    prepared(trial, scenario, 7, plan)
    assert vars(trial.target) == {"warn": True, "exit_deadline": deadline}
    assert seen == ([(trial, 7, True, deadline)] if prepares else [])


class Course:
    """A trial that notes its turns, and in which nothing waits."""

    def __init__(self) -> None:
        self.turns: list[str] = []
        self.events: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.turns.append(name)

    def held(self) -> Any:
        """Hold the disk."""
        return nullcontext()

    def dump(self, batch: Any, folder: str | None = None) -> None:
        """Take a batch."""
        self.turns.append("dump")

    def mark(self, name: str, text: str) -> None:
        """Note a mark."""
        self.turns.append(f"{name}: {text}")


def test_a_queue_without_an_end_is_marked() -> None:
    """A subject that takes one dump more than may wait has an unbounded queue, and the history says so."""
    course: Any = Course()
    SCENARIOS["many-wait"].run(course, 0)
    assert course.turns == ["open", *["dump"] * 1025, "unbounded: 1,025 dumps", "drain"]


def test_two_drains_have_something_to_drain() -> None:
    """Where two drains meet, two dumps came before."""
    course: Any = Course()
    SCENARIOS["interleaved-drains"].run(course, 0)
    assert course.turns == ["open", "dump", "dump", "together", "drain"]
