"""One plan, several mechanisms: each that supports a plan gives the same history, whatever it is made of."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fault_injection import memory_trial
from fault_injection.fault import ERRNO_FAULTS
from fault_injection.history import Ended, Exited, Final, History, Mark, Seen
from fault_injection.kernel_child import Course
from fault_injection.kernel_trial import run_in_kernel, run_through
from fault_injection.killing import run_killed
from fault_injection.mechanisms import disk, memory
from fault_injection.mechanisms.kernel import STAGES, missing
from fault_injection.mechanisms.kernel.strace import CannotAimError
from fault_injection.plan import Plan
from fault_injection.runner import Order, run_trial
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the kernel mechanism needs fork")

SEED = 0
MECHANISMS = ("disk", "memory", *STAGES)
STATES = (
    "bytes>12288:ENOSPC",
    "bytes>4000:EFBIG",
    "open#1+:EACCES",
    "mkdir#1+:EACCES",
    "open#1+:EPERM",
    "mkdir#1+:EPERM",
    "open#1+:EROFS",
    "mkdir#1+:EROFS",
    "open#1+:EMFILE",
)
"""Plans that a state of the system makes real."""
SCHEDULES = (
    "mkdir#1:EIO",
    "open#2:ENFILE",
    "write#2+:EDQUOT",
    "write#2:short(7)",
    "write#2:slow(1ms)",
    "fsync#2:EIO",
    "fsyncdir#1+:ESTALE",
    "close#2:EIO",
    "close#1+:ENOSPC",
    "rename#1+:ENOENT",
    "rename#2:vanish",
    "rename#2:replace",
)
"""Plans that strike at a count of operations."""
ERRORS = tuple(f"write#2:{name}" for name in ERRNO_FAULTS if name != "EINTR")
INTERRUPTED = (
    *("open#2:EINTR", "write#2:EINTR", "fsync#1:EINTR"),
    *("mkdir#1:EINTR", "close#2:EINTR", "rename#2:EINTR"),
)
"""The first three Python tries again by itself (PEP 475)."""
PLANS = (*STATES, *SCHEDULES, *ERRORS, *INTERRUPTED)
KILLS = ("open#2:kill", "write#2:kill", "write#2:torn", "close#2:kill", "rename#2:kill")
ZOO = ("executor:ExecutorWriter", "os_write:OsWriteWriter", "staging:StagingWriter")


@dataclass(frozen=True)
class Outcome:
    """What a mechanism made of a plan.

    Args:
        raised: for each call that raised: the call, the dump, and type and errno of every system error in the chain.
        files: what is left under final names.
        temporary: how many other files are left.
    """

    raised: tuple[tuple[str, int | None, tuple[tuple[str, int | None], ...]], ...]
    files: tuple[tuple[str, bytes], ...]
    temporary: int


def reasons(plan: str) -> dict[str, str]:
    """For each mechanism why it cannot make the plan real, or the empty text."""
    parsed = Plan.parse(plan)
    against = {"disk": disk.supports(parsed, deadly=True), "memory": memory.supports(parsed)}
    return against | {name: stage.supports(parsed) for name, stage in STAGES.items()}


def usable(plan: str) -> tuple[str, ...]:
    """The mechanisms that support the plan, on this machine."""
    lacking = missing()
    return tuple(
        name
        for name, reason in reasons(plan).items()
        if not reason and not (name in STAGES and set(STAGES[name].needs) & set(lacking))
    )


@pytest.fixture(scope="module", autouse=True)
def _no_fake_file_system_left() -> Iterator[None]:
    """Take down the fake file system that trials in memory have set up in this very process."""
    yield
    memory_trial.leave()


@pytest.fixture
def scratch() -> Iterator[str]:
    """A directory that another user can pass to."""
    path = tempfile.mkdtemp()
    yield path
    shutil.rmtree(path)


def history_through(mechanism: str, location: str, plan: str, scratch: str) -> History:
    """Run three dumps through one mechanism."""
    spec = Spec(location)
    subject = load_subject(spec)
    if mechanism in STAGES:
        folder = tempfile.mkdtemp(dir=scratch)
        scenario = SCENARIOS["three-dumps"]
        try:
            return run_in_kernel(subject, scenario, Plan.parse(plan), SEED, folder, stage=STAGES[mechanism])
        finally:
            shutil.rmtree(folder)
    name = "three-dumps-in-memory" if mechanism == "memory" else "three-dumps"
    return run_trial(Order(spec, name, plan, SEED), subject, scratch)


def outcome(history: History) -> Outcome:
    """What a history comes to."""
    raised = []
    for event in history.of(Ended):
        if event.failure is not None:
            errors = {(link.types[0], link.errno) for link in event.failure.links if "OSError" in link.types}
            raised.append((event.call, event.dump, tuple(sorted(errors, key=str))))
    (final,) = history.of(Final)
    named = {name.rpartition("/")[2]: content for name, content in final.files}
    files = tuple(
        sorted((name, content) for name, content in named.items() if re.fullmatch(r"\d+\.jsonl", name))
    )
    return Outcome(tuple(raised), files, len(final.files) - len(files))


def compare(location: str, plan: str, scratch: str) -> list[str]:
    """Run a plan through every mechanism that supports it, compare each with the first, and name them."""
    outcomes = {}
    for mechanism in usable(plan):
        try:
            history = history_through(mechanism, location, plan, scratch)
        except CannotAimError:
            continue
        assert history.fired, f"{mechanism} did not strike"
        outcomes[mechanism] = outcome(history)
    first = outcomes["disk"]
    for mechanism, other in outcomes.items():
        assert other == first, f"{mechanism} against disk"
    return list(outcomes)


@pytest.mark.broad
@pytest.mark.parametrize("plan", PLANS)
def test_mechanisms_agree_on_the_reference_writer(plan: str, scratch: str) -> None:
    """Every mechanism that supports a plan raises the same errors at the same calls and leaves the same bytes."""
    compared = compare(DEFAULT, plan, scratch)
    if len(compared) < 2:
        pytest.skip("; ".join(missing().values()) or f"{plan} is made real by one mechanism only")


@pytest.mark.parametrize("writer", ZOO)
@pytest.mark.parametrize(
    "plan", ["bytes>12288:ENOSPC", "open#1+:EACCES", "write#2:EIO", "close#2:EIO", "rename#2:EDQUOT"]
)
def test_mechanisms_agree_on_other_writers(plan: str, writer: str, scratch: str) -> None:
    """The mechanisms agree on writers that are built differently, too."""
    compared = compare(f"tests.zoo.{writer}", plan, scratch)
    if len(compared) < 2:
        pytest.skip("; ".join(missing().values()))


def left_by_kill(history: History) -> tuple[tuple[str, ...], int]:
    """The files under final names and the number of others, as the killed process left them."""
    events = list(history.events)
    place = next(i for i, event in enumerate(events) if isinstance(event, Exited))
    after = next(i for i, event in enumerate(events) if isinstance(event, Mark) and event.name == "killed")
    files = [file for event in events[place:after] if isinstance(event, Seen) for file in event.files]
    return tuple(sorted(name for name, _ in files)), history.fired


@pytest.mark.parametrize("plan", KILLS)
def test_a_kill_leaves_the_same_through_each_mechanism(plan: str, scratch: str) -> None:
    """A process that dies at an operation leaves the same whole files, whoever killed it, and the next run goes on."""
    subject, scenario = load_subject(Spec(DEFAULT)), SCENARIOS["killed"]
    left = {}
    for mechanism in ("disk", "kernel"):
        if mechanism == "kernel" and "seccomp" in missing():
            continue
        root = tempfile.mkdtemp(dir=scratch)
        history = run_killed(subject, replace(scenario, mechanism=mechanism), Plan.parse(plan), SEED, root)
        assert [event.code for event in history.of(Exited)] == [-9]
        left[mechanism] = left_by_kill(history), outcome(history)
    if "strace" not in missing() and "torn" not in plan:
        root = tempfile.mkdtemp(dir=scratch)
        course = Course(STAGES["strace"], subject, scenario, Plan.parse(plan), SEED, root)
        through = run_through(course)
        assert through.code == -9
        (final,) = (event for event in through.events if isinstance(event, Final))
        names = tuple(name for name, _ in final.files if name.endswith(".jsonl"))
        left["strace"] = (names, 1), left["disk"][1]
    assert len(set(map(repr, left.values()))) == 1


def test_enough_faults_are_compared() -> None:
    """At least ten faults go through two mechanisms or more, and five through three or more."""
    supported: dict[str, set[str]] = {}
    for plan in (*PLANS, *KILLS):
        (rule,) = Plan.parse(plan).rules
        through = {name for name, reason in reasons(plan).items() if not reason}
        supported.setdefault(rule.fault.name, set()).update(through)
    assert sum(len(each) >= 2 for each in supported.values()) >= 10
    assert sum(len(each) >= 3 for each in supported.values()) >= 5
    families = {
        fault: {"kernel" if name in STAGES else name for name in each} for fault, each in supported.items()
    }
    assert sum(len(each) == 3 for each in families.values()) >= 2


def test_the_catalogue_names_what_the_mechanisms_do() -> None:
    """The catalogue of faults gives each mechanism exactly the faults that it makes real."""
    from fault_injection.fault import CATALOGUE
    from fault_injection.mechanisms import kernel

    tables = {"disk": disk.CAPABILITIES, "memory": memory.CAPABILITIES, "kernel": kernel.CAPABILITIES}
    for mechanism, table in tables.items():
        assert set(table) == {name for name, kind in CATALOGUE.items() if mechanism in kind.mechanisms}


def test_no_mount_outlives_a_trial(scratch: str) -> None:
    """A mount is made in the child's own namespace only: this process never sees it."""
    mounts = Path("/proc/self/mountinfo")
    if not mounts.exists() or "mounts" in missing():
        pytest.skip(missing().get("mounts", "there is no /proc here"))
    before = mounts.read_text().count("\n")
    for stage, plan in (("tmpfs", "bytes>12288:ENOSPC"), ("read-only", "open#1+:EROFS")):
        assert history_through(stage, DEFAULT, plan, scratch).fired
    assert mounts.read_text().count("\n") == before
