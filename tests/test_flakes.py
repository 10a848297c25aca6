"""The proof that the contract raises no false alarm: its script, and the page that it made."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).resolve().parent.parent)


@pytest.fixture(scope="module")
def flakes() -> Any:
    """The script, which is in no package that is installed."""
    spec = importlib.util.spec_from_file_location("flakes_script", CHECKOUT / "benchmarks" / "flakes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for the module that it was made in.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def run_of(flakes: Any, seed: int, *, loaded: bool, **other: Any) -> Any:
    """A run in which all held, but for what is given."""
    values = {
        "code": 0,
        "held": 55,
        "broken": (),
        "trials": 10,
        "seconds": 2.0,
        "load": 1.0,
        "digest": "same",
    }
    return flakes.Run(kind="quick", seed=seed, loaded=loaded, **{**values, **other})


def test_no_run_on_the_page_flaked() -> None:
    """Of at least 500 quick runs and 20 full ones, half of each under load, none failed; no seed gave two reports."""
    stored = json.loads((CHECKOUT / "docs" / "flakes.json").read_text(encoding="utf-8"))
    runs = {(row["kind"], row["loaded"]): row["runs"] for row in stored["rows"]}
    assert min(runs["quick", False], runs["quick", True]) >= 250
    assert min(runs["full", False], runs["full", True]) >= 10
    assert stored["flakes"] == stored["differing"] == []
    assert all(len(row["laws held"]) == 1 for row in stored["rows"])


def test_the_page_is_made_of_its_json(flakes: Any) -> None:
    """The text of docs/flakes.md is what docs/flakes.json makes."""
    stored = json.loads((CHECKOUT / "docs" / "flakes.json").read_text(encoding="utf-8"))
    assert (CHECKOUT / "docs" / "flakes.md").read_text(encoding="utf-8") == flakes.page(stored)


def test_a_flake_and_a_pair_that_disagrees_are_told(flakes: Any) -> None:
    """A run in which a law was violated, and two reports of one seed that differ, are to be seen on the page."""
    runs = [
        run_of(flakes, 0, loaded=False),
        run_of(flakes, 0, loaded=True),
        run_of(flakes, 1, loaded=False),
        run_of(flakes, 1, loaded=True, code=1, held=54, broken=("D1: gone",), digest="other"),
    ]
    data = json.loads(json.dumps(flakes.figures(runs)))
    assert [row["flakes"] for row in data["rows"]] == [0, 1]
    assert data["pairs"] == 2
    assert data["differing"] == ["quick 1"]
    assert "D1: gone" in flakes.page(data)


def test_only_the_time_may_differ_between_two_reports(flakes: Any) -> None:
    """Reports that differ in their seconds have one digest; those that differ in anything else have two."""
    report = {"seconds": 1.5, "laws": [{"id": "D1", "status": "holds", "trials": 3}]}
    assert flakes.digest_of({**report, "seconds": 7}) == flakes.digest_of(report)
    assert flakes.digest_of({**report, "seed": 1}) != flakes.digest_of(report)


def test_runs_that_are_known_are_not_made_again(
    flakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted series goes on where it was: each seed is run once alone and once beside others."""
    asked: list[tuple[int, bool]] = []

    def one(kind: str, seed: int, *, loaded: bool) -> Any:
        assert kind == "quick"
        asked.append((seed, loaded))
        return run_of(flakes, seed, loaded=loaded)

    monkeypatch.setattr(flakes, "one", one)
    file = tmp_path / "runs.jsonl"
    flakes.go_on(file, "quick", 4)
    assert sorted(asked) == [(0, False), (0, True), (1, False), (1, True)]
    flakes.go_on(file, "quick", 6)
    assert sorted(asked[4:]) == [(2, False), (2, True)]
    assert len(flakes.read(file)) == 6
