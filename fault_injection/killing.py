"""Kills: a child dies at some operation of its run, and the next run goes on over what it left."""

from __future__ import annotations

import os
import signal
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from fault_injection.forks import fork, reaper, watch_process
from fault_injection.history import Event, Exited, Final, HandedOver, History, Hung, Mark
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk
from fault_injection.plan import Plan
from fault_injection.scenario import prepared
from fault_injection.targets.errors import TargetError
from fault_injection.tell import telling, unpickled
from fault_injection.trial import Trial
from fault_injection.watch import HANGS

if TYPE_CHECKING:
    from fault_injection.scenario import Scenario
    from fault_injection.subject import Subject


def run_killed(subject: Subject, scenario: Scenario, plan: Plan, seed: int, root: str) -> History:
    """Run a scenario in a child that its plan kills, then the next run over the same directory.

    Args:
        subject: what is tested, loaded.
        scenario: the course of events; where it has a `prior`, a child before this one was killed by that plan already.
        plan: what kills.
        seed: chooses the batches.
        root: the directory of the trial.

    Returns:
        The history; it has fired if, and only if, the child truly died of SIGKILL.

    Raises:
        TargetError: the target ended the process by itself.
        RuntimeError: the harness failed in the child.
    """
    first = Trial(subject.make, root, DiskLook(root))
    prepared(first, scenario, seed, plan)
    first.close()
    events = list(first.events)
    plans = ([Plan.parse(scenario.prior)] if scenario.prior else []) + [plan]
    code = 0
    for each in plans:
        told, ended = _child(subject, scenario, each, seed, root, _count_dumps(events))
        events += told
        if ended is None:
            events.append(Hung("drain"))
            return _history(scenario, plan, seed, events, 1, complete=False)
        code = ended
        if code not in {0, -signal.SIGKILL}:
            raise TargetError(f"{subject.label} ended its process with {code} under the plan {each}")
        if each is not plan:
            events += [Exited(code), Mark("killed"), Mark("new run")]
    events.append(Exited(code))
    second = Trial(subject.make, root, DiskLook(root), first=_count_dumps(events))
    try:
        second.observe_now()
        second.mark("killed")
        second.new_run()
        if scenario.after is not None:
            scenario.after(second, seed)
        second.finish()
    finally:
        second.close()
    return _history(scenario, plan, seed, events + second.events, int(code == -signal.SIGKILL))


def _child(
    subject: Subject, scenario: Scenario, plan: Plan, seed: int, root: str, dumps: int
) -> tuple[list[Event], int | None]:
    """What one child told, and how it ended (None where it slept for ever)."""
    if scenario.mechanism == "kernel":
        return _through_the_kernel(subject, scenario, plan, seed, root, dumps)
    read, write = os.pipe()
    child = fork()
    if child == 0:
        os.close(read)
        _be_killed(subject, scenario, plan, seed, root, write, dumps)
    os.close(write)
    code, told = watch_process(child, HANGS, reaper(child), read)
    os.close(read)
    events = unpickled(told)
    for mark in (event for event in events if isinstance(event, Mark) and event.name == "broken"):
        raise RuntimeError(f"the child of a trial broke:\n{mark.text}")
    return events, code


def _through_the_kernel(
    subject: Subject, scenario: Scenario, plan: Plan, seed: int, root: str, dumps: int
) -> tuple[list[Event], int | None]:
    from fault_injection.kernel_child import Course
    from fault_injection.kernel_trial import run_through
    from fault_injection.mechanisms.kernel import STAGES

    course = Course(STAGES["calls"], subject, scenario, plan, seed, root, dumps, prepare=False)
    through = run_through(course)
    events: list[Event] = [event for event in through.events if not isinstance(event, (Exited, Final))]
    return events, through.code if through.complete else None


def _be_killed(
    subject: Subject, scenario: Scenario, plan: Plan, seed: int, root: str, write: int, dumps: int
) -> None:
    """The life of the child; it never returns."""
    tell = telling(write)
    try:
        trial = Trial(subject.make, root, DiskLook(root), sink=tell, first=dumps)
        trial.target.warn, trial.target.exit_deadline = scenario.warn, scenario.exit_deadline
        with disk.armed(root, plan, observe=trial.observe, deadly=True) as injector:
            trial.injector = injector
            scenario.run(trial, seed)
    except BaseException:  # noqa: BLE001 - told to the parent, which raises it
        with suppress(OSError):
            tell(Mark("broken", traceback.format_exc()))
    finally:
        os._exit(0)


def _history(
    scenario: Scenario, plan: Plan, seed: int, events: list[Event], fired: int, *, complete: bool = True
) -> History:
    return History(scenario.name, str(plan), scenario.mechanism, seed, tuple(events), fired, complete)


def _count_dumps(events: list[Event]) -> int:
    return sum(isinstance(event, HandedOver) for event in events)
