"""The catalogue of faults and their texts: what each form means, and what a wrong one is told."""

from __future__ import annotations

import errno
import re

import pytest

from fault_injection import fault as faults
from fault_injection.fault import CATALOGUE, ERRNO_FAULTS, Fault, parse_fault
from fault_injection.plan import Plan, PlanError


@pytest.mark.parametrize(
    ("text", "fault", "printed"),
    [
        ("ENOSPC", Fault("ENOSPC", 0), "ENOSPC"),
        (" short( 7 ) ", Fault("short", 7), "short(7)"),
        ("slow(50ms)", Fault("slow", 50), "slow(50ms)"),
        ("slow(2s)", Fault("slow", 2000), "slow(2000ms)"),
        ("slow(0.5ms)", Fault("slow", 0.5), "slow(0.5ms)"),
        ("slow(1e12ms)", Fault("slow", 1e12), "slow(1000000000000ms)"),
    ],
    ids=["plain", "bytes", "milliseconds", "seconds", "fraction", "longest"],
)
def test_a_fault_is_read_and_printed(text: str, fault: Fault, printed: str) -> None:
    """Times are counted in milliseconds whatever their unit, and print without needless digits."""
    assert parse_fault(text) == fault
    assert str(fault) == repr(fault) == printed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no space", "'no space' is no fault; write a name such as ENOSPC, short(7) or slow(50ms)"),
        ("", "'' is no fault; write a name such as ENOSPC"),
        ("slow", "fault slow needs a time, such as slow(50ms) or slow(2s)"),
        ("slow()", "fault slow needs a time"),
        ("slow(1000000000001ms)", "fault slow waits for 30 years at most, not 1000000000001ms"),
    ],
    ids=["words", "nothing", "no-time", "empty-time", "for-ever"],
)
def test_a_wrong_fault_is_told_what_to_write(text: str, words: str) -> None:
    """What is no fault is refused with its text and what to write instead."""
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_fault(text)


@pytest.mark.parametrize("name", ["vanish", "replace"])
def test_a_directory_is_not_taken_away_before_it_is_made(name: str) -> None:
    """The dump directory can be removed before every operation on a file but the one that makes it."""
    with pytest.raises(PlanError, match=f"fault {name} does not apply to mkdir"):
        Plan.parse(f"mkdir#1:{name}")


def test_every_fault_has_the_number_of_its_name_or_none() -> None:
    """A fault of an errno raises that errno, a lost sync EIO, and every other fault has no error number."""
    kinds = {name: Fault(name).kind for name in CATALOGUE}
    numbers = {name: kind.errno for name, kind in kinds.items()}
    named = {name: getattr(errno, name) for name in ERRNO_FAULTS}
    assert numbers == {**dict.fromkeys(CATALOGUE, 0), **named, "lost": errno.EIO}
    assert {kind.parameter for kind in kinds.values()} == {"", "bytes", "time"}


def test_a_platform_without_an_errno_does_not_have_its_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system knows no such number, the catalogue has no such fault, and has the others."""
    monkeypatch.delattr(errno, "ENFILE")
    assert {kind.name for kind in faults._errno_kinds()} == set(ERRNO_FAULTS) - {"ENFILE"}
