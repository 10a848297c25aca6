"""Scenarios of E6: training fails while dumps are pending, and any operation of theirs fails."""

from __future__ import annotations

from fault_injection.plan import Plan
from fault_injection.scenario import Menu, Scenario, every_errno
from fault_injection.scenarios.ways import leave
from fault_injection.ways import WAYS, needs_of

_STEP = next(way for way in WAYS if way.name == "step-raises")

SCENARIOS = (
    Scenario(
        "failing-training",
        frozenset({"D2", "D3", "D4", "E6"}),
        leave(_STEP, "several", releases=True),
        Menu((Plan(),), every_errno(names=("ENOSPC", "EIO", "EACCES"))),
        needs=frozenset({"fit"}) | needs_of(_STEP, "several"),
    ),
)
