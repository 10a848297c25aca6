"""Power loss: records a run, builds its crash states, judges each, and lets the next run go on over some of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fault_injection.crash.judge import Group, Judge, Moment, attributed
from fault_injection.crash.model import Disk, visible
from fault_injection.crash.record import Journal, Recorder
from fault_injection.crash.replay import PowerPlan, build, told
from fault_injection.crash.states import Cut, Enumeration, State
from fault_injection.crash.straced import traced
from fault_injection.history import Event, Final, History, Hung, Mark, Seen
from fault_injection.judge import Violation, judge
from fault_injection.judge.facts import Facts
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk
from fault_injection.plan import Plan
from fault_injection.scenario import Scenario, prepared
from fault_injection.subject import Subject
from fault_injection.sweep import TrialResult
from fault_injection.targets.errors import TargetError
from fault_injection.trial import Trial, listening

NEXT_RUNS = 24
"""States of one run without faults that the next run goes on over."""
MOST_BROKEN = 10_000
"""States that break a law after which the rest of the run is looked at less closely: the point is made."""
FEWER_NEXT_RUNS = 4
"""The same for a run with faults."""


@dataclass(frozen=True)
class Bench:
    """What every recording of one scenario shares.

    Args:
        subject: what is tested.
        scenario: the course of events.
        seed: chooses the batches.
        scratch: a directory for files; nothing of it is left there.
        on_hang: called with what there is of the history when a call never ends; must not return.
    """

    subject: Subject
    scenario: Scenario
    seed: int
    scratch: str
    on_hang: Callable[[History], None]

    def history(self, events: list[Event], plan: Plan, fired: int, *, complete: bool = True) -> History:
        """The history made of events."""
        name, mechanism = self.scenario.name, self.scenario.mechanism
        return History(name, str(plan), mechanism, self.seed, tuple(events), fired, complete)


@dataclass(frozen=True)
class Recording:
    """A run and all that it did to the disk."""

    history: History
    journal: Journal


@dataclass
class Outcome:
    """What the crash states of one run come to.

    Args:
        groups: what is wrong, each way once.
        states: how many distinct states were built.
        judged: how many distinct pairs of a state and what had been promised by then were judged.
        broken: how many of those break a law.
        cut: what was left out.
        sample: sound states for the next run to go on over, with the moment of each.
        judging: the judge.
    """

    groups: tuple[Group, ...]
    states: int
    judged: int
    broken: int
    cut: Cut
    sample: tuple[tuple[State, Moment], ...]
    judging: Judge

    def __str__(self) -> str:
        return f"{self.states:,} distinct, {self.broken:,} of {self.judged:,} judged break a law; left out: {self.cut}"


def record(bench: Bench, plan: Plan) -> Recording:
    """Run the scenario under a plan and record it: in this process, or for the kernel mechanism through strace.

    Raises:
        TargetError: the run has written in a way that the recorder does not see, or strace is to record faults.
    """
    if bench.scenario.mechanism == "kernel":
        return _through_strace(bench, plan)
    with _directory(bench.scratch) as root:

        def hung() -> None:
            fired = trial.injector.fired if trial.injector else 0
            bench.on_hang(bench.history(trial.events, plan, fired, complete=False))

        trial = Trial(bench.subject.make, root, DiskLook(root), on_hang=hung)
        try:
            prepared(trial, bench.scenario, bench.seed, plan)
            recorder = Recorder(root, lambda: len(trial.events))
            with listening(trial), disk.armed(root, plan, observe=trial.observe) as injector:
                trial.injector = injector
                injector.layer.recorder = recorder
                bench.scenario.run(trial, bench.seed)
                trial.release()
                trial.settle()
            trial.finish()
        finally:
            trial.close()
    history = bench.history(trial.events, plan, injector.fired)
    recording = Recording(history, recorder.journal())
    if not any(rule.fault.name == "lost" for rule in plan.rules):
        _see_explained(bench, recording, _PAST_PYTHON)
    return recording


def _through_strace(bench: Bench, plan: Plan) -> Recording:
    if plan:
        raise TargetError(
            f"plan {plan} cannot be run in scenario {bench.scenario.name}: strace records no faults"
        )
    with _directory(bench.scratch) as root:
        events, journal = traced(bench.subject, bench.scenario, bench.seed, root)
    if any(isinstance(event, Hung) for event in events):
        bench.on_hang(bench.history(events, plan, 0, complete=False))
    recording = Recording(bench.history(events, plan, 0), journal)
    _see_explained(bench, recording, _PAST_STRACE)
    return recording


_PAST_PYTHON = ("the fault layer cannot see", "write through Python's open or os.write")
_PAST_STRACE = (
    "strace cannot show",
    "write with write(), not with mmap, sendfile, copy_file_range or io_uring",
)


def _see_explained(bench: Bench, recording: Recording, past: tuple[str, str]) -> None:
    """Refuse a recording whose steps do not lead to what is on disk: its crash states would be invented."""
    end = Disk(recording.journal)
    for _ in recording.journal.steps:
        end.advance()
    shown = {
        path: end.files[entry.node].content
        for path, entry in visible(end.live, end.journal.folders, end.links).items()
    }
    final = dict(next(recording.history.of(Final)).files)
    for name in sorted(shown.keys() | final.keys()):
        if shown.get(name) != final.get(name):
            raise TargetError(
                f"{bench.subject.label} writes {name} in a way that {past[0]}, so what a power loss "
                f"leaves of it cannot be told; {past[1]}"
            )


def explore(recording: Recording, laws: frozenset[str], *, fine: bool, tries: int) -> Outcome:
    """Build and judge the crash states of a run.

    Args:
        recording: the run.
        laws: the laws to judge by.
        fine: tear small writes at each byte.
        tries: how many states the next run is to go on over.
    """
    judging, enumeration = Judge(Facts(recording.history)), Enumeration(fine=fine)
    groups: dict[tuple[str, str], Group] = {}
    distinct: set[int] = set()
    judged: set[tuple[object, ...]] = set()
    broken: set[tuple[object, ...]] = set()
    sample: dict[tuple[object, ...], tuple[State, Moment]] = {}
    now = Disk(recording.journal)
    steps = recording.journal.steps
    while True:
        # The next step, while under way, may have had no effect when what happened meanwhile was promised.
        position = steps[now.step].at if now.step < len(steps) else len(recording.history.events)
        moment = judging.moment(position)
        for state in enumeration.states(now):
            content = hash(state.files)
            distinct.add(content)
            promised = (content, moment.drained, moment.started)
            if (promised, state.lacks) in judged:
                continue
            judged.add((promised, state.lacks))
            everything = judging.findings(state, moment)
            if not everything:
                sample.setdefault(_shape(state), (state, moment))
            found = [finding for finding in everything if finding.law in laws]
            if found:
                broken.add(promised)
            for finding in found:
                key = (finding.law, finding.kind)
                if key not in groups:
                    groups[key] = Group(*key, finding, state)
                groups[key].add(finding, state, promised)
        if now.step == len(steps):
            break
        if len(broken) > MOST_BROKEN:
            enumeration.fine = False
        now.advance()
    chosen = tuple(sample.values())
    return Outcome(
        attributed(groups.values()),
        len(distinct),
        len({promised for promised, _ in judged}),
        len(broken),
        enumeration.cut,
        _spread(chosen, tries),
        judging,
    )


def _spread(found: tuple[tuple[State, Moment], ...], most: int) -> tuple[tuple[State, Moment], ...]:
    """Some of the states, from the first moment to the last."""
    return found[:: -(-len(found) // most)] if found and most else ()


def _shape(state: State) -> tuple[object, ...]:
    """States of one shape are alike to the next run: the same names, each with nothing, zeros, a torn row, or whole rows."""
    return tuple(
        (name, bool(content), content.endswith(b"\n"), content.startswith(b"\0"))
        for name, content in state.files
    )


def results_of(bench: Bench, recording: Recording, laws: frozenset[str]) -> tuple[list[TrialResult], Outcome]:
    """Judge the crash states of a run.

    Args:
        bench: the scenario.
        recording: the run.
        laws: the laws to judge by.

    Returns:
        One result for each way in which a law is broken, one for all states that break none, and one for each state
        that the next run went on over; and what the states come to.
    """
    plan = Plan.parse(recording.history.plan)
    tries = FEWER_NEXT_RUNS if plan else NEXT_RUNS
    outcome = explore(recording, laws, fine=not plan, tries=tries)
    results = [
        TrialResult(
            str(PowerPlan(group.state.choice, plan)),
            tuple(sorted(laws)),
            (Violation(group.law, group.message(outcome.judging)),),
            states=len(group.seen),
        )
        for group in outcome.groups
    ]
    if sound := outcome.judged - outcome.broken:
        results.append(TrialResult(str(plan), tuple(sorted(laws)), (), states=sound))
    if "D3" in laws:
        for state, moment in outcome.sample:
            messages, _ = next_run(bench, recording, state, moment)
            found = tuple(Violation("D3", message) for message in messages)
            results.append(TrialResult(str(PowerPlan(state.choice, plan)), ("D3",), found))
    return results, outcome


def replay(bench: Bench, wanted: PowerPlan, laws: frozenset[str]) -> tuple[TrialResult, History]:
    """Build one crash state again, judge it, and let the next run go on over it.

    Raises:
        PlanError: the run has no such state.
    """
    recording = record(bench, wanted.plan)
    state = build(recording.journal, wanted.choice)
    steps = recording.journal.steps
    last = wanted.choice.step == len(steps)
    judging = Judge(Facts(recording.history))
    moment = judging.moment(len(recording.history.events) if last else steps[wanted.choice.step].at)
    groups = []
    for finding in judging.findings(state, moment):
        groups.append(Group(finding.law, finding.kind, finding, state))
        groups[-1].add(finding, state)
    violations = [Violation(group.law, group.message(judging)) for group in groups if group.law in laws]
    history = replace(_until(recording, state, moment), fired=1)
    if not groups and "D3" in laws:
        messages, history = next_run(bench, recording, state, moment)
        violations += [Violation("D3", message) for message in messages]
    return TrialResult(str(wanted), tuple(sorted(laws)), tuple(violations)), replace(
        history, plan=str(wanted)
    )


def _until(recording: Recording, state: State, moment: Moment) -> History:
    events: list[Event] = [
        event for event in recording.history.events[: moment.position] if not isinstance(event, Final)
    ]
    events.append(Mark("power loss", told(recording.journal, state.choice)))
    events.append(Final(state.files))
    return replace(recording.history, events=tuple(events))


def next_run(
    bench: Bench, recording: Recording, state: State, moment: Moment
) -> tuple[tuple[str, ...], History]:
    """Put a state on the real disk and let the next run go on over it.

    Returns:
        What is wrong afterwards, and the whole history.
    """
    before = _until(recording, state, moment).events[:-1]
    names = tuple((name, content) for name, content in state.files if name.endswith(".jsonl"))
    with _directory(bench.scratch) as root:
        for name, content in state.files:
            path = os.path.join(root, *name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        trial = Trial(bench.subject.make, root, DiskLook(root), first=moment.started)
        trial.target.warn, trial.target.exit_deadline = bench.scenario.warn, bench.scenario.exit_deadline
        try:
            trial.note(Seen(0, names))
            trial.mark("killed", "by the power loss")
            trial.new_run()
            if bench.scenario.after is not None:
                bench.scenario.after(trial, bench.seed)
            trial.finish()
        finally:
            trial.close()
    history = replace(recording.history, events=(*before, *trial.events), fired=1)
    facts = Facts(history)
    messages = [violation.message for violation in judge(history, frozenset({"D3"}))]
    for dump in facts.dumps:
        if dump.run and (dump.failure is not None or not facts.is_written(dump)):
            why = f"raised {dump.failure}" if dump.failure is not None else "is not on disk"
            messages.append(f"over what the power loss left, {dump} of the next run {why}")
    return tuple(dict.fromkeys(messages)), history


@contextmanager
def _directory(scratch: str) -> Iterator[str]:
    path = os.path.realpath(tempfile.mkdtemp(prefix="power-", dir=scratch))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


__all__ = ["Bench", "Outcome", "Recording", "explore", "next_run", "record", "replay", "results_of"]
