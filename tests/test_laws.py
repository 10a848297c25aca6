"""The laws: complete, well-formed, each with a rule and a scenario, and documented as they stand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fault_injection import docs
from fault_injection.judge import RULES
from fault_injection.laws import GROUPS, LAWS, UnknownLawError, choose_laws
from fault_injection.scenarios import SCENARIOS
from fault_injection.targets.base import CAPABILITIES
from fault_injection.ways import WAYS

CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).resolve().parent.parent)
"""The repository: under tox, the tests and the packages are imported from elsewhere."""
FIRST_GROUPS = {
    *(f"D{n}" for n in range(1, 7)),
    *(f"E{n}" for n in range(1, 11)),
    *(f"Q{n}" for n in range(1, 8)),
}


def test_no_law_of_the_first_groups_is_missing() -> None:
    """The laws of data, errors and the queue are all there, under their stable identifiers."""
    assert LAWS.keys() >= FIRST_GROUPS
    assert all(law.id == name for name, law in LAWS.items())


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_law_is_one_sentence_with_a_reason(law: object) -> None:
    """A law has a group, one sentence and a reason that end in a full stop, needs something that exists, and is asked for by name."""
    assert choose_laws([law.id]) == {law.id}
    assert re.fullmatch(r"[A-Z]\d+", law.id)
    assert law.id[0] in GROUPS
    for text in (law.sentence, law.why):
        assert re.fullmatch(r"[A-Z'].*\.", text)
        assert "  " not in text
    assert law.needs in {"", "asynchronous", "fit", *CAPABILITIES}
    assert not law.seen.endswith(".")


@pytest.mark.parametrize("law", sorted(FIRST_GROUPS))
def test_a_law_has_a_rule_and_a_scenario_that_its_needs_allow(law: str) -> None:
    """Every law is judged somewhere, and a target that meets its needs can be driven through at least one scenario."""
    assert law in RULES
    scenarios = [s for s in SCENARIOS.values() if law in s.laws]
    assert scenarios
    needs = LAWS[law].needs
    given = {needs, "asynchronous", "coroutine"} | {f"way-{way.name}" for way in WAYS}
    assert any(s.needs <= given for s in scenarios)


def test_every_scenario_is_judged_by_known_laws() -> None:
    """A scenario names laws that exist, and a name that is its own."""
    for name, scenario in SCENARIOS.items():
        assert scenario.name == name
        assert scenario.laws
        assert scenario.laws <= LAWS.keys()


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param(["E2"], {"E2"}, id="one"),
        pytest.param(["e2, D1", "Q4"], {"E2", "D1", "Q4"}, id="joined-and-repeated"),
        pytest.param(["q"], {law for law in LAWS if law.startswith("Q")}, id="group"),
        pytest.param(["D6,D"], {law for law in LAWS if law.startswith("D")}, id="group-and-member"),
        pytest.param([","], None, id="empty-words"),
    ],
)
def test_laws_are_chosen_by_name_or_group(asked: list[str], chosen: set[str] | None) -> None:
    """A law is named by its identifier, a group by its letter, in any case, joined by commas or repeated."""
    assert choose_laws(asked) == chosen


@pytest.mark.parametrize("name", ["E99", "Z", "E 2", "-", "laws"])
def test_an_unknown_law_is_one_clear_line(name: str) -> None:
    """A name that is no law is refused with those that are."""
    with pytest.raises(UnknownLawError, match=r"unknown law .*; the laws are D1, .*, the groups D") as caught:
        choose_laws([name])
    assert "\n" not in str(caught.value)


def test_the_page_of_the_values_is_what_the_writer_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page docs/values.md says what the reference writer writes today, value by value."""
    # Where torch keeps a folder of its own for nested tensors.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    page = (CHECKOUT / "docs" / "values.md").read_text(encoding="utf-8")
    made = docs.PAGES["values"]()
    missing = [line for line in made.splitlines() if line not in page.splitlines()]
    assert missing == [], "run: python -m fault_injection.docs values"
    assert made.count("\n") > 60


def test_the_page_of_the_laws_is_what_the_code_says() -> None:
    """The page docs/laws.md is generated from the laws and never edited by hand."""
    page = CHECKOUT / "docs" / "laws.md"
    assert page.read_text(encoding="utf-8") == docs.laws_page(), "run: python -m fault_injection.docs laws"


def test_the_page_of_the_mechanisms_is_what_the_code_says() -> None:
    """The page docs/mechanisms.md is generated from what the mechanisms say and never edited by hand."""
    page = CHECKOUT / "docs" / "mechanisms.md"
    assert page.read_text(encoding="utf-8") == docs.PAGES["mechanisms"](), (
        "run: python -m fault_injection.docs mechanisms"
    )


def test_the_page_holds_every_law() -> None:
    """Each law is on the page with its sentence, its reason, where it was seen and what it needs."""
    page = docs.laws_page()
    for law in LAWS.values():
        for text in (f"| {law.id} |", law.sentence, law.why, law.seen, law.needs):
            assert text.replace("*", "\\*") in page
    assert all(f"## {letter}. {name}" in page for letter, name in GROUPS.items())
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| law")]
    assert len(rows) == len(LAWS)
    assert all(row.count(" | ") == 4 for row in rows)


def test_the_page_is_written_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The generator writes one file, makes its folder, and refuses anything else in one line."""
    target = tmp_path / "docs" / "laws.md"
    assert docs.main(["laws", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == docs.laws_page()
    assert [path.name for path in target.parent.iterdir()] == ["laws.md"]
    capsys.readouterr()
    assert docs.main(["flaws"]) == 2
    assert (
        capsys.readouterr().err
        == "usage: python -m fault_injection.docs {exits,laws,mechanisms,values} [FILE]\n"
    )
