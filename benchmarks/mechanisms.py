"""What a trial costs through each mechanism: milliseconds on the reference writer (`python -m benchmarks.mechanisms`)."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from fault_injection.kernel_trial import run_in_kernel
from fault_injection.killing import run_killed
from fault_injection.mechanisms.kernel import STAGES, missing
from fault_injection.plan import Plan
from fault_injection.runner import Order, run_trial
from fault_injection.scenarios import SCENARIOS
from fault_injection.scratch import scratch_directory
from fault_injection.subject import DEFAULT, Spec, load_subject

PLANS = {
    "tmpfs": "bytes>12288:ENOSPC",
    "limit": "bytes>4000:EFBIG",
    "read-only": "open#1+:EROFS",
    "immutable": "open#1+:EPERM",
    "user": "open#1+:EACCES",
    "descriptors": "open#1+:EMFILE",
    "calls": "rename#2:EIO",
    "strace": "rename#2:EIO",
}
"""A plan for each stage; a stage without one is left out, as the reference writer does not open the final name."""
TIMES = 15


def main() -> int:
    """Print a table."""
    spec = Spec(DEFAULT)
    subject = load_subject(spec)
    scenario = SCENARIOS["three-dumps"]
    print(f"{'mechanism':24}{'plan':22}{'median ms':>10}{'worst ms':>10}   ({os.cpu_count()} cores)")
    with scratch_directory() as scratch:

        def here(plan: str, name: str) -> object:
            return run_trial(Order(spec, name, plan, 0), subject, scratch)

        def through(plan: str, name: str) -> object:
            with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as root:
                return run_in_kernel(subject, scenario, Plan.parse(plan), 0, root, stage=STAGES[name])

        def by_kill(plan: str, name: str) -> object:
            with tempfile.TemporaryDirectory(dir=scratch) as root:
                return run_killed(subject, SCENARIOS[name], Plan.parse(plan), 0, root)

        _tell("disk", "rename#2:EIO", here, "three-dumps")
        _tell("memory", "bytes>12288:ENOSPC", here, "three-dumps-in-memory")
        for name, plan in PLANS.items():
            if lacking := [missing()[need] for need in STAGES[name].needs if need in missing()]:
                print(f"kernel: {name:16}{lacking[0]}")
            else:
                _tell(f"kernel: {name}", plan, through, name)
        for plan in ("any#9:kill", "write#2:torn"):
            _tell("a kill and the next run", plan, by_kill, "killed")
    return 0


def _tell(label: str, plan: str, run: Callable[[str, str], object], name: str) -> None:
    times = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        run(plan, name)
        times.append(1000 * (time.perf_counter() - begin))
    # The first one imports what the others find loaded.
    print(f"{label:24}{plan:22}{statistics.median(times[1:]):10.1f}{max(times[1:]):10.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
