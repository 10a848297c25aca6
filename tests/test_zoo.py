"""The harness is right in both directions: every broken writer is caught by its law, no correct one is accused."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from fault_injection.crew import Crew, Pool, UnitResult
from fault_injection.engine import claimed_laws, driven_by, probe, units_for
from fault_injection.extent import Extent
from fault_injection.lacking import sort_out
from fault_injection.laws import LAWS
from fault_injection.mechanisms import kernel
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Spec, load_subject
from fault_injection.verdict import Verdict, verdicts_of
from fault_injection.wire import DEPTH
from tests.zoo import BROKEN, CORRECT, UNSEEN, UNUSUAL
from tests.zoo.table import Caught, Cleared, Table, stable

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(300)]
FULL = os.environ.get("VERL_DUMP_FULL") == "1"
EXTENT = Extent.WHOLE if FULL else Extent.FEW
# They encode plain JSON values only, as simply as can be: groups S and C are about more.
GROUPS = frozenset(law for law in LAWS if law[0] in "DEQ")
ONCE = replace(DEPTH, preemptions=1)
"""Threads are preempted once at most."""
BY_KERNEL = frozenset(law for each in SCENARIOS.values() if each.mechanism == "kernel" for law in each.laws)
"""The laws on which scenarios through the kernel bear."""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Worker processes that every writer of the zoo is run by, one after the other."""
    with Pool() as pool:
        yield pool


@pytest.fixture(scope="module")
def table(pytestconfig: pytest.Config) -> Table:
    """Collects what the tests find, and tells it at the end of the run."""
    table = Table(
        ((cls.__name__, cls.broken_law) for cls in BROKEN),
        (cls.__name__ for cls in (*CORRECT, *UNSEEN, *UNUSUAL)),
    )
    pytestconfig.pluginmanager.register(table)
    return table


def _spec(cls: type) -> Spec:
    return Spec(f"{cls.__module__}:{cls.__name__}")


def _cleared(cls: type, laws: frozenset[str], pool: Pool, place: int) -> Cleared:
    """Run the contract on a writer that no law may accuse, with its share of what takes long."""
    spec, begin = _spec(cls), time.monotonic()
    subject = load_subject(spec)
    claimed = claimed_laws(subject) & laws
    driven = driven_by(subject, None, seen=probe(Crew(spec, 0, pool=pool), subject))
    every = (unit for unit in units_for(subject, claimed, extent=EXTENT) if unit.scenario in driven)
    units = shared(every, place)
    # What takes longest begins first, so that no process is left alone with it at the end.
    units = tuple(sorted(sort_out(units), key=lambda unit: kind_of(unit) not in LONG))
    results = Crew(spec, 0, DEPTH if FULL else ONCE, pool=pool).run(units, claimed)
    assert not any(result.hung for each in results for result in each.results)
    ran = {SCENARIOS[each.unit.scenario].mechanism for each in results if each.results}
    trials = sum(result.states for each in results for result in each.results)
    return _row(cls, verdicts_of(subject, laws, results), ran, trials, time.monotonic() - begin)


def _row(cls: type, verdicts: Iterable[Verdict], ran: set[str], trials: int, seconds: float) -> Cleared:
    """The row of a correct writer; what was not judged is what a run through the kernel alone cannot judge."""
    by = {
        status: [v.law for v in verdicts if v.status == status] for status in ("holds", "violated", "skipped")
    }
    assert {v.law: v.violations for v in verdicts if v.status == "violated"} == {}
    assert [law for law in by["skipped"] if "disk" in ran or law in BY_KERNEL] == []
    built = (cls.__doc__ or "").splitlines()[0]
    through = tuple(name for name in ("disk", "memory", "kernel") if name in ran)
    return Cleared(cls.__name__, built, through, len(by["holds"]), trials, tuple(by["violated"]), seconds)


SHARES = {"sweep": 4, "schedules": 8, "processes": 8}
"""Of each kind of work a correct writer has every fourth or eighth unit: together the nine have them all."""

LONG = {"schedules", "processes"}
"""The kinds whose units take longest."""


def kind_of(unit: Unit) -> str:
    """Which kind of work a unit is; the empty text for what every writer has."""
    scenario = SCENARIOS[unit.scenario]
    if scenario.place == "switch":
        return "schedules"
    if unit.family is None:
        return ""
    return "sweep" if (scenario.place, scenario.mechanism) == ("here", "disk") else "processes"


def shared(units: Iterable[Unit], place: int) -> tuple[Unit, ...]:
    """Of what takes long a share, of all else everything; with `VERL_DUMP_FULL=1`, everything."""
    out: list[Unit] = []
    counts: Counter[str] = Counter()
    for unit in units:
        kind = kind_of(unit)
        counts[kind] += 1
        if FULL or not kind or (counts[kind] + place) % SHARES[kind] == 0:
            out.append(unit)
    return tuple(out)


