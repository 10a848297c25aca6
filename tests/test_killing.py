"""Kills at every operation: each is a real death, what was acknowledged outlives it, and the next run works."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fault_injection.crew import Crew
from fault_injection.history import Exited, History, Mark
from fault_injection.judge import judge, relevant
from fault_injection.killing import run_killed
from fault_injection.plan import Plan, PlanError
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.targets.errors import TargetError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")

KILLED = tuple(scenario for scenario in SCENARIOS.values() if scenario.place == "fork")
LAWS = frozenset({"D1", "D2", "D3", "D6"})


def history_of(location: str, scenario: str, plan: str, root: Path) -> History:
    """Kill a run once and let the next one go on."""
    subject = load_subject(Spec(location))
    return run_killed(subject, SCENARIOS[scenario], Plan.parse(plan), 0, str(root))


def violated(history: History) -> set[str]:
    """The laws that a history breaks."""
    return {violation.law for violation in judge(history, relevant(history, LAWS))}


@pytest.mark.broad
@pytest.mark.timeout(180)
def test_the_reference_writer_outlives_hundreds_of_kills() -> None:
    """At least 300 real kills, before every operation and half-way through every write, break no law in a minute."""
    units = tuple(Unit(each.name, family=family) for each in KILLED for family in each.menu.families)
    begin = time.monotonic()
    results = Crew(Spec(DEFAULT), 0).run(units, LAWS)
    seconds = time.monotonic() - begin
    trials = [result for each in results for result in each.results]
    assert [(t.plan, t.violations) for t in trials if t.violations] == []
    assert {result.unit.scenario for result in results if result.results} == {each.name for each in KILLED}
    assert len(trials) >= 300
    assert all("D1" in trial.laws for trial in trials)
    assert seconds < 60, f"{len(trials)} kills took {seconds:.0f} s"


@pytest.mark.parametrize("plan", ["any#1:kill", "any#7:kill", "write#1:torn"])
def test_a_history_of_a_kill_shows_the_death(plan: str, tmp_path: Path) -> None:
    """A kill has struck exactly when the child's status says SIGKILL; the next run is told of after it."""
    history = history_of(DEFAULT, "killed", plan, tmp_path)
    assert history.fired == 1
    assert [event.code for event in history.of(Exited)] == [-9]
    assert [mark.name for mark in history.of(Mark)][-2:] == ["killed", "new run"]


def test_a_run_that_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    """Beyond its last operation a kill strikes nothing, and the history says so."""
    history = history_of(DEFAULT, "killed", "any#1000:kill", tmp_path)
    assert history.fired == 0
    assert [event.code for event in history.of(Exited)] == [0]


def test_leftovers_are_those_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """Where a scenario has a prior plan, one process dies of that before the trial's own does."""
    history = history_of(DEFAULT, "killed-over-leftovers", "any#3:kill", tmp_path)
    assert [event.code for event in history.of(Exited)] == [-9, -9]
    assert violated(history) == set()


@pytest.mark.parametrize(
    ("writer", "scenario", "plan", "laws"),
    [
        ("WritesInPlace", "killed", "write#1:torn", {"D2", "D3"}),
        ("WritesInPlace", "killed-by-the-kernel", "write#1:torn", {"D2", "D3"}),
        ("WritesInPlace", "killed-after-restart", "write#3:torn", {"D1", "D2"}),
        ("TempMatchesGlob", "killed", "write#1:torn", {"D2"}),
        ("RemovesOlderFileFirst", "killed-after-restart", "rename#3:kill", {"D1"}),
    ],
    ids=["torn", "torn-by-the-kernel", "acknowledged-torn", "temporary-matches", "acknowledged-removed"],
)
def test_a_kill_shows_what_a_writer_does_not_keep(
    writer: str, scenario: str, plan: str, laws: set[str], tmp_path: Path
) -> None:
    """A writer that is not atomic is caught by a kill: torn files, and files that a drain had acknowledged."""
    history = history_of(f"tests.zoo.broken_data:{writer}", scenario, plan, tmp_path)
    assert history.fired == 1
    assert laws <= violated(history)


@pytest.mark.parametrize(
    "writer", ["executor:ExecutorWriter", "os_write:OsWriteWriter", "staging:StagingWriter"]
)
@pytest.mark.parametrize("scenario", ["killed-between-drains", "killed-same-step", "killed-after-restart"])
def test_correct_writers_are_not_accused_of_a_kill(writer: str, scenario: str, tmp_path: Path) -> None:
    """A kill in the middle of its run breaks no law for a correct writer, however it is built."""
    for number, plan in enumerate(("any#2:kill", "any#9:kill", "any#14:kill", "write#2:torn")):
        root = tmp_path / str(number)
        root.mkdir()
        assert violated(history_of(f"tests.zoo.{writer}", scenario, plan, root)) == set()


def test_a_target_that_ends_its_process_is_no_kill(tmp_path: Path) -> None:
    """A child that ends of its own accord is the target's fault and never counted as a kill."""
    with pytest.raises(TargetError, match="ended its process with 3"):
        history_of(f"{__name__}:Leaves", "killed", "any#1000:kill", tmp_path)


class Leaves:
    """Ends its process at the first dump."""

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        os._exit(3)


def test_a_plan_of_any_operation_parses_back() -> None:
    """`any` counts every operation on a file, and takes only faults that apply to all of them."""
    assert str(Plan.parse("any#3:kill")) == "any#3:kill"
    with pytest.raises(PlanError, match="torn does not apply to any operation"):
        Plan.parse("any#3:torn")
