"""Trials through the kernel: a child over a system that truly fails, watched from this side."""

from __future__ import annotations

import gc
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fault_injection.forks import fork
from fault_injection.history import Event, Exited, Final, History, Hung, Mark, Operated, Seen
from fault_injection.kernel_child import Course, live
from fault_injection.kernel_watch import LONGEST, Watch
from fault_injection.look import DiskLook
from fault_injection.mechanisms.kernel.account import folded, merged
from fault_injection.mechanisms.kernel.stages import STAGES, Stage, stage_for
from fault_injection.mechanisms.kernel.strace import Rehearsed, Tracer, aim, tracing
from fault_injection.plan import Plan
from fault_injection.targets.errors import TargetError

if TYPE_CHECKING:
    from fault_injection.scenario import Scenario
    from fault_injection.subject import Subject


@dataclass(frozen=True)
class Through:
    """What came of one child.

    Args:
        events: what happened, in order.
        code: its exit code, or minus the number of the signal.
        fired: how many times the plan struck.
        pid: its process.
        complete: whether no call hung.
    """

    events: tuple[Event, ...]
    code: int
    fired: int
    pid: int
    complete: bool = True


def run_through(course: Course) -> Through:
    """Run a scenario in a child over one stage.

    Args:
        course: what the child is to do.

    Returns:
        What came of it.

    Raises:
        ValueError: the stage cannot make the plan real.
        TargetError: the subject cannot be driven.
        RuntimeError: the child broke for a reason of the harness.
    """
    stage = course.stage
    if reason := stage.supports(course.plan):
        raise ValueError(reason)
    if stage.traces:
        # Writers of earlier trials that are still to be collected may take part in the fork, and in the numbers of files.
        gc.collect()
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    child = fork()
    if child == 0:
        ours.close()
        os.close(read)
        live(course, write, theirs)
    theirs.close()
    os.close(write)
    with ours:
        watched = Watch(child, read, course.root, course.plan)
        try:
            with _traced(course, child, ours) as tracer:
                code = watched.until_the_end(ours if stage.asks else None)
        finally:
            os.close(read)
            stage.leave(course.root, course.plan)
    return _through(watched, stage, code, course.root, tracer)


def run_in_kernel(
    subject: Subject,
    scenario: Scenario,
    plan: Plan,
    seed: int,
    root: str,
    on_hang: Callable[[History], None] | None = None,
    stage: Stage | None = None,
) -> History:
    """Run one trial through the kernel.

    Args:
        subject: what is tested, loaded.
        scenario: the course of events.
        plan: what fails.
        seed: chooses the batches.
        root: the directory of the trial.
        on_hang: called with what there is of the history when a call of the target never ends.
        stage: makes the plan real, by default the first that can.

    Returns:
        The history.
    """
    first = stage or stage_for(plan) or STAGES["calls"]
    stages = [first] if stage or first.asks else [first, STAGES["calls"]]
    for number, each in enumerate(stages):
        folder = os.path.join(root, str(number))
        os.mkdir(folder)
        through = run_through(Course(each, subject, scenario, plan, seed, folder))
        if through.fired or not through.complete:
            # An error that C code met is not noted in the child; dealt out call by call it is.
            break
    history = History(
        scenario.name, str(plan), "kernel", seed, through.events, through.fired, through.complete
    )
    if not through.complete and on_hang is not None:
        on_hang(history)
    return history


@contextmanager
def _traced(course: Course, child: int, ours: socket.socket) -> Iterator[Tracer | None]:
    """While this lasts, strace watches the child, where the stage is that."""
    if not course.stage.traces:
        yield None
        return
    aimed = None
    try:
        ours.settimeout(LONGEST)
        ours.recv(1)
        aimed = aim(course.plan.rules[0], _rehearsed(course), child) if course.plan else None
        with tracing(child, course.root, aimed) if aimed else nullcontext() as tracer:
            ours.send(b"x")
            yield tracer
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise


def _rehearsed(course: Course) -> Rehearsed:
    """What the trial does without faults, in a directory of its own.

    Done anew each time: a writer that numbers its files goes on counting in the process that both children come from.
    """
    with tempfile.TemporaryDirectory(dir=os.path.dirname(course.root)) as root:
        through = run_through(replace(course, plan=Plan(), root=root))
    return Rehearsed(through.pid, tuple(event.op for event in through.events if isinstance(event, Operated)))


def _through(watched: Watch, stage: Stage, code: int, root: str, tracer: Tracer | None) -> Through:
    events = watched.events
    for mark in (event for event in events if isinstance(event, Mark)):
        if mark.name == "broken":
            raise RuntimeError(f"the child of a trial through the stage {stage.name} broke:\n{mark.text}")
        if mark.name == "refused":
            raise TargetError(mark.text)
    killed = watched.supervisor.killed or code == -signal.SIGKILL
    if code not in {0, -signal.SIGKILL} or (killed and code == 0):
        raise RuntimeError(f"the child of a trial through the stage {stage.name} ended with {code}")
    hung = watched.hung or any(isinstance(event, Hung) for event in events)
    if watched.hung:
        events.append(Hung("the process"))
    if stage.asks:
        fired = watched.supervisor.injector.fired
        events = merged(events, {id(each) for each in watched.asked})
    else:
        events, fired = folded(events)
        # What is slow raises nothing, and the killed cannot tell.
        fired = max(fired, tracer.fired if tracer else 0, int(killed))
    if stage.sees and not (killed or hung or any(isinstance(event, Final) for event in events)):
        raise RuntimeError(f"the child of a trial through the stage {stage.name} did not tell its end")
    if not stage.sees or killed:
        # Of a child that sees by itself the last look came through the pipe.
        final = DiskLook(root)()
        names = tuple((name, content) for name, content in final.items() if name.endswith(".jsonl"))
        events += [Seen(0, names), Final(tuple(sorted(final.items())))]
    if killed:
        events.append(Exited(code))
    return Through(tuple(events), code, fired, watched.child, complete=not hung)
