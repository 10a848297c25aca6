"""Profiles: how far a run goes, and whether it is the same run each time."""

from __future__ import annotations

import re

import pytest

from fault_injection.extent import Extent
from fault_injection.options import parser
from fault_injection.profiles import PROFILES, VARIABLE, choose_profile, seed_of
from fault_injection.targets.errors import TargetError


def test_the_default_is_ci_and_always_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing names a profile, a run is that of CI, with seed 0."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert choose_profile(None) is PROFILES["ci"]
    assert seed_of(PROFILES["ci"], None) == 0


@pytest.mark.parametrize("name", PROFILES)
def test_the_environment_names_the_profile_and_an_option_overrules_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable chooses the profile, unless the command line does."""
    monkeypatch.setenv(VARIABLE, name)
    assert choose_profile(None) is PROFILES[name]
    assert choose_profile("dev") is PROFILES["dev"]


def test_a_quick_run_is_the_least_and_always_the_same() -> None:
    """The quick profile is for the time between two edits: a few trials of everything, the same each time."""
    assert PROFILES["quick"].extent is Extent.LEAST
    assert seed_of(PROFILES["quick"], None) == 0


def test_the_nightly_run_is_of_ten_thousand_examples_a_law() -> None:
    """The nightly profile goes as far as was promised, and each night elsewhere."""
    assert PROFILES["nightly"].examples == 10_000
    assert len({seed_of(PROFILES["nightly"], None) for _ in range(8)}) > 1


def test_a_seed_that_was_asked_for_is_the_seed() -> None:
    """No profile overrules a seed."""
    assert [seed_of(profile, 7) for profile in PROFILES.values()] == [7] * len(PROFILES)


@pytest.mark.parametrize(
    ("option", "where"), [("weekly", "--profile"), (None, VARIABLE)], ids=["option", "variable"]
)
def test_an_unknown_profile_is_refused_in_one_line(
    option: str | None, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal says where the name came from and which profiles there are."""
    monkeypatch.setenv(VARIABLE, "weekly")
    with pytest.raises(TargetError, match=rf"^{where} 'weekly' is no profile; .*nightly$"):
        choose_profile(option)


def test_every_option_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of `check` has a text for each option."""
    with pytest.raises(SystemExit):
        parser().parse_args(["check", "--help"])
    text = capsys.readouterr().out
    options = re.findall(r"^  (-.*?)(?=^  \S|\Z|^$)", text, re.MULTILINE | re.DOTALL)
    assert len(options) > 10
    assert [option for option in options if not re.search(r"\S\s{2,}\S", option)] == []
