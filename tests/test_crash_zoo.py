"""Power loss end to end: the writers of the zoo, the reference writer, and a writer like verl's, by their crash states."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fault_injection.crash.replay import PowerPlan
from fault_injection.crash.run import Bench, explore, next_run, record, replay, results_of
from fault_injection.crash.serve import reply_to
from fault_injection.history import Final, History, Mark
from fault_injection.plan import Plan
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, Subject, load_subject
from fault_injection.targets.errors import TargetError
from fault_injection.wire import Job
from tests.zoo import broken_crash
from tests.zoo.thread_queue import ThreadQueueWriter

LAWS = frozenset({"D2", "D3", "D7"})
POWER = [
    name for name, scenario in SCENARIOS.items() if (scenario.place, scenario.mechanism) == ("power", "disk")
]
PLANS = ("none", "fsync#1:lost", "fsync#2:lost", "fsyncdir#1:EIO", "rename#1:EIO")
BROKEN = [item for item in vars(broken_crash).values() if "broken_law" in getattr(item, "__dict__", ())]
GOOD = [Spec(DEFAULT), Spec("tests.zoo.broken_crash:DurableWriter")]


class LikeVerl(ThreadQueueWriter):
    """Writes under the final name, syncs nothing, and claims that what it wrote survives a power loss."""

    dump_capabilities = frozenset({"durable"})

    def _write_temp(self, temp, data):
        self._data = data

    def _publish(self, temp, path):
        with open(path, "wb") as file:
            file.writelines(self._data.splitlines(keepends=True))


def bench(spec: Spec, scenario: str, scratch: Path) -> Bench:
    """What a recording needs; a call that hangs fails the test."""

    def hung(history: History) -> None:
        pytest.fail(f"a call hangs in {history.scenario}")

    return Bench(load_subject(spec), SCENARIOS[scenario], 0, str(scratch), hung)


def spec_of(cls: type) -> Spec:
    """Where a class of the tests comes from."""
    return Spec(f"{cls.__module__}:{cls.__name__}")


def accused(spec: Spec, scenario: str, plan: str, scratch: Path) -> dict[str, list[str]]:
    """The messages against a writer, by law."""
    at = bench(spec, scenario, scratch)
    outcome = explore(record(at, Plan.parse(plan)), LAWS, fine=False, tries=0)
    out: dict[str, list[str]] = {}
    for group in outcome.groups:
        out.setdefault(group.law, []).append(group.message(outcome.judging))
    return out


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("scenario", POWER)
@pytest.mark.parametrize("spec", GOOD, ids=["reference", "zoo"])
def test_a_durable_writer_survives_every_power_loss(
    spec: Spec, scenario: str, plan: str, tmp_path: Path
) -> None:
    """No state that a power loss may leave breaks a law, whatever sync failed before, and the next run goes on over it."""
    at = bench(spec, scenario, tmp_path)
    recording = record(at, Plan.parse(plan))
    outcome = explore(recording, LAWS, fine=False, tries=3)
    assert outcome.groups == ()
    assert outcome.sample
    for state, moment in outcome.sample:
        assert next_run(at, recording, state, moment)[0] == ()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_writer_is_caught_by_its_law_alone(cls: type, tmp_path: Path) -> None:
    """A defect that a power loss shows is caught by the law that it breaks, by no other, and with what the writer needs."""
    found: dict[str, list[str]] = {}
    for scenario in POWER[:2]:
        for plan in PLANS:
            for law, messages in accused(spec_of(cls), scenario, plan, tmp_path).items():
                found.setdefault(law, []).extend(messages)
    assert list(found) == [cls.broken_law]
    wanted = getattr(cls, "needs", "no property of a file system helps")
    assert any(wanted in message for message in found[cls.broken_law])


@pytest.mark.parametrize("scenario", POWER)
def test_a_writer_like_verls_is_not_durable(scenario: str, tmp_path: Path) -> None:
    """A writer that syncs neither file nor directory breaks D7 once it claims to be durable."""
    found = accused(spec_of(LikeVerl), scenario, "none", tmp_path)
    assert any("data persists without fsync" in message for message in found["D7"])


def test_thousands_of_distinct_states_are_built(tmp_path: Path) -> None:
    """One fault-free run of the reference writer has more than 5,000 distinct crash states, none of them broken."""
    recording = record(bench(Spec(DEFAULT), "power-loss", tmp_path), Plan())
    outcome = explore(recording, LAWS, fine=True, tries=0)
    assert outcome.states > 5000
    assert outcome.judged >= outcome.states
    assert outcome.broken == 0
    assert "places to tear a write at" in str(outcome)


def test_a_violation_is_replayed_by_its_text(tmp_path: Path) -> None:
    """The plan of a result builds the same state again, which breaks the same law; the history tells what was left."""
    at = bench(spec_of(broken_crash.NoFsync), "power-loss-over-older", tmp_path)
    results, _ = results_of(at, record(at, Plan()), LAWS)
    (broken,) = [result for result in results if result.violations]
    again, history = replay(at, PowerPlan.parse(broken.plan), LAWS)
    assert again.plan == broken.plan == history.plan
    assert again.violations == broken.violations
    assert "power loss" in {mark.name for mark in history.of(Mark)}
    assert b"" in dict(next(history.of(Final)).files).values()


def test_a_sound_state_is_replayed_with_the_next_run(tmp_path: Path) -> None:
    """The replay of a state that breaks nothing shows the run that goes on over it."""
    at = bench(Spec(DEFAULT), "power-loss-over-older", tmp_path)
    result, history = replay(at, PowerPlan.parse("power:after=2|names="), LAWS)
    assert result.violations == ()
    assert {"power loss", "killed", "new run"} <= {mark.name for mark in history.of(Mark)}


class Unwell(broken_crash.DurableWriter):
    """Cannot go on where a run was cut short: it takes its own temporary file for another run's lock."""

    def _write(self, job):
        directory = os.path.dirname(job.path)
        if os.path.isdir(directory) and any(
            name.endswith(".tmp") and f"-{self._serial}." not in name for name in os.listdir(directory)
        ):
            raise RuntimeError(f"another run writes to {directory} at step {job.step}")
        super()._write(job)


