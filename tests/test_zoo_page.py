"""The page of the zoo: it has every writer, as it stands, and what a run has found of each."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.zoo import BROKEN, CORRECT, UNUSUAL
from tests.zoo.correct import ProcessWriter, StdioWriter
from tests.zoo.table import STABLE, Caught, Cleared, Table, as_json, lines, page, stable, summary

CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).resolve().parent.parent)
STORED = json.loads((CHECKOUT / "docs" / "zoo.json").read_text(encoding="utf-8"))


def test_the_page_has_every_broken_writer_as_it_stands() -> None:
    """Defect, law, reason and upstream of the page are those of the classes; if not, run `python -m benchmarks.zoo`."""
    listed = [{name: row[name] for name in STABLE} for row in STORED["broken"]]
    assert listed == [stable(cls) for cls in BROKEN]


def test_the_page_has_every_correct_writer() -> None:
    """Every correct writer that needs no other package is on the page; if not, run `python -m benchmarks.zoo`."""
    needed = {cls.__name__ for cls in (*CORRECT, ProcessWriter, StdioWriter, *UNUSUAL)}
    assert {row["writer"] for row in STORED["correct"]} >= needed


def test_the_page_says_that_all_are_caught_and_none_is_accused() -> None:
    """On the page every broken writer is caught by its own law, and no law accuses a correct one."""
    assert [row["defect"] for row in STORED["broken"] if row["law"] not in row["fired"]] == []
    assert [row["writer"] for row in STORED["correct"] if row["accused"]] == []


def test_the_page_is_made_of_its_json() -> None:
    """The texts of docs/zoo.md and docs/zoo.json are what the stored values make."""
    assert (CHECKOUT / "docs" / "zoo.md").read_text(encoding="utf-8") == page(STORED)
    assert (CHECKOUT / "docs" / "zoo.json").read_text(encoding="utf-8") == as_json(STORED)


@pytest.fixture
def table() -> Table:
    """A table of one defect that is caught, one that is not, and one correct writer that is accused."""
    table = Table([("A", "D1"), ("B", "D1")], ["C"])
    table.caught.append(Caught("B", "D1", "it | drops", "", ("D2",), "", 7, 0.5))
    table.caught.append(Caught("A", "D1", "it forgets", "verl", ("D1", "E1"), "three-dumps none", 1234, 0.5))
    table.cleared.append(Cleared("C", "As it should be.", ("disk",), 12, 600, ("Q1",), 2.0))
    return table


def test_the_table_tells_what_was_not_caught_and_what_was_accused(table: Table) -> None:
    """A defect that its law does not catch and a correct writer that a law accuses are to be seen, in the zoo's order."""
    value = table.value()
    assert [row["defect"] for row in value["broken"]] == ["A", "B"]
    assert summary(value).startswith("1 of 2 broken writers caught")
    assert summary(value).endswith("1 of 1 correct ones accused")
    assert "it \\| drops" in page(value)
    assert any("1,234" in line and "D1 E1" in line for line in lines(value))
    assert json.loads(as_json(value)) == json.loads(json.dumps(value))


class Terminal:
    """Takes what pytest's terminal would print."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def section(self, title: str) -> None:
        """Begin a section."""
        self.said.append(title)

    def write_line(self, line: str) -> None:
        """Print a line."""
        self.said.append(line)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "part"])
def test_only_a_whole_run_is_written_to_the_docs(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """A run of a part of the zoo prints its rows and leaves the page as it is."""
    monkeypatch.setenv("VERL_DUMP_ZOO", str(tmp_path))
    if not whole:
        table.cleared.clear()
    terminal = Terminal()
    table.pytest_terminal_summary(terminal)
    assert "zoo" in terminal.said[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == (["zoo.json", "zoo.md"] if whole else [])


def test_every_test_of_the_zoo_is_in_a_file_that_tox_names() -> None:
    """`tox -e zoo` collects a few files only, since to collect all takes long; none that is marked is elsewhere."""
    command = next(
        line for line in (CHECKOUT / "tox.ini").read_text(encoding="utf-8").splitlines() if "-m zoo" in line
    )
    marked = {
        f"tests/{file.name}"
        for file in (CHECKOUT / "tests").glob("test_*.py")
        if "pytest.mark." + "zoo" in file.read_text(encoding="utf-8")
    }
    assert marked == set(re.findall(r"tests/\w+\.py", command))
