"""The fresh interpreter of a trial whose exit is part of the history: `python -m fault_injection.child FD`."""

from __future__ import annotations

import pickle
import sys
import traceback
from typing import Any

from fault_injection.history import Mark
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk
from fault_injection.plan import Plan
from fault_injection.runner import Order, prepared, telling
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import load_subject
from fault_injection.trial import Trial

_KEPT: list[Any] = []


def main(write: int) -> None:
    """Run the trial named on standard input and end as any program ends, with the fault layer still armed.

    Args:
        write: the file descriptor that takes the events.
    """
    order: Order
    order, root = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by this package's own runner
    sink = telling(write)
    try:
        scenario = SCENARIOS[order.scenario]
        subject = load_subject(order.spec)
        trial = Trial(subject.make, root, DiskLook(root), sink=sink)
        prepared(trial, scenario, order.seed)
        armed = disk.armed(root, Plan.parse(order.plan), observe=trial.observe)
        # Never left, and kept so that it is not collected: what the interpreter does at its end meets the faults too.
        _KEPT.append(armed)
        trial.injector = armed.__enter__()
        scenario.run(trial, order.seed)
    except Exception:  # noqa: BLE001 - told to the parent, which raises it as its own
        traceback.print_exc()
        sink(Mark("broken"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