def test_a_next_run_that_cannot_go_on_breaks_d3(tmp_path: Path) -> None:
    """Where what a power loss leaves stops the next run, D3 says which dump was lost by that."""
    at = bench(spec_of(Unwell), "power-loss", tmp_path)
    results, _ = results_of(at, record(at, Plan()), LAWS)
    messages = [v.message for result in results for v in result.violations]
    assert {v.law for result in results for v in result.violations} == {"D3"}
    assert any("of the next run" in message for message in messages)


class PastTheLayer(broken_crash.DurableWriter):
    """Adds to its file by a call that the fault layer does not see."""

    def _publish(self, temp, path):
        from fault_injection.mechanisms import disk

        with disk.bypass(), open(temp, "ab") as file:
            file.write(b"\n")
        super()._publish(temp, path)


def test_what_was_not_seen_is_not_judged(tmp_path: Path) -> None:
    """A run whose recorded steps do not lead to what is on disk is refused, since its crash states would be invented."""
    with pytest.raises(TargetError, match="in a way that the fault layer cannot see") as caught:
        record(bench(spec_of(PastTheLayer), "power-loss", tmp_path), Plan())
    assert "\n" not in str(caught.value)


def job(subject: Spec, scenario: str, plan: str | None, scratch: Path, *, history: bool = False) -> Job:
    """What the engine would ask a worker for."""
    return Job(subject, 0, str(scratch), Unit(scenario, plan=plan), LAWS | {"E8"}, history=history)


@pytest.mark.parametrize("plan", ["none", "fsync#1:lost", "power:after=3"])
def test_a_worker_answers_for_a_plan_or_one_state(plan: str, tmp_path: Path) -> None:
    """Asked for one trial, a worker sends one result and the history, for a whole run as for one crash state."""
    spec = Spec(DEFAULT)
    subject: Subject = load_subject(spec)
    reply = reply_to(job(spec, "power-loss-over-older", plan, tmp_path, history=True), subject, pytest.fail)
    assert [result.plan for result in reply.results] == [plan]
    assert reply.results[0].violations == ()
    assert set(reply.results[0].laws) == LAWS
    assert len(reply.histories) == 1


def test_a_worker_refuses_a_state_of_another_run(tmp_path: Path) -> None:
    """A crash state that the run does not have is one line for the user, no defect of the harness."""
    spec = Spec(DEFAULT)
    wanted = job(spec, "power-loss", "power:after=999", tmp_path, history=True)
    assert "there is no step 999" in reply_to(wanted, load_subject(spec), pytest.fail).refusal


def test_a_family_is_swept_until_nothing_fires(tmp_path: Path) -> None:
    """A family of faults is recorded for each k at which it strikes, and each run's crash states are judged."""
    spec = Spec(DEFAULT)
    family = next(f for f in SCENARIOS["power-loss-over-older"].menu.families if f.op == "rename")
    wanted = Job(spec, 0, str(tmp_path), Unit("power-loss-over-older", family=family), LAWS)
    plans = {
        result.plan.rpartition("plan=")[2]
        for result in reply_to(wanted, load_subject(spec), pytest.fail).results
    }
    assert plans == {"rename#1:EIO", "rename#2:EIO"}
