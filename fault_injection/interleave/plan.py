"""The text of a schedule: what a report prints, and what runs the same schedule again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fault_injection.plan import Plan, PlanError

PREFIX = "switch:"
"""What the text of a schedule begins with."""
_FORM = f"{PREFIX}17>1.30>0|at=_failures._closed|plan=write#1:ENOSPC"
_DECISION = re.compile(r"(\d+)>(\d+)", re.ASCII)


@dataclass(frozen=True)
class SwitchPlan:
    """A schedule and the faults of the run.

    Args:
        decisions: at which point of choice which thread goes on; elsewhere, and in order, the default does.
        watched: the attributes whose uses are points of choice.
        plan: what fails.
    """

    decisions: tuple[tuple[int, int], ...] = ()
    watched: frozenset[str] = frozenset()
    plan: Plan = field(default_factory=Plan)

    def __str__(self) -> str:
        text = PREFIX + ".".join(f"{point}>{thread}" for point, thread in self.decisions)
        if self.watched:
            text += f"|at={'.'.join(sorted(self.watched))}"
        return text + (f"|plan={self.plan}" if self.plan else "")

    __repr__ = __str__

    @classmethod
    def parse(cls, text: str) -> SwitchPlan:
        """Read it from its text.

        Args:
            text: `switch:17>1.30>0` (at point 17 thread 1 goes on, at point 30 thread 0, the caller); then, each after a
                `|`, `at=` with the attributes whose uses are points as well, and last `plan=` with what fails.

        Raises:
            PlanError: it is no such text.
        """
        wrong = PlanError(f"{text!r} is no schedule; write {_FORM}, as a report does")
        if not text.strip().startswith(PREFIX):
            raise wrong
        head, _, plan = text.strip().removeprefix(PREFIX).partition("|plan=")
        first, *more = head.split("|")
        found = [_DECISION.fullmatch(part) for part in first.split(".") if part]
        decisions = tuple((int(match[1]), int(match[2])) for match in found if match)
        points = [point for point, _ in decisions]
        if len(decisions) != len(found) or points != sorted(set(points)):
            raise wrong
        watched: frozenset[str] = frozenset()
        for part in more:
            names = part.removeprefix("at=").split(".")
            if not part.startswith("at=") or not all(name.isidentifier() for name in names):
                raise wrong
            watched |= frozenset(names)
        return cls(decisions, watched, Plan.parse(plan))
