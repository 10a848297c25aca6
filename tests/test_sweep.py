"""Sweeps: every place at which a fault can strike is visited once, and no trial without a strike counts."""

from __future__ import annotations

import pytest

from fault_injection.fault import CATALOGUE, ERRNO_FAULTS, Fault
from fault_injection.history import History, Hung, Operated
from fault_injection.op import OPS, Op
from fault_injection.plan import Plan
from fault_injection.scenario import Family, Unit, at_every, every_errno
from fault_injection.scenarios import SCENARIOS
from fault_injection.sweep import VacuousTrialError, judged, kinds_of, sweep

FULL = Family("write", Fault("ENOSPC"))


class Writer:
    """Stands for a subject that does a number of writes; remembers the plans it ran under."""

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.plans: list[str] = []

    def __call__(self, plan: str) -> History:
        self.plans.append(plan)
        rules = Plan.parse(plan).rules
        fired = sum(count in rule.span for rule in rules for count in range(1, self.writes + 1))
        return History("three-dumps", plan, "disk", 0, (), fired)


@pytest.mark.parametrize("writes", [0, 1, 4])
def test_a_sweep_goes_on_until_nothing_fires(writes: int) -> None:
    """A family is run for k = 1, 2, 3, … and ends with the first trial in which nothing fired, which does not count."""
    writer = Writer(writes)
    found = list(sweep(Unit("three-dumps", family=FULL), writer, frozenset()))
    assert [k for k, _ in found] == list(range(1, writes + 1))
    assert [result.plan for _, result in found] == [f"write#{k}:ENOSPC" for k in range(1, writes + 1)]
    assert writer.plans == [f"write#{k}:ENOSPC" for k in range(1, writes + 2)]


def test_a_sweep_can_begin_later() -> None:
    """After a trial that hung, the rest of the family is run from the next k on."""
    found = list(sweep(Unit("three-dumps", family=FULL, start=3), Writer(4), frozenset()))
    assert [k for k, _ in found] == [3, 4]


@pytest.mark.parametrize(("kinds", "runs"), [({"write"}, 2), ({"open", "close"}, 0), (None, 2)])
def test_a_family_of_operations_that_do_not_happen_is_passed_over(kinds: set[str] | None, runs: int) -> None:
    """Where a run without faults shows no such operation, the family is not run at all."""
    writer = Writer(1)
    known = None if kinds is None else frozenset(kinds)
    list(sweep(Unit("three-dumps", family=FULL), writer, frozenset(), known))
    assert len(writer.plans) == runs


def test_a_sweep_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does more at every trial would be swept for ever: the harness says so instead."""
    monkeypatch.setattr("fault_injection.scenario.MOST_K", 5)
    with pytest.raises(VacuousTrialError, match="three-dumps-enospc-once-write still fires at k = 4"):
        list(sweep(Unit("three-dumps", family=FULL), Writer(10), frozenset()))


@pytest.mark.parametrize(
    ("plan", "counts"), [("none", True), (None, True), ("write#1:EIO", True), ("write#9:EIO", False)]
)
def test_a_single_plan_counts_only_if_it_struck(plan: str | None, counts: bool) -> None:
    """A plan with faults that strikes nothing is no trial; a plan without faults is one."""
    found = list(sweep(Unit("three-dumps", plan=plan), Writer(3), frozenset()))
    assert len(found) == counts
    assert all(k == 1 for k, _ in found)


def test_kinds_are_those_of_the_operations() -> None:
    """The kinds of a history are those of its operations, and writes stand for bytes too."""

    def history(*kinds: str) -> History:
        return History("s", "none", "disk", 0, tuple(Operated(i, Op(k, "f")) for i, k in enumerate(kinds, 1)))

    assert kinds_of(history("open", "close", "close")) == {"open", "close"}
    assert kinds_of(history("write")) == {"write", "bytes"}
    assert kinds_of(history()) == frozenset()


def test_a_result_says_which_laws_it_counts_for() -> None:
    """A trial counts for the laws that its history says something about, and shows whether a call hung."""
    result = judged(History("s", "none", "disk", 0), frozenset({"D1", "E1", "E8"}))
    assert (result.laws, result.violations, result.hung) == (("D1",), (), False)
    result = judged(History("s", "none", "disk", 0, (Hung("drain"),)), frozenset({"D1"}))
    assert (result.laws, result.hung) == (("E8",), True)
    assert [violation.law for violation in result.violations] == ["E8"]


def test_a_family_of_bytes_fills_the_disk_step_by_step() -> None:
    """Plans of bytes grow by their stride from an empty disk on, once or for good."""
    family = Family("bytes", Fault("ENOSPC"), stays=True, stride=100)
    assert [str(family.plan(k)) for k in (1, 2, 3)] == [
        "bytes>0:ENOSPC",
        "bytes>100:ENOSPC",
        "bytes>200:ENOSPC",
    ]
    assert str(Family("bytes", Fault("EDQUOT"), stride=7).plan(2)) == "bytes>7#1:EDQUOT"
    assert str(Family("write", Fault("EIO"), stays=True).plan(2)) == "write#2+:EIO"


def test_a_family_is_called_by_its_fault_and_operation() -> None:
    """The name of a family says what strikes, whether once or for good, and where."""
    assert str(FULL) == "enospc-once-write"
    assert str(Family("bytes", Fault("EDQUOT"), stays=True, stride=7)) == "edquot-persistent-bytes"


def test_every_errno_is_swept_at_every_operation_it_applies_to() -> None:
    """No pair of operation and errno is left out, once and from then on."""
    families = every_errno()
    assert len(set(families)) == len(families)
    pairs = {(op, name) for name in ERRNO_FAULTS for op in OPS if op in CATALOGUE[name].ops}
    assert {(f.op, f.fault.name) for f in families if f.stays} == pairs
    assert {(f.op, f.fault.name) for f in families if not f.stays} == pairs
    assert {f.op for f in at_every("stuck")} == CATALOGUE["stuck"].ops
    assert {f.stays for f in at_every("short", 7, both=True)} == {False, True}


def test_every_plan_of_every_scenario_can_be_replayed() -> None:
    """The text of each plan that a scenario may run parses back to the same plan."""
    for scenario in SCENARIOS.values():
        if scenario.place == "examples":
            continue
        plans = [*scenario.menu.plans, *(f.plan(k) for f in scenario.menu.families for k in (1, 2))]
        assert plans
        for plan in plans:
            assert Plan.parse(str(plan)) == plan
