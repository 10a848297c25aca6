"""Runs one schedule of a scenario; a history comes out, and the points at which it could have gone another way."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from fault_injection.history import History
from fault_injection.interleave.accesses import (
    Atlas,
    Watch,
    candidates,
    functions_of,
    modules_of,
    territory_of,
)
from fault_injection.interleave.install import Holdings, scheduled
from fault_injection.interleave.plan import SwitchPlan
from fault_injection.interleave.scheduler import AbandonedError, Point, Scheduler
from fault_injection.interleave.trial import SwitchedTrial
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk
from fault_injection.scenario import Scenario, prepared
from fault_injection.subject import Subject
from fault_injection.targets.base import SurfaceTarget
from fault_injection.trial import listening

_COLLECT = 100
"""Runs after which what they left in cycles is collected."""


@dataclass
class Bench:
    """What every run of one scenario shares.

    Args:
        subject: what is tested.
        scenario: the course of events.
        seed: chooses the batches.
        scratch: a directory for files; nothing of it is left there.
        on_lost: called when a thread waits in something that the scheduler does not know; must not return.
    """

    subject: Subject
    scenario: Scenario
    seed: int
    scratch: str
    on_lost: Callable[[], None]
    runs: int = 0
    _few: dict[frozenset[str], Atlas] = field(default_factory=dict)

    @cached_property
    def _classes(self) -> tuple[type, ...]:
        target = self.subject.make()
        return (type(target.instance),) if isinstance(target, SurfaceTarget) else (type(target),)

    @cached_property
    def atlas(self) -> Atlas:
        """Where the target's code uses what its threads may share."""
        territory = territory_of(*self._classes)
        functions = [f for module in modules_of(territory) for f in functions_of(module)]
        # A target that was extracted from its source is in no module that was imported.
        functions += [
            value
            for cls in self._classes
            for base in cls.__mro__
            for value in vars(base).values()
            if callable(value) and hasattr(value, "__code__")
        ]
        return Atlas(territory, candidates(functions))

    def atlas_of(self, names: frozenset[str]) -> Atlas:
        """Where it uses these."""
        if names not in self._few:
            self._few[names] = self.atlas.only(names)
        return self._few[names]

    @cached_property
    def holdings(self) -> Holdings:
        """What the target's modules hold."""
        return Holdings(modules_of(territory_of(*self._classes)))


@dataclass(frozen=True)
class Outcome:
    """One run.

    Args:
        history: what happened.
        points: where it could have gone another way.
        racy: attributes that were found to be shared without a lock.
        hung: whether some call never ended.
        diverged: what is wrong with the schedule, or empty.
        steps: how many steps its threads made.
    """

    history: History
    points: tuple[Point, ...]
    racy: tuple[str, ...]
    hung: bool
    diverged: str
    steps: int = 0


def run_schedule(bench: Bench, plan: SwitchPlan, *, seeks: bool = True) -> Outcome:
    """Run one schedule.

    Args:
        bench: the scenario.
        plan: the schedule and what fails.
        seeks: whether to look for attributes that threads share without a lock, which takes longer.
    """
    bench.runs += 1
    if bench.runs % _COLLECT == 0:
        gc.collect()
    atlas = bench.atlas if seeks else bench.atlas_of(plan.watched)
    holdings = bench.holdings
    root = os.path.realpath(tempfile.mkdtemp(prefix="switch-", dir=bench.scratch))
    trial = SwitchedTrial(bench.subject.make, root, DiskLook(root), on_hang=bench.on_lost)
    scheduler = Scheduler(
        dict(plan.decisions),
        early="deadline" in bench.scenario.needs,
        watched=plan.watched,
        on_hang=trial.hangs,
        on_switch=lambda text: trial.mark("switch", text),
    )
    trial.scheduler = scheduler
    watch = Watch(scheduler, atlas)
    try:
        with listening(trial), disk.armed(root, plan.plan, observe=trial.observe) as injector:
            trial.injector = injector
            with scheduled(scheduler, holdings, watch.trace if seeks or plan.watched else None):
                _drive(bench, trial)
    finally:
        trial.close()
        shutil.rmtree(root, ignore_errors=True)
    history = History(
        bench.scenario.name,
        str(plan.plan),
        bench.scenario.mechanism,
        bench.seed,
        tuple(trial.events),
        injector.fired,
        complete=not scheduler.hung,
    )
    racy, points = tuple(watch.racy), tuple(scheduler.points)
    return Outcome(history, points, racy, scheduler.hung, scheduler.diverged, scheduler.steps)


def _drive(bench: Bench, trial: SwitchedTrial) -> None:
    try:
        # Made anew by a thread of the run, so that the locks it makes are the run's.
        trial.target = bench.subject.make()
        prepared(trial, bench.scenario, bench.seed)
        bench.scenario.run(trial, bench.seed)
        trial.finish()
    except AbandonedError:
        # What the calls of a run that hangs have said is in its history.
        return
