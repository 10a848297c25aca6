"""The process of a trial whose exit is part of the history; as a program, a fresh interpreter for one trial.

`python -m fault_injection.child FD` reads the trial from standard input and tells its events through the descriptor.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from fault_injection.history import Mark
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk
from fault_injection.plan import Plan
from fault_injection.scenario import prepared
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import ready_subject
from fault_injection.targets.errors import TargetError
from fault_injection.tell import telling
from fault_injection.trial import Trial

if TYPE_CHECKING:
    from fault_injection.runner import Order

_KEPT: list[Any] = []


def enter(write: int, order: Order, root: str) -> None:
    """Run a trial in this process, and come back with the fault layer still armed, for the process to end.

    Args:
        write: the file descriptor that takes the events.
        order: the trial.
        root: its directory.

    Raises:
        BaseException: what the training raised, where the process is to end of it.
    """
    sink = telling(write)
    try:
        scenario = SCENARIOS[order.scenario]
        subject = ready_subject(order.spec)
        trial = Trial(subject.make, root, DiskLook(root), sink=sink, on_hang=_give_up)
        plan = Plan.parse(order.plan)
        prepared(trial, scenario, order.seed, plan)
        armed = disk.armed(root, plan, observe=trial.observe)
        # Never left, and kept so that it is not collected: what the interpreter does at its end meets the faults too.
        _KEPT.append(armed)
        trial.injector = armed.__enter__()
        scenario.run(trial, order.seed)
    except TargetError as refusal:
        sink(Mark("refused", str(refusal)))
        return
    except Exception:  # noqa: BLE001 - told to the parent, which raises it as its own
        traceback.print_exc()
        sink(Mark("broken"))
        return
    if "deadline" not in subject.capabilities:
        trial.await_end()
    if trial.caught is not None:
        raise trial.caught


def _give_up() -> None:
    """End the process, whose hang has been told; the other threads are asleep, but this one keeps it from looking so."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(write: int) -> None:
    """Run the trial named on standard input and end as any program ends.

    Args:
        write: the file descriptor that takes the events.
    """
    order, root = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by this package's own runner
    enter(write, order, root)


if __name__ == "__main__":
    main(int(sys.argv[1]))
