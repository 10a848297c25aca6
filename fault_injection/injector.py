"""The injector: counts operations against a plan and says which fault strikes; every mechanism asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from fault_injection.fault import Fault
from fault_injection.gate import Gate
from fault_injection.op import Op
from fault_injection.plan import Plan


@dataclass(frozen=True)
class Strike:
    """What a mechanism has to do to one operation.

    Args:
        number: the position of the operation in the trial, from 1.
        fault: what strikes, or None.
        room: for a plan of bytes, how many bytes of this write still fit (the rest meets the fault), else -1.
    """

    number: int
    fault: Fault | None = None
    room: int = -1


class Injector:
    """Decides, operation by operation, what strikes; thread-safe; one for each trial.

    Args:
        plan: the plan of the trial.
        observe: called with the operation and its strike before the operation happens (histories, observers).
    """

    def __init__(self, plan: Plan, observe: Callable[[Op, Strike], None] | None = None) -> None:
        self.plan = plan
        self.gate = Gate()
        self.fired = 0
        self.operations = 0
        self._observe = observe
        self._counts = [0] * len(plan.rules)
        self._lock = threading.Lock()

    def strike(self, op: Op, total: int = 0) -> Strike:
        """Count the operation and decide what strikes it.

        Args:
            op: the operation that is about to happen.
            total: for a write, the bytes in all files below the root if the whole write succeeds.

        Returns:
            The strike; the mechanism must make its fault real.
        """
        with self._lock:
            self.operations += 1
            strike = self._decide(op, self.operations, total)
            if strike.fault is not None and strike.room <= 0:
                self.fired += 1
        if self._observe is not None:
            self._observe(op, strike)
        return strike

    def _decide(self, op: Op, number: int, total: int) -> Strike:
        decided: Strike | None = None
        for position, rule in enumerate(self.plan.rules):
            if not rule.matches(op):
                continue
            if rule.op == "bytes":
                over = total - rule.limit
                if over <= 0:
                    continue
                room = max(op.size - over, 0)
                if room:
                    # As the kernel does: what fits is taken, and the next write meets the error.
                    decided = decided or Strike(number, rule.fault, room)
                    continue
            self._counts[position] += 1
            if decided is None and self._counts[position] in rule.span:
                decided = Strike(number, rule.fault)
        return decided or Strike(number)
