"""Every schedule of a scenario up to a number of preemptions: first those without one, then with one, then with two."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from fault_injection.interleave.plan import SwitchPlan
from fault_injection.interleave.run import Bench, Outcome, run_schedule
from fault_injection.interleave.scheduler import Point
from fault_injection.judge import Violation
from fault_injection.plan import Plan
from fault_injection.sweep import Schedules, TrialResult, judged

MOST = 4_000
"""Schedules with one preemption at most, which no other cap cuts."""
SEEKS = 2
"""Preemptions from which on nobody looks for more that threads share: most schedules have as many."""
MOST_WORK = 4_000_000
"""Steps that the threads of one scenario make under one plan; a target that spins makes thousands in each schedule."""
MOST_WATCHED = 40
"""How often an exploration may start again because threads were found to share one more attribute."""


@dataclass
class Explored:
    """What the schedules of one scenario under one plan come to.

    Args:
        plan: what failed.
        bound: the preemptions that were allowed.
        laws: the laws that any schedule counted for.
        runs: how many schedules were run, by the number of their preemptions.
        left_out: how many more were known.
        equal: how many points were passed over, since an earlier schedule had led to the same.
        watched: the attributes that are points of choice.
        bad: one result for each way in which a law was broken.
        broken: how many schedules broke one.
        diverged: how many did not find the choice that they should make, which shows a target that acts by chance.
        fired: whether the plan struck in any.
    """

    plan: Plan
    bound: int
    laws: set[str] = field(default_factory=set)
    runs: list[int] = field(default_factory=list)
    left_out: int = 0
    equal: int = 0
    watched: frozenset[str] = frozenset()
    bad: dict[str, TrialResult] = field(default_factory=dict)
    broken: int = 0
    diverged: int = 0
    fired: bool = False

    @property
    def schedules(self) -> int:
        """How many were run."""
        return sum(self.runs)

    def __str__(self) -> str:
        parts = [
            f"{count:,} with {number} preemption{'s' * (number != 1)}"
            for number, count in enumerate(self.runs)
        ]
        words = f"{self.schedules:,} schedules ({', '.join(parts)})"
        words += f", {self.left_out:,} more left out" if self.left_out else ", all of them"
        return words + (f"; also at {', '.join(sorted(self.watched))}" if self.watched else "")


def explore(bench: Bench, plan: Plan, laws: frozenset[str], *, bound: int, most: int) -> Explored:
    """Run and judge the schedules of a scenario.

    Args:
        bench: the scenario.
        plan: what fails.
        laws: the laws to judge by.
        bound: preemptions at most.
        most: schedules beyond which none with two preemptions are run.
    """
    found = Explored(plan, bound, runs=[0] * (bound + 1))
    for _ in range(MOST_WATCHED):
        fresh = _pass(bench, found, laws, most)
        if not fresh:
            break
        found.watched |= {fresh}
    return found


Decisions = tuple[tuple[int, int], ...]
"""At which point of choice which thread goes on, other than by default."""


class Frontier:
    """The schedules that are known and not yet run, by the number of their preemptions.

    Args:
        bound: preemptions at most.
        seed: chooses which of those with two preemptions come first.
    """

    def __init__(self, bound: int, seed: int = 0) -> None:
        self._levels: list[deque[Decisions]] = [deque() for _ in range(bound + 1)]
        self._levels[0].append(())
        self._seed = seed
        self._visited: dict[tuple[int, int, bool], int] = {}
        self._mixed = False
        self.equal = 0

    def level(self) -> int:
        """The number of preemptions of the schedules that come next; -1 when there are none."""
        cost = next((cost for cost, level in enumerate(self._levels) if level), -1)
        if cost > 1 and not self._mixed:
            # A cap cuts what is far from what was run as well as what is near.
            mixed = list(self._levels[cost])
            random.Random(self._seed).shuffle(mixed)  # noqa: S311 - reproducible, not secret
            self._levels[cost], self._mixed = deque(mixed), True
        return cost

    def take(self) -> Decisions:
        """The next schedule."""
        return self._levels[self.level()].popleft()

    def left(self) -> int:
        """How many are known and not run."""
        return sum(map(len, self._levels))

    def extend(self, decisions: Decisions, cost: int, points: tuple[Point, ...]) -> None:
        """Note every schedule that differs from one that was run in one more choice, later than its last one.

        Args:
            decisions: what made that run.
            cost: its preemptions.
            points: its points of choice.
        """
        first = decisions[-1][0] + 1 if decisions else 0
        for number, point in enumerate(points[first:], first):
            key = (point.state, point.current, point.could_go)
            if self._visited.get(key, cost + 1) <= cost:
                # The rest of this run is the rest of one that came here before.
                self.equal += 1
                return
            self._visited[key] = cost
            for option in point.options:
                total = cost + point.cost(option)
                if option != point.chosen and total < len(self._levels):
                    self._levels[total].append((*decisions, (number, option)))


def _pass(bench: Bench, found: Explored, laws: frozenset[str], most: int) -> str:
    """Run the schedules with one set of watched attributes.

    Returns:
        The name of an attribute that threads share and that is not watched; of several the first one, since what hands
        over an object explains why the attributes of that are shared.
    """
    frontier = Frontier(found.bound, bench.seed)
    work = 0
    while (cost := frontier.level()) >= 0:
        if work > MOST_WORK or found.schedules >= (most if cost > 1 else MOST):
            break
        decisions = frontier.take()
        plan = SwitchPlan(decisions, found.watched, found.plan)
        outcome = run_schedule(bench, plan, seeks=cost < SEEKS)
        found.runs[cost] += 1
        work += outcome.steps
        if outcome.diverged:
            found.diverged += 1
            continue
        _judge(found, plan, outcome, laws)
        if outcome.racy:
            return outcome.racy[0]
        if found.plan and not found.fired:
            return ""
        frontier.extend(decisions, cost, outcome.points)
    found.left_out, found.equal = frontier.left(), found.equal + frontier.equal
    return ""


def _judge(found: Explored, plan: SwitchPlan, outcome: Outcome, laws: frozenset[str]) -> None:
    found.fired = found.fired or bool(outcome.history.fired)
    if found.plan and not outcome.history.fired:
        return
    result = judged(outcome.history, laws)
    found.laws |= set(result.laws)
    found.broken += bool(result.violations)
    for violation in result.violations:
        one = TrialResult(str(plan), result.laws, (violation,), result.hung)
        found.bad.setdefault(_kind(violation), one)


def _kind(violation: Violation) -> str:
    words = "".join(c for c in violation.message.partition(": ")[0] if not c.isdigit())
    return f"{violation.law} {words}"


def results_of(found: Explored) -> list[TrialResult]:
    """One result for each way in which a law is broken, and one for all schedules that break none."""
    if found.plan and not found.fired:
        return []
    told = Schedules(tuple(found.runs), found.left_out, tuple(sorted(found.watched)))
    results = list(found.bad.values())
    # Of the schedules that are broken in one way, the first one stands for all.
    sound = found.schedules - found.broken
    results.append(TrialResult(str(found.plan), tuple(sorted(found.laws)), (), states=sound, schedules=told))
    return results
