"""The exit matrix: complete, consistent, and made of cells that can be run."""

from __future__ import annotations

import inspect

import pytest

from fault_injection.judge import RULES
from fault_injection.laws import LAWS
from fault_injection.plan import Plan
from fault_injection.scenarios import SCENARIOS
from fault_injection.targets.fit import FitTarget
from fault_injection.ways import (
    ATTACHED,
    DEMANDS,
    END,
    NOBODY,
    PENDING,
    PLANS,
    RAISED,
    RETURN,
    TOLD,
    WAYS,
    WHOLE,
    cell_of,
    cells,
    cells_of,
    is_few,
    needs_of,
    scenario_name,
)

CELLS = cells()


def test_the_matrix_is_large_enough() -> None:
    """There are at least 14 ways out and 120 cells, without those that need Ray."""
    local = [cell for cell in CELLS if cell.way.place != "ray"]
    assert len({cell.way for cell in local}) >= 14
    assert len(local) >= 120


def test_nothing_has_two_meanings() -> None:
    """Each way has a name and a law of its own, and each cell a scenario and plan of its own."""
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert len({way.law for way in WAYS}) == len(WAYS)
    assert len({(cell.scenario, cell.plan) for cell in CELLS}) == len(CELLS)
    assert len({str(cell) for cell in CELLS}) == len(CELLS)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_way_is_whole(way: object) -> None:
    """A way out has a law with a rule, known demands, a known place and training, and several columns."""
    assert way.law in LAWS
    assert way.law in RULES
    assert way.data in {RETURN, END, WHOLE}
    assert way.errors in {RAISED, ATTACHED, TOLD, NOBODY}
    assert {way.data, way.errors} <= DEMANDS.keys()
    assert way.place in {"here", "spawn", "ray"}
    assert way.phase in {"", "step", "validation", "logging", "checkpoint"}
    assert way.pending
    assert set(way.pending) <= PENDING.keys()
    assert way.training in {each.name for each in WAYS}
    assert cells_of(way)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_demand_that_is_not_obvious_has_a_reason(way: object) -> None:
    """Where not everything is demanded by the end of fit(), the way says why."""
    if way.data != RETURN or way.errors in {TOLD, NOBODY}:
        assert way.why


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell_can_be_run(cell: object) -> None:
    """A cell has a plan that parses back, a scenario that runs this plan by the law, and leads back to itself."""
    assert str(Plan.parse(cell.plan)) == cell.plan
    scenario = SCENARIOS[cell.scenario]
    assert scenario.laws == {cell.way.law}
    assert scenario.place == cell.way.place
    assert cell.plan in {str(plan) for plan in scenario.menu.plans}
    assert cell_of(cell.scenario, cell.plan) == cell


def test_a_plan_can_strike_in_its_cell() -> None:
    """With nothing pending nothing can strike, and a fault from the second write on needs several dumps."""
    for cell in CELLS:
        if cell.pending == "none" or (cell.write == "healthy" and cell.way.name != "dump-raises"):
            assert cell.plan == "none"
        if cell.write == "failing twice":
            assert PENDING[cell.pending] > 1


def test_every_column_is_used() -> None:
    """Every number of pending dumps and every fate of a write occurs, on nearly every way with all of them."""
    assert {(cell.pending, cell.write) for cell in CELLS if cell.pending != "none"} == {
        (pending, write)
        for pending in ("one", "several")
        for write in PLANS
        if pending == "several" or write != "failing twice"
    }
    full = [way for way in WAYS if len(cells_of(way)) == 10]
    assert len(full) == len([way for way in WAYS if way.pending == ("none", "one", "several")])


def test_every_scenario_of_the_matrix_has_a_cell() -> None:
    """No scenario of a way out is judged by nothing."""
    named = {name for name in SCENARIOS if name.startswith("exit-")}
    assert named == {cell.scenario for cell in CELLS}


def test_a_stuck_write_may_be_given_up_where_the_process_ends() -> None:
    """Where only the end of the process counts, the cell of a stuck write says that a deadline may pass."""
    stuck = [cell for cell in CELLS if cell.write == "stuck"]
    assert all(("deadline" in cell.why) is (cell.data == END) for cell in stuck)


@pytest.mark.parametrize(
    "scenario", ["three-dumps", "exit-", "exit-last-step", "exit-last-step-many", "exit-nowhere-one"]
)
def test_what_is_no_cell_is_none(scenario: str) -> None:
    """The name of another scenario, or half a name, is no cell."""
    assert cell_of(scenario, "none") is None


def test_a_plan_of_ones_own_counts_as_a_failing_write() -> None:
    """A cell that is replayed under a plan which is no column is judged like a failing write."""
    cell = cell_of("exit-last-step-one", "rename#1:EACCES")
    assert cell is not None
    assert (cell.write, cell.plan) == ("failing", "rename#1:EACCES")


def test_what_a_way_needs_can_be_had() -> None:
    """A scenario asks for its own way and, where one validation makes several dumps, for a trainer that can."""
    for way in WAYS:
        for pending in way.pending:
            needs = needs_of(way, pending)
            assert f"way-{way.name}" in needs
            assert needs <= SCENARIOS[scenario_name(way, pending)].needs
            others = {need for need in needs if not need.startswith("way-")}
            assert others <= {"coroutine", "validates-several", "ray"}
    assert "validates-several" in needs_of(WAYS[0], "several")
    assert "validates-several" not in needs_of(WAYS[0], "one")


def test_an_adapter_can_say_everything_that_scenarios_need() -> None:
    """What the matrix may need of a trainer is an attribute of its adapter, with a docstring for its author."""
    source = inspect.getsource(FitTarget)
    for name in ("coroutine", "validates_several", "absent"):
        assert hasattr(FitTarget, name)
        assert f"{name}: ClassVar" in source


def test_few_cells_are_some_of_each_way_out() -> None:
    """The few cells are less than half of the matrix, and of each way out they have one that is healthy."""
    few = [cell for cell in CELLS if is_few(cell)]
    assert 0 < len(few) < len(CELLS) / 2
    assert {cell.way for cell in few if cell.write == "healthy"} == set(WAYS)
