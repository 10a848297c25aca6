"""How much of the contract a run has."""

from __future__ import annotations

import pytest

from fault_injection.engine import check, claimed_laws, units_for
from fault_injection.extent import ERRNOS, Extent, chosen
from fault_injection.fault import ERRNO_FAULTS, Fault
from fault_injection.scenario import Family, Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.sweep import VacuousTrialError, see_ended
from fault_injection.ways import cell_of
from fault_injection.wire import Depth

REFERENCE = load_subject(Spec(DEFAULT))
LAWS = claimed_laws(REFERENCE)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_least_run_visits_every_law(seed: int) -> None:
    """A quick run judges the reference writer by every law that a whole run has without options, and accuses it of none."""
    checked = check(Spec(DEFAULT), REFERENCE, seed=seed, extent=Extent.LEAST, depth=Depth(5))
    by = {verdict.law: verdict.status for verdict in checked.verdicts}
    asked_for = {law for law, status in by.items() if status == "skipped"}
    assert asked_for == {"S6", "X20", "X21", "X22", "X23", "X24"}
    assert {law for law, status in by.items() if status == "holds"} == LAWS - asked_for


def test_the_least_run_is_a_small_part() -> None:
    """A quick run has few units, each of them one of the run with few errnos, and no long sweep."""
    few = set(units_for(REFERENCE, LAWS, extent=Extent.FEW))
    least = units_for(REFERENCE, LAWS, extent=Extent.LEAST)
    assert len(least) * 5 < len(few)
    assert {Unit(unit.scenario, unit.plan, unit.family) for unit in least} <= few
    assert all(len(unit.ks) <= 2 for unit in least if unit.family is not None)


def test_the_least_run_leaves_by_every_way_in_health_and_not() -> None:
    """Each way out meets a failing disk, and a healthy one where that is among the few cells of it."""

    def met(extent: Extent) -> set[tuple[str, bool]]:
        units = units_for(REFERENCE, LAWS, extent=extent)
        cells = [cell_of(unit.scenario, unit.plan or "") for unit in units]
        return {(cell.way.name, cell.write == "healthy") for cell in cells if cell is not None}

    assert met(Extent.LEAST) == met(Extent.FEW)


def test_the_seed_chooses_what_the_least_run_has() -> None:
    """One seed gives the same units each time; many seeds together visit most of what there is."""
    assert chosen(units_for(REFERENCE, LAWS), Extent.LEAST, 3) == units_for(
        REFERENCE, LAWS, extent=Extent.LEAST, seed=3
    )
    few = units_for(REFERENCE, LAWS, extent=Extent.FEW)
    met = {
        Unit(unit.scenario, unit.plan, unit.family)
        for seed in range(200)
        for unit in chosen(few, Extent.LEAST, seed)
    }
    assert len(met) > 0.8 * len(few)


def test_one_scenario_alone_is_run_however_dear() -> None:
    """What a quick run leaves out because it takes long is run where nothing else was asked for."""
    units = units_for(REFERENCE, frozenset({"Q2"}))
    dear = tuple(unit for unit in units if unit.scenario == "much-waits")
    assert dear
    assert set(chosen(dear, Extent.LEAST, 0)) == set(dear)
    assert {unit.scenario for unit in chosen(units, Extent.LEAST, 0)} == {"many-wait"}


def test_few_errnos_are_those_that_writers_tell_apart() -> None:
    """A run with few errnos leaves the others out, and nothing else that is swept."""
    left = set(units_for(REFERENCE, LAWS)) - set(units_for(REFERENCE, LAWS, extent=Extent.FEW))
    faults = {unit.family.fault.name for unit in left if unit.family is not None}
    assert faults
    assert faults <= set(ERRNO_FAULTS) - ERRNOS
    assert all(cell_of(unit.scenario, unit.plan or "") for unit in left if unit.family is None)


def test_a_short_sweep_may_still_fire_at_its_end() -> None:
    """Only a sweep that was to go on until nothing fires is suspect when it never ends."""
    unit = Unit("three-dumps", family=Family("write", Fault("ENOSPC")), start=3, most=2)
    assert list(unit.ks) == [3, 4]
    see_ended(unit)
    with pytest.raises(VacuousTrialError, match="the sweep has no end"):
        see_ended(Unit("three-dumps", family=Family("write", Fault("ENOSPC"))))


def test_every_extent_has_its_preemptions() -> None:
    """The less is run, the less often threads are preempted."""
    assert [extent.preemptions for extent in Extent] == [2, 1, 0]


def test_dear_scenarios_are_scenarios() -> None:
    """What is left out by name exists."""
    from fault_injection.extent import _DEAR

    assert set(SCENARIOS) >= _DEAR