def sorted_laws(laws: Iterable[str]) -> list[str]:
    """Identifiers of laws in the order in which they are listed."""
    return sorted(laws, key=list(LAWS).index)


@pytest.mark.parametrize("cls", CORRECT, ids=lambda cls: cls.__name__)
def test_correct_writer_is_not_accused(cls: type, pool: Pool, table: Table) -> None:
    """A correct writer, however it is built, violates no law, and none that it claims goes unjudged."""
    cleared = _cleared(cls, GROUPS, pool, CORRECT.index(cls))
    assert "disk" in cleared.through
    assert cleared.trials > 200
    table.cleared.append(cleared)


@pytest.mark.skipif("seccomp" in kernel.missing(), reason=kernel.missing().get("seccomp", ""))
@pytest.mark.parametrize("cls", UNSEEN, ids=lambda cls: cls.__name__)
def test_unseen_writer_is_sent_to_the_kernel(cls: type, pool: Pool, table: Table) -> None:
    """A correct writer whose files nothing in Python sees is struck and judged by the kernel alone, and not accused."""
    cleared = _cleared(cls, GROUPS, pool, UNSEEN.index(cls))
    assert cleared.through == ("kernel",)
    assert cleared.trials > 20
    table.cleared.append(cleared)


@pytest.mark.parametrize("cls", UNUSUAL, ids=lambda cls: cls.__name__)
def test_unusual_writer_is_not_accused(cls: type, pool: Pool, table: Table) -> None:
    """A correct writer that does one thing in an unusual way violates none of the laws which that could touch."""
    cleared = _cleared(cls, frozenset({"D1", "D3", "D6"}), pool, UNUSUAL.index(cls))
    assert cleared.laws == 3
    table.cleared.append(cleared)


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_broken_writer_is_caught_by_its_law(cls: type, pool: Pool, table: Table) -> None:
    """A writer that is broken in one way is caught by the law that names that way."""
    law, spec, begin = cls.broken_law, _spec(cls), time.monotonic()
    subject = load_subject(spec)
    claimed = claimed_laws(subject)
    assert law in claimed, f"{cls.__name__} does not claim {law}"

    def caught(result: UnitResult) -> bool:
        return any(violation.law == law for each in result.results for violation in each.violations)

    # Of the exit matrix few cells are not enough; all of one way out are cheap.
    extent = Extent.WHOLE if law[0] == "X" else Extent.FEW
    units = eager(units_for(subject, frozenset({law}), extent=extent))
    results = Crew(spec, 0, ONCE, pool=pool).run(units, claimed, caught)
    row = _found(cls, results, time.monotonic() - begin)
    table.caught.append(row)
    assert law in row.fired, f"{law} did not fire: {cls.because}"


def _found(cls: type, results: Iterable[UnitResult], seconds: float) -> Caught:
    """The row of a broken writer: everything up to the first trial that broke its law, in the order of the units."""
    fired: set[str] = set()
    found, trials = "", 0
    for unit, result in ((each.unit, result) for each in results for result in each.results):
        trials += result.states
        broken = {violation.law for violation in result.violations}
        fired |= broken
        if cls.broken_law in broken:
            found = f"{unit.scenario} {result.plan}"
            break
    return Caught(**stable(cls), fired=tuple(sorted_laws(fired)), found=found, trials=trials, seconds=seconds)


_COST = {"here": 0, "examples": 1, "power": 1, "spawn": 2, "switch": 3, "fork": 3, "ray": 5}


def eager(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """The units in an order that meets a defect early.

    Each scenario first as its plans stand, then the first trial of one family for each kind of operation, once and for good,
    then the next; of these the cheap before the dear, and the scenario that is about few laws before the one about many.
    """
    ranks: dict[Unit, int] = {}
    seen: Counter[tuple[str, str, bool]] = Counter()
    for unit in units:
        if unit.family is not None:
            kind = (unit.scenario, unit.family.op, unit.family.stays)
            seen[kind] += 1
            ranks[replace(unit, most=1)] = seen[kind]
            ranks[replace(unit, start=2)] = seen[kind] + 1
        else:
            # To run every schedule of one scenario takes longer than the first trial of each family.
            ranks[unit] = int(SCENARIOS[unit.scenario].place == "switch")

    def key(unit: Unit) -> tuple[int, int, int]:
        scenario = SCENARIOS[unit.scenario]
        cost = 4 if scenario.mechanism != "disk" else _COST[scenario.place]
        return ranks[unit], cost, len(scenario.laws)

    return tuple(sorted(ranks, key=key))
