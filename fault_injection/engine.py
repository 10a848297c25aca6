"""The engine: which units a run has, and what their results say of a subject."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from fault_injection.crew import Crew, Pool, UnitResult
from fault_injection.extent import Extent, chosen
from fault_injection.history import Mark, Operated
from fault_injection.interleave.summary import Interleaved, interleaved
from fault_injection.judge.facts import Facts
from fault_injection.lacking import Lack, sort_out
from fault_injection.laws import LAWS
from fault_injection.matrix import Outcome, outcomes
from fault_injection.mechanisms import kernel
from fault_injection.scenario import Scenario, Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Spec, Subject
from fault_injection.targets.errors import TargetError
from fault_injection.targets.fit import FitTarget
from fault_injection.verdict import Verdict, verdicts_of, why_unclaimed
from fault_injection.wire import DEPTH, Depth


def claimed_laws(subject: Subject) -> frozenset[str]:
    """The laws that a subject is judged by."""
    return frozenset(law for law in LAWS if not why_unclaimed(subject, law))


_ORDER = {"spawn": 0, "power": 1, "switch": 1, "ray": 3}
"""Slow scenarios first, so that no long one is left for the end, but for those that are run apart."""


def can_run(scenario: Scenario) -> bool:
    """Whether this system has what the scenario needs: those with other processes need fork and inherited pipes."""
    return scenario.place in {"here", "examples", "power", "switch"} or hasattr(os, "fork")


def is_offered(scenario: Scenario, features: frozenset[str]) -> bool:
    """Whether a subject with these features can be driven through a scenario."""
    return scenario.needs <= features and ("writes" in features or "fit" in scenario.needs)


def units_for(
    subject: Subject,
    laws: frozenset[str],
    *,
    extent: Extent = Extent.WHOLE,
    seed: int = 0,
    depth: Depth = DEPTH,
) -> tuple[Unit, ...]:
    """The units that bear on one of the laws and that the subject can be driven through, slow ones first.

    Args:
        subject: what is tested.
        laws: the laws to judge by.
        extent: how much of them.
        seed: of the run; it chooses where not everything is run.
        depth: whether tensors may be handed over, and Ray be started.
    """
    offered = subject.features | depth.features
    ours = [s for s in SCENARIOS.values() if s.laws & laws and is_offered(s, offered) and can_run(s)]
    units: list[Unit] = []
    for scenario in sorted(ours, key=lambda scenario: _ORDER.get(scenario.place, 2)):
        units += [Unit(scenario.name, plan=str(plan)) for plan in scenario.menu.plans]
        units += [Unit(scenario.name, family=family) for family in scenario.menu.families]
    return chosen(units, extent, seed)


_PROBED_WAYS = ("last-step", "exhausted", "val-only", "zero-steps")
"""Ways out of which every trainer has one."""


def probe(crew: Crew, subject: Subject) -> bool:
    """See that the subject can be driven at all.

    Returns:
        Whether the fault layer sees what it writes; what it does not see, the kernel does.

    Raises:
        TargetError: a healthy dump fails, or reaches the disk past every mechanism that this machine has.
    """
    if subject.fit is not None:
        _probe_fit(crew, subject, subject.fit)
    return _probe_writer(crew, subject) if subject.writes else True


def _probe_fit(crew: Crew, subject: Subject, fit: type[FitTarget]) -> None:
    for way in _PROBED_WAYS:
        if way not in fit.absent:
            _, history = crew.replay(f"exit-{way}-one", "none", frozenset())
            break
    else:
        raise TargetError(
            f"{subject.label} lacks all of the ways out {', '.join(_PROBED_WAYS)}; it needs one"
        )
    facts = Facts(history)
    if facts.dumps:
        return
    if facts.raised:
        raise TargetError(
            f"{subject.label} cannot be driven: on a healthy disk {facts.raised[0]} raised "
            f"{facts.raised[0].failure} before anything was dumped"
        )
    raise TargetError(
        f"{subject.label} cannot be driven: fit() ended without a dump; call course.record(trainer) in prepare(), "
        "and let the trainer dump to course.rollout_dir"
    )


def _probe_writer(crew: Crew, subject: Subject) -> bool:
    _, history = crew.replay("three-dumps", "none", frozenset())
    facts = Facts(history)
    first = facts.dumps[0].start if facts.dumps else len(history.events)
    if unstarted := [each.failure for each in facts.raised if each.position < first]:
        raise TargetError(
            f"{subject.label} cannot be driven: starting it raised {unstarted[0]}; give an adapter"
        )
    if facts.lost[:1] == facts.dumps[:1] and facts.raised:
        failure = facts.raised[0].failure
        raise TargetError(
            f"{subject.label} cannot be driven: {facts.raised[0]} raised {failure} on a healthy disk; "
            "a class is made without its __init__ and needs nothing but global_steps, else give an adapter"
        )
    unseen = [mark.text for mark in history.of(Mark) if mark.name == "unseen"]
    written = sum(event.op.size for event in history.of(Operated) if event.op.kind == "write")
    if not unseen and written < sum(map(len, facts.final.values())):
        # The file was sized and then filled through memory, say.
        unseen = list(facts.final)
    if unseen and "seccomp" in kernel.missing():
        raise TargetError(
            f"{subject.label} writes {unseen[0]} in a way that the fault layer cannot see (C code or "
            "another process), so no fault would strike; write through Python's open or os.write "
            f"({kernel.missing()['seccomp']})"
        )
    return not unseen


class Checked(NamedTuple):
    """What a run says of a subject.

    Args:
        verdicts: one for each law that was asked for.
        trials: how many trials were run.
        exits: the cells of the exit matrix that were judged.
        interleavings: the schedules that were run.
    """

    verdicts: tuple[Verdict, ...]
    trials: int
    exits: tuple[Outcome, ...]
    interleavings: tuple[Interleaved, ...] = ()


def _is_straced(scenario: Scenario) -> bool:
    return scenario.place == "power" and scenario.mechanism == "kernel"


def driven_by(subject: Subject, scenario: str | None, *, seen: bool) -> frozenset[str]:
    """The names of the scenarios of a run: all or the one that was asked for, of those that see what is written.

    What the layer sees is recorded by it, with faults too; strace does so for the rest, and where it is asked for.

    Raises:
        TargetError: the one that was asked for does not.
    """
    names = frozenset(
        name
        for name, each in SCENARIOS.items()
        if scenario == name or (scenario is None and not (seen and _is_straced(each)))
        if seen or each.mechanism == "kernel"
    )
    if not names:
        through = ", ".join(name for name, each in SCENARIOS.items() if each.mechanism == "kernel")
        raise TargetError(
            f"{subject.label} writes in a way that the fault layer cannot see, and scenario {scenario} has no other "
            f"eyes; leave it out, or take one through the kernel: {through}"
        )
    return names


def check(
    spec: Spec,
    subject: Subject,
    *,
    seed: int = 0,
    laws: frozenset[str] | None = None,
    scenario: str | None = None,
    extent: Extent = Extent.WHOLE,
    shuffle: int | None = None,
    depth: Depth = DEPTH,
    pool: Pool | None = None,
    tell: Callable[[UnitResult], object] | None = None,
    plan: Callable[[int], None] | None = None,
    miss: Callable[[Lack], object] | None = None,
) -> Checked:
    """Run the contract on a subject.

    Args:
        spec: where the subject comes from.
        subject: the subject, loaded.
        seed: chooses the batches.
        laws: the laws to judge by, by default all.
        scenario: only this scenario.
        extent: how much of the contract is run.
        shuffle: chooses another order of the trials, which changes nothing of what is found.
        depth: how far examples go.
        pool: where worker processes come from and go back to.
        tell: called with each unit's result as it comes; what it returns as true ends the run early.
        plan: called once with the number of units.
        miss: called with each thing that this machine lacks for a part of the run, before it begins.

    Returns:
        The verdicts, and what they rest on.

    Raises:
        TargetError: the subject cannot be driven.
        HarnessError: the harness itself failed.
    """
    wanted = frozenset(LAWS) if laws is None else laws
    if scenario is not None:
        wanted &= SCENARIOS[scenario].laws
    claimed = claimed_laws(subject) & wanted
    depth = replace(depth, preemptions=min(depth.preemptions, extent.preemptions))
    crew = Crew(spec, seed, depth, pool=pool)
    fit_for = driven_by(subject, scenario, seen=probe(crew, subject))
    units = units_for(subject, claimed, extent=extent, seed=seed, depth=depth)
    units = sort_out(tuple(unit for unit in units if unit.scenario in fit_for), miss)
    if plan is not None:
        plan(len(units))
    at_home = tuple(unit for unit in units if SCENARIOS[unit.scenario].place != "ray")
    results = crew.run(at_home, claimed, tell, shuffle)
    if len(at_home) < len(units):
        # One Ray is enough for a machine.
        results += Crew(spec, seed, depth, 1, pool).run(units[len(at_home) :], claimed, tell)
    # A hang is told of whatever laws were asked for.
    hung = {"E8"} if any(result.hung for each in results for result in each.results) else set()
    trials = sum(result.states for each in results for result in each.results)
    verdicts = verdicts_of(subject, wanted | hung, results)
    return Checked(verdicts, trials, outcomes(results), interleaved(results))
