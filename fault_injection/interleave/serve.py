"""What a worker process does with a unit of a scenario whose threads are scheduled."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import BinaryIO

from fault_injection.history import Mark
from fault_injection.interleave.explore import Explored, explore, results_of
from fault_injection.interleave.plan import PREFIX, SwitchPlan
from fault_injection.interleave.run import Bench, run_schedule
from fault_injection.plan import Plan, PlanError
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Subject
from fault_injection.sweep import Schedules, TrialResult, judged
from fault_injection.wire import Job, Reply, send

_UNKNOWN = "a thread waits in something that the harness cannot schedule (C code, a process, an event loop)"


def reply_to(job: Job, subject: Subject, answers: BinaryIO) -> Reply:
    """Run every schedule of a unit, or the one that its plan names.

    Args:
        job: what is asked for.
        subject: the loaded subject.
        answers: where the answer goes when a thread is lost, and this process with it.
    """

    def lost() -> None:
        if job.history:
            send(answers, Reply(refusal=f"{job.unit.scenario}: {_UNKNOWN}", tired=True))
        else:
            nothing = TrialResult("none", (), (), states=0, schedules=Schedules(unknown=_UNKNOWN))
            send(answers, Reply((nothing,), tired=True))
        os._exit(0)

    bench = Bench(subject, SCENARIOS[job.unit.scenario], job.seed, job.scratch, lost)
    laws = job.laws & (bench.scenario.laws | {"E8"})
    text = job.unit.plan or ""
    if text.startswith(PREFIX):
        try:
            return _replay(bench, SwitchPlan.parse(text), laws)
        except PlanError as error:
            return Reply(refusal=str(error))
    found = explore(bench, Plan.parse(text), laws, bound=job.depth.preemptions, most=job.depth.schedules)
    return _in_full(bench, found) if job.history else Reply(tuple(results_of(found)))


def _replay(bench: Bench, wanted: SwitchPlan, laws: frozenset[str]) -> Reply:
    outcome = run_schedule(bench, wanted)
    if outcome.diverged:
        raise PlanError(
            f"in this run {outcome.diverged}; replay with the same target, seed and version of Python"
        )
    history = replace(outcome.history, plan=str(wanted))
    if wanted.plan and not outcome.history.fired:
        return Reply(histories=(history,))
    return Reply((replace(judged(outcome.history, laws), plan=str(wanted)),), histories=(history,))


def _in_full(bench: Bench, found: Explored) -> Reply:
    """All schedules of one scenario as one result, with the history of the first that is broken, or of the default."""
    bad = next(iter(found.bad.values()), None)
    wanted = SwitchPlan(watched=found.watched, plan=found.plan) if bad is None else SwitchPlan.parse(bad.plan)
    outcome = run_schedule(bench, wanted)
    history = replace(outcome.history, plan=str(wanted))
    if found.plan and not found.fired:
        return Reply(histories=(history,))
    history = replace(history, events=(*history.events, Mark("interleavings:", str(found))))
    violations = tuple(violation for result in found.bad.values() for violation in result.violations)
    whole = TrialResult(str(found.plan), tuple(sorted(found.laws)), violations, states=found.schedules)
    return Reply((whole,), histories=(history,))
