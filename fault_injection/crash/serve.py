"""What a worker process does with a unit of a power-loss scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fault_injection.crash.replay import PREFIX, PowerPlan
from fault_injection.crash.run import Bench, record, replay, results_of
from fault_injection.history import History, Mark
from fault_injection.plan import Plan, PlanError
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Subject
from fault_injection.sweep import TrialResult, see_ended
from fault_injection.wire import Job, Reply


def reply_to(job: Job, subject: Subject, on_hang: Callable[[History], None]) -> Reply:
    """Record the runs of a unit and judge their crash states, or replay the one that the unit's plan names.

    Args:
        job: what is asked for.
        subject: the loaded subject.
        on_hang: called with the history of a run in which a call never ends; must not return.
    """
    bench = Bench(subject, SCENARIOS[job.unit.scenario], job.seed, job.scratch, on_hang)
    laws = job.laws & bench.scenario.laws
    if job.unit.plan is not None and job.unit.plan.startswith(PREFIX):
        try:
            result, history = replay(bench, PowerPlan.parse(job.unit.plan), laws)
        except PlanError as error:
            return Reply(refusal=str(error))
        return Reply((result,), histories=(history,))
    if job.history:
        return _in_full(bench, Plan.parse(job.unit.plan or ""), laws)
    return Reply(tuple(_of_unit(bench, job.unit, laws)))


def _of_unit(bench: Bench, unit: Unit, laws: frozenset[str]) -> list[TrialResult]:
    if unit.family is None:
        return results_of(bench, record(bench, Plan.parse(unit.plan or "")), laws)[0]
    results: list[TrialResult] = []
    for k in unit.ks:
        recording = record(bench, unit.family.plan(k))
        if not recording.history.fired:
            return results
        results += results_of(bench, recording, laws)[0]
    see_ended(unit)
    return results


def _in_full(bench: Bench, plan: Plan, laws: frozenset[str]) -> Reply:
    """All crash states of one run as one result, with the history of the run."""
    recording = record(bench, plan)
    if plan and not recording.history.fired:
        return Reply(histories=(recording.history,))
    results, outcome = results_of(bench, recording, laws)
    whole = TrialResult(
        str(plan),
        tuple(sorted(laws)),
        tuple(violation for result in results for violation in result.violations),
        states=sum(result.states for result in results),
    )
    told = (*recording.history.events, Mark("crash states:", str(outcome)))
    return Reply((whole,), histories=(replace(recording.history, events=told),))
