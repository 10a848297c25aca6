"""Races planted in writers are found, each by its law and with a text that replays it; correct writers are not accused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection.cli import VIOLATED, main
from fault_injection.interleave.explore import Explored, explore, results_of
from fault_injection.interleave.plan import SwitchPlan
from fault_injection.interleave.run import Bench, run_schedule
from fault_injection.plan import Plan
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.sweep import judged
from tests.zoo import broken_races, common
from tests.zoo.executor import ExecutorWriter
from tests.zoo.os_write import OsWriteWriter
from tests.zoo.staging import StagingWriter
from tests.zoo.thread_queue import ThreadQueueWriter

RACES = [
    pytest.param(
        broken_races.UnlockedFailureList, "interleaved-drain", "write#1:ENOSPC", id="unlocked-failures"
    ),
    pytest.param(broken_races.ClosedFlagCheckedFirst, "interleaved-drain-beside", "none", id="closed-flag"),
    pytest.param(broken_races.NotesAfterDone, "interleaved-drain", "write#2:ENOSPC", id="noted-after-done"),
    pytest.param(broken_races.NotifiesFirst, "interleaved-drain", "none", id="notified-first"),
    pytest.param(broken_races.LooksBeforeLock, "interleaved-drain", "none", id="lost-wakeup"),
    pytest.param(broken_races.EndsAfterLooking, "interleaved-drain", "none", id="ends-after-looking"),
    pytest.param(broken_races.TrustsLivingWorker, "interleaved-drain", "none", id="living-worker"),
    pytest.param(broken_races.CountsWithoutLock, "interleaved-drain", "none", id="unlocked-count"),
]
THREADS = (ExecutorWriter, ThreadQueueWriter, OsWriteWriter, StagingWriter)
"""Correct writers whose threads can all be scheduled, which those of an event loop or another process cannot."""
GOOD = [Spec(DEFAULT), *(Spec(f"{c.__module__}:{c.__name__}") for c in (*broken_races.TWINS, *THREADS))]
SWITCHED = [scenario for scenario in SCENARIOS.values() if scenario.place == "switch"]


def _cases(bound: int, *names: str) -> list[object]:
    """Each correct writer with each scenario of these names (by default all) that it can be driven through."""
    return [
        pytest.param(
            spec,
            scenario.name,
            bound,
            id=f"{spec.location.rpartition(':')[2]}-{scenario.name}-{bound}",
            marks=[] if spec.location == DEFAULT else pytest.mark.broad,
        )
        for spec in GOOD
        for scenario in SWITCHED
        if "deadline" not in scenario.needs or spec.location == DEFAULT
        if not names or scenario.name in names
    ]


@pytest.fixture(autouse=True)
def _no_writer_left() -> Iterator[None]:
    """Let go of writers whose run was over before their drain."""
    yield
    common.OPEN.clear()


def bench(spec: Spec, scenario: str, scratch: Path) -> Bench:
    """What a run needs; a thread that is lost fails the test."""
    return Bench(load_subject(spec), SCENARIOS[scenario], 0, str(scratch), lambda: pytest.fail("lost"))


def explored(at: Bench, plan: str, bound: int = 1) -> Explored:
    """The schedules of a scenario; of those with two preemptions a few."""
    return explore(at, Plan.parse(plan), at.scenario.laws | {"E8"}, bound=bound, most=60)


@pytest.mark.parametrize(("cls", "scenario", "plan"), RACES)
def test_a_planted_race_is_found_and_replayed(cls: type, scenario: str, plan: str, tmp_path: Path) -> None:
    """A writer that is broken in some schedules only breaks its law in one of them, and again when that is replayed."""
    at = bench(Spec(f"{cls.__module__}:{cls.__name__}"), scenario, tmp_path)
    found = explored(at, plan, 2)
    guilty = [r for r in results_of(found) if any(v.law == cls.broken_law for v in r.violations)]
    assert guilty, cls.because
    again = run_schedule(at, SwitchPlan.parse(guilty[0].plan))
    assert guilty[0].violations[0] in judged(again.history, at.scenario.laws | {"E8"}).violations
    calm = run_schedule(at, SwitchPlan(watched=found.watched, plan=Plan.parse(plan)))
    assert judged(calm.history, at.scenario.laws | {"E8"}).violations == ()


@pytest.mark.parametrize(
    ("spec", "scenario", "bound"), [*_cases(0), *_cases(1, "interleaved-drain", "interleaved-after-drain")]
)
def test_a_correct_writer_is_not_accused(spec: Spec, scenario: str, bound: int, tmp_path: Path) -> None:
    """A correct writer breaks no law in any schedule up to a bound, and every schedule up to it is run."""
    at = bench(spec, scenario, tmp_path)
    # The first plan here; the contract itself goes through all.
    found = explored(at, str(at.scenario.menu.plans[0]), bound)
    assert [v for result in results_of(found) for v in result.violations] == []
    assert found.diverged == 0
    assert found.left_out == 0
    assert found.schedules > 5 * bound
    assert list(tmp_path.iterdir()) == []


def test_the_command_replays_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of a schedule, given to the command, runs it again: the story tells the switch, and the law is violated."""
    location = "tests.zoo.broken_races:NotesAfterDone"
    at = bench(Spec(location), "interleaved-drain", tmp_path)
    bad = next(result for result in results_of(explored(at, "write#2:ENOSPC")) if result.violations)
    code = main(["check", location, "--law", "E1", "--scenario", "interleaved-drain", "--plan", bad.plan])
    out = capsys.readouterr().out
    assert code == VIOLATED
    assert "E1 VIOLATED" in out
    assert "-- switch at point" in out
