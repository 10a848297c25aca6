"""Scenarios through the kernel: what the other mechanisms say must be true of a system that truly fails.

They also judge writers whose files are written by C code, which the fault layer of Python cannot see.
"""

from __future__ import annotations

from fault_injection.fault import Fault
from fault_injection.plan import Plan
from fault_injection.scenario import Family, Menu, Scenario, every_errno
from fault_injection.scenarios.writing import (
    all_sizes,
    lay_older,
    over_older,
    restarted,
    same_step,
    three_dumps,
)

CALLS = ("mkdir", "open", "write", "fsync", "fsyncdir", "close", "rename")
"""The operations that are system calls of their own."""

_LAWS = frozenset({"D1", "D2", "D3", "D4", "E1", "E2", "E3", "E4", "E5", "E7"})
_REAL = (
    "bytes>4096:ENOSPC",
    "bytes>12288:ENOSPC",
    "bytes>600:EFBIG",
    "open#1+:EACCES",
    "mkdir#1+:EACCES",
    "open#1+:EPERM",
    "mkdir#1+:EPERM",
    "open#1+:EROFS",
    "mkdir#1+:EROFS",
    "open#1+:EMFILE",
)
_FEW = ("ENOSPC", "EIO")
_PIECE = 97
"""Bytes that a short write takes here: each is a system call that is stopped, and seven at a time took seconds."""

SCENARIOS = (
    Scenario(
        "three-dumps-through-the-kernel",
        _LAWS,
        three_dumps,
        Menu(
            (Plan(), *map(Plan.parse, _REAL)),
            (
                *every_errno(CALLS, _FEW),
                Family("write", Fault("short", _PIECE), stays=True),
                Family("write", Fault("slow", 1)),
                Family("rename", Fault("vanish")),
            ),
        ),
        mechanism="kernel",
    ),
    Scenario(
        "over-older-through-the-kernel",
        frozenset({"D1", "D2", "D3", "D4", "E1", "E3", "E4"}),
        over_older,
        Menu((Plan(),), every_errno(("write", "close", "rename"), ("EIO",))),
        prepare=lay_older,
        mechanism="kernel",
    ),
    Scenario("all-sizes-through-the-kernel", frozenset({"D1", "D2"}), all_sizes, mechanism="kernel"),
    Scenario("restarted-through-the-kernel", frozenset({"D1", "D2", "D6"}), restarted, mechanism="kernel"),
    Scenario("same-step-through-the-kernel", frozenset({"D2", "D3", "D6"}), same_step, mechanism="kernel"),
)
