"""Runs one trial: here, in a forked child, or in a fresh interpreter; a history comes out."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from fault_injection.forks import watch_process
from fault_injection.history import Event, Exited, Final, History, Hung, Mark, Seen
from fault_injection.killing import run_killed
from fault_injection.look import DiskLook, left_open
from fault_injection.mechanisms import disk
from fault_injection.nursery import NURSERY, PATIENCE
from fault_injection.plan import Plan
from fault_injection.scenario import Scenario, prepared
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Spec, Subject
from fault_injection.targets.errors import TargetError
from fault_injection.tell import Ending, unpickled
from fault_injection.trial import Trial, listening

FEW_THREADS = 6
"""Threads beyond which the leavings of a trial are collected at once."""


@dataclass(frozen=True)
class Order:
    """Everything that makes a trial what it is.

    Args:
        spec: the subject.
        scenario: the name of the scenario.
        plan: the text of the plan.
        seed: the seed of the batches.
    """

    spec: Spec
    scenario: str
    plan: str
    seed: int


def run_trial(
    order: Order, subject: Subject, scratch: str, on_hang: Callable[[History], None] | None = None
) -> History:
    """Run one trial.

    Args:
        order: what to run.
        subject: the loaded subject of the order.
        scratch: a directory for the trial's files; nothing of it is left there.
        on_hang: called with what there is of the history when a call of the target never ends; must not return.

    Returns:
        The history.
    """
    scenario = SCENARIOS[order.scenario]
    if scenario.mechanism == "memory":
        from fault_injection.memory_trial import run_in_memory

        def finish(trial: Trial, fired: int) -> History:
            return history_of(order, scenario, trial.events, fired)

        def hung(trial: Trial, fired: int) -> None:
            if on_hang is not None:
                on_hang(history_of(order, scenario, trial.events, fired, complete=False))

        return run_in_memory(subject, scenario, Plan.parse(order.plan), order.seed, finish, hung)
    root = tempfile.mkdtemp(prefix="trial-", dir=scratch)
    try:
        if scenario.place == "fork":
            return run_killed(subject, scenario, Plan.parse(order.plan), order.seed, root)
        if scenario.mechanism == "kernel":
            from fault_injection.kernel_trial import run_in_kernel

            return run_in_kernel(subject, scenario, Plan.parse(order.plan), order.seed, root, on_hang)
        if scenario.place == "spawn":
            environment = dict(scenario.environment)
            if environment:
                return _told(order, root, _in_fresh_interpreter(order, root, environment))
            return _told(order, root, NURSERY.run(order, root))
        if scenario.place == "ray":
            from fault_injection.actors import run_in_actor

            return _told(order, root, run_in_actor(order, root))
        return _run_here(order, subject, scenario, root, on_hang)
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if threading.active_count() > FEW_THREADS:
            # A writer that leaks its threads often holds them in cycles; collected, most of them end.
            gc.collect()


def history_of(
    order: Order, scenario: Scenario, events: list[Event], fired: int, *, complete: bool = True
) -> History:
    """The history made of a trial's events."""
    return History(order.scenario, order.plan, scenario.mechanism, order.seed, tuple(events), fired, complete)


def _run_here(
    order: Order, subject: Subject, scenario: Scenario, root: str, on_hang: Callable[[History], None] | None
) -> History:
    def hung() -> None:
        fired = trial.injector.fired if trial.injector else 0
        if on_hang is not None:
            on_hang(history_of(order, scenario, trial.events, fired, complete=False))

    trial = Trial(subject.make, root, DiskLook(root), on_hang=hung)
    try:
        plan = Plan.parse(order.plan)
        prepared(trial, scenario, order.seed, plan)
        with listening(trial), disk.armed(root, plan, observe=trial.observe) as injector:
            trial.injector = injector
            scenario.run(trial, order.seed)
            trial.release()
            trial.settle()
            unseen = injector.unseen()
        trial.finish()
        if unseen:
            trial.mark("unseen", unseen[0])
        if scenario.counts_open:
            # What hangs on the errors that the trial has kept is no leak: they are let go of.
            gc.collect()
            trial.mark("left open", str(left_open(root)))
    finally:
        trial.close()
    return history_of(order, scenario, trial.events, injector.fired)


def _told(order: Order, root: str, ending: Ending) -> History:
    """The history of a process that has ended: what it told, how it ended, and what it left."""
    stderr = ending.stderr.replace(root, "ROOT")
    events = unpickled(ending.told)
    for mark in (event for event in events if isinstance(event, Mark)):
        if mark.name == "broken":
            raise RuntimeError(f"the child process of a trial broke:\n{stderr}")
        if mark.name == "refused":
            raise TargetError(mark.text)
    if ending.code is None:
        events.append(Hung("the exit of the process"))
    if ending.driver:
        events.append(Mark("driver", ending.driver.replace(root, "ROOT")))
    events.append(Exited(-9 if ending.code is None else ending.code, stderr))
    final = DiskLook(root)()
    events.append(
        Seen(0, tuple((name, content) for name, content in final.items() if name.endswith(".jsonl")))
    )
    events.append(Final(tuple(sorted(final.items()))))
    fired = sum(1 for event in events if getattr(event, "fault", ""))
    return history_of(order, SCENARIOS[order.scenario], events, fired)


def _in_fresh_interpreter(order: Order, root: str, environment: dict[str, str]) -> Ending:
    """Start an interpreter whose environment is another one from its first moment on."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "fault_injection.child", str(write)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(write,),
            env={**os.environ, **environment},
        )
        os.close(write)
        with process, process.stdin or BytesIO() as stdin:
            stdin.write(pickle.dumps((order, root)))
            stdin.close()
            code, told = watch_process(process.pid, PATIENCE, process.poll, read)
        os.close(read)
        errors.seek(0)
        return Ending(code, told, errors.read().decode(errors="replace"))
