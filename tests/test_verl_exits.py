"""The real trainers of verl, and the reference trainer in Ray, are what the page of the exits says they are.

Where verl is not installed there is nothing to compare: these tests belong to `tox -e verl`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fault_injection.crew import Crew, Pool
from fault_injection.engine import Checked, check
from fault_injection.extent import Extent
from fault_injection.matrix import as_values, outcomes
from fault_injection.scenario import Unit
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.targets.verl import ADAPTERS
from fault_injection.ways import WAYS, cells
from fault_injection.wire import Depth

if find_spec("verl") is None:
    pytest.skip("verl is not installed: these tests are run by `tox -e verl`", allow_module_level=True)

pytestmark = pytest.mark.timeout(900)
CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).resolve().parent.parent)
LAWS = frozenset(way.law for way in WAYS)
IN_ACTORS = frozenset(way.law for way in WAYS if way.place == "ray")
Marks = dict[tuple[str, str, str], tuple[str, str]]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Worker processes that import verl once for all trainers."""
    with Pool() as workers:
        yield workers


@pytest.fixture(scope="module")
def page() -> dict[str, Marks]:
    """What docs/exits.md says, by target."""
    stored = json.loads((CHECKOUT / "docs" / "exits.json").read_text(encoding="utf-8"))
    return {report["target"]: _marks(report["exits"]) for report in stored["reports"]}


def _marks(exits: list[dict[str, str]]) -> Marks:
    """For each cell whether data and errors were held, not demanded, or lost."""

    def word(text: str) -> str:
        return text if text in {"held", "not demanded"} else "lost"

    return {(e["way"], e["pending"], e["write"]): (word(e["data"]), word(e["errors"])) for e in exits}


def _checked(spec: Spec, laws: frozenset[str], pool: Pool, **options: object) -> Checked:
    return check(spec, load_subject(spec), laws=laws, extent=Extent.FEW, pool=pool, **options)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_trainer_of_verl_is_as_the_page_says(name: str, pool: Pool, page: dict[str, Marks]) -> None:
    """Each cell of a quick run has the data and the errors that the page says, and the trainer loses some."""
    found = _marks(as_values(_checked(Spec(f"verl:{name}"), LAWS - IN_ACTORS, pool).exits))
    assert len(found) >= 20
    said = page[f"verl:{name}"]
    assert found == {cell: said[cell] for cell in found}
    assert any("lost" in each for each in found.values())


def test_the_reference_trainer_holds_every_way_out_in_an_actor(pool: Pool) -> None:
    """In the actors of a local Ray nothing is lost, and the driver is told of every failure."""
    found = _checked(Spec(DEFAULT), IN_ACTORS, pool, depth=Depth(ray=True))
    assert {verdict.law: verdict.status for verdict in found.verdicts} == dict.fromkeys(IN_ACTORS, "holds")
    assert len(found.exits) == 20


def test_a_real_trainer_in_an_actor_is_as_the_page_says(pool: Pool, page: dict[str, Marks]) -> None:
    """Verl's own trainer is driven in actors too; with a failing write pending, each way out is as the page says."""
    chosen = [c for c in cells() if c.way.law in IN_ACTORS and (c.pending, c.write) == ("one", "failing")]
    units = tuple(Unit(cell.scenario, plan=cell.plan) for cell in chosen)
    crew = Crew(Spec("verl:RayPPOTrainer"), 0, Depth(ray=True), 1, pool)
    found = _marks(as_values(outcomes(crew.run(units, IN_ACTORS))))
    assert len(found) == 5
    said = page["verl:RayPPOTrainer"]
    assert found == {cell: said[cell] for cell in found}
