"""The kernel mechanism: the trial runs in a child process over a system that truly fails."""

from __future__ import annotations

import platform
import sys

from fault_injection.mechanisms.kernel.means import missing
from fault_injection.mechanisms.kernel.stages import STAGES, Stage, stage_for
from fault_injection.op import OPS
from fault_injection.plan import Plan

__all__ = ["CAPABILITIES", "STAGES", "Stage", "lacks", "missing", "stage_for", "supports"]

CAPABILITIES: dict[str, tuple[str, ...]] = {
    name: tuple(op for op in OPS if any(op in stage.faults.get(name, ()) for stage in STAGES.values()))
    for name in dict.fromkeys(name for stage in STAGES.values() for name in stage.faults)
}
"""For each fault that some stage of the kernel mechanism makes real, the operations it can strike."""


def supports(plan: Plan) -> str:
    """Why no stage can make a plan real, in one line, or the empty text when one can.

    Args:
        plan: the plan.
    """
    return "" if stage_for(plan) else STAGES["calls"].supports(plan)


def lacks(plan: Plan) -> str:
    """What this machine lacks for a plan that the mechanism supports, in one line, or the empty text."""
    if sys.platform != "linux":
        return f"kernel: no Linux: this is {platform.system()}; run on Linux"
    stage = stage_for(plan)
    lacking = missing()
    return next((lacking[name] for name in (stage.needs if stage else ()) if name in lacking), "")
