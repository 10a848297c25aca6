"""Threads that run one at a time: every schedule is found, each is run again by its text, and a deadlock is noticed."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fault_injection.cli import OK, UNUSABLE, main
from fault_injection.history import History, Hung
from fault_injection.interleave import primitives, serve
from fault_injection.interleave.accesses import Atlas, Watch, candidates, territory_of
from fault_injection.interleave.explore import Frontier
from fault_injection.interleave.install import Holdings, scheduled
from fault_injection.interleave.plan import SwitchPlan
from fault_injection.interleave.real import REAL
from fault_injection.interleave.run import Bench, run_schedule
from fault_injection.interleave.scheduler import AbandonedError, Scheduler
from fault_injection.interleave.summary import Interleaved, as_text, as_values
from fault_injection.plan import Plan, PlanError
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.sweep import Schedules
from fault_injection.wire import Job
from tests.zoo import common

Body = Callable[[], object]
LAWS = frozenset({"D1", "D2", "E1", "E2", "E3", "E7", "E8", "Q4"})


def once(body: Body, decisions: tuple[tuple[int, int], ...] = (), **options: Any) -> Scheduler:
    """One run of a body in which every thread is scheduled."""
    names = options.pop("watched", frozenset())
    scheduler = Scheduler(dict(decisions), watched=names, **options)
    watch = Watch(scheduler, Atlas(territory_of(Counter), frozenset({"count", "kept"})))

    def traced() -> None:
        import sys

        sys.settrace(watch.trace)
        try:
            body()
        except AbandonedError:
            assert scheduler.hung
        finally:
            sys.settrace(None)

    with scheduled(scheduler, Holdings([]), watch.trace):
        traced()
    scheduler.racy = tuple(watch.racy)  # type: ignore[attr-defined]
    return scheduler


def every(body: Body, bound: int, **options: Any) -> Iterator[Scheduler]:
    """One run for each schedule up to a number of preemptions."""
    frontier = Frontier(bound)
    while (cost := frontier.level()) >= 0:
        decisions = frontier.take()
        scheduler = once(body, decisions, **options)
        assert scheduler.diverged == ""
        frontier.extend(decisions, cost, tuple(scheduler.points))
        yield scheduler


def beside(*bodies: Body) -> None:
    """Run bodies in threads of their own."""
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Counter:
    """Counts without a lock, and with one."""

    def __init__(self) -> None:
        self.count = 0
        self.kept = {"count": 0}
        self.lock = threading.Lock()

    def add(self) -> None:
        """Count."""
        self.count += 1

    def keep(self) -> None:
        """Count in an item."""
        self.kept["count"] += 1

    def add_safely(self) -> None:
        """Count, with the lock."""
        with self.lock:
            self.count += 1


@pytest.mark.parametrize(
    "text",
    [
        "switch:",
        "switch:3>1",
        "switch:3>1.14>0|at=_closed._failures",
        "switch:0>2|plan=write#1:ENOSPC;close#2:EIO",
    ],
    ids=["default", "one", "watched", "failing"],
)
def test_a_schedule_is_read_from_its_text(text: str) -> None:
    """The text of a schedule parses back to the same schedule."""
    plan = SwitchPlan.parse(text)
    assert str(plan) == text
    assert SwitchPlan.parse(repr(plan)) == plan


@pytest.mark.parametrize(
    "text",
    [
        "write#1:EIO",
        "switch:1",
        "switch:2>1.1>0",
        "switch:1>0.1>1",
        "switch:1>0|at=",
        "switch:1>0|names=a",
        "switch:1>0|plan=x",
    ],
    ids=["no-prefix", "no-thread", "backwards", "twice", "no-name", "other-key", "bad-plan"],
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    """A text that names no schedule raises one line that says what to write."""
    with pytest.raises(PlanError) as caught:
        SwitchPlan.parse(text)
    assert "\n" not in str(caught.value)


def test_every_order_of_two_threads_is_found() -> None:
    """With as many preemptions as there are steps, each of the six orders of two times two steps is run."""
    seen = set()

    def body() -> None:
        order, lock = [], threading.Lock()

        def steps(name: str) -> None:
            for _ in range(2):
                with lock:
                    order.append(name)

        beside(lambda: steps("a"), lambda: steps("b"))
        seen.add("".join(order))

    for _ in every(body, 4):
        pass
    assert seen == {"aabb", "abab", "abba", "baab", "baba", "bbaa"}


@pytest.mark.parametrize(("bound", "orders"), [(0, 2), (1, 4), (2, 6)])
def test_the_bound_is_the_number_of_preemptions(bound: int, orders: int) -> None:
    """Without a preemption two threads run one after the other, and each one more adds the orders that need it."""
    seen = set()

    def body() -> None:
        order, lock, gate = [], threading.Lock(), threading.Event()

        def steps(name: str) -> None:
            gate.wait()
            for _ in range(2):
                with lock:
                    order.append(name)

        threads = [threading.Thread(target=steps, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join()
        seen.add("".join(order))

    for _ in every(body, bound):
        pass
    assert len(seen) == orders


@pytest.mark.parametrize("method", ["add", "keep"], ids=["attribute", "item"])
def test_a_read_and_a_write_are_split(method: str) -> None:
    """An attribute or item that is changed in place without a lock is found to be shared, and loses a step."""
    results = set()
    name = "count" if method == "add" else "kept"

    def body() -> None:
        counter = Counter()
        beside(getattr(counter, method), getattr(counter, method))
        results.add(counter.count + counter.kept["count"])

    assert once(body).racy == (name,)  # type: ignore[attr-defined]
    assert results == {2}
    for _ in every(body, 1, watched=frozenset({name})):
        pass
    assert results == {1, 2}


def test_what_a_lock_protects_is_not_split() -> None:
    """An attribute that is used under one lock only is no point of choice, and no schedule loses a step."""
    results = []

    def body() -> None:
        counter = Counter()
        beside(counter.add_safely, counter.add_safely)
        results.append(counter.count)

    assert {scheduler.racy for scheduler in every(body, 2)} == {()}  # type: ignore[attr-defined]
    assert set(results) == {2}


def test_a_deadlock_is_noticed() -> None:
    """Two locks taken in two orders hang in some schedule and not in the default one; no thread is left behind."""

    def body() -> None:
        first, second = threading.Lock(), threading.Lock()

        def one() -> None:
            with first, second:
                pass

        def other() -> None:
            with second, first:
                pass

        beside(one, other)

    before = set(threading.enumerate())
    runs = list(every(body, 1))
    assert not runs[0].hung
    assert any(scheduler.hung for scheduler in runs)
    assert set(threading.enumerate()) == before


def test_a_loop_without_an_end_is_noticed() -> None:
    """A call that looks at an event for ever is said to hang."""

    def body() -> None:
        event = threading.Event()
        while not event.is_set():
            pass

    assert once(body).hung


def test_a_thread_that_spins_lets_others_go_on() -> None:
    """A thread that waits in a loop for another one gives it its turn."""

    def body() -> None:
        event = threading.Event()
        thread = threading.Thread(target=event.set)
        thread.start()
        while not event.is_set():
            pass
        thread.join()

    assert not once(body).hung


def _queues() -> int:
    waiting: queue.Queue[int] = queue.Queue(1)
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: [waiting.put(i) for i in range(3)])
    thread.start()
    total = sum(waiting.get() for _ in range(3))
    thread.join()
    simple.put(total)
    with pytest.raises(queue.Empty):
        waiting.get(timeout=5)
    return simple.get() if simple.qsize() else -1


def _executor() -> int:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return sum(pool.map(abs, (-1, -2)))


def _conditions() -> int:
    condition, ready, places = threading.Condition(), [], threading.BoundedSemaphore(1)

    def work() -> None:
        with places, condition:
            ready.append(1)
            condition.notify_all()

    thread = threading.Thread(target=work)
    thread.start()
    with condition:
        assert condition.wait_for(lambda: ready, timeout=60)
        assert not condition.wait(timeout=60)
    thread.join(60)
    return 3 * (not thread.is_alive())


def _barrier() -> int:
    barrier, passed = threading.Barrier(3), []
    beside(*[lambda: passed.append(barrier.wait())] * 3)
    return sum(passed)


def _recursive() -> int:
    lock = threading.RLock()
    with lock, lock:
        other: list[bool] = []
        beside(
            lambda: other.append(lock.acquire(blocking=False)), lambda: other.append(lock.acquire(timeout=9))
        )
    assert other == [False, False]
    return 3 * lock.acquire(timeout=1)


def _sleeps() -> int:
    begin = time.monotonic()
    beside(lambda: primitives.sleep(1000), lambda: primitives.sleep(2000))
    return round(time.monotonic() - begin) // 2000 * 3


@pytest.mark.parametrize("body", [_queues, _executor, _conditions, _barrier, _recursive, _sleeps])
def test_what_waits_works_in_every_schedule(body: Callable[[], int]) -> None:
    """Queues, executors, conditions, barriers, locks and sleeps mean the same in each schedule, and nothing waits for real."""
    results: list[int] = []
    begin = time.monotonic()
    runs = list(every(lambda: results.append(body()), 1))
    assert set(results) == {3}
    assert len(results) == len(runs)
    assert not any(scheduler.hung for scheduler in runs)
    assert time.monotonic() - begin < 50


def test_nothing_stays_replaced() -> None:
    """After a run, also one that raises, threads and locks are the real ones."""

    def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        once(fails)
    assert threading.Thread.start is REAL["start"]
    assert threading.Condition is REAL["condition"]
    assert type(threading.Lock()) is type(REAL["lock"]())
    assert vars(time)["sleep"] is REAL["sleep"]


class _Module:
    """Stands for a module that has made a lock when it was imported."""


@dataclasses.dataclass
class Holder:
    """Makes its lock by a factory that its `__init__` keeps."""

    lock: Any = dataclasses.field(default_factory=threading.Lock)


def test_locks_of_imported_modules_are_scheduled() -> None:
    """A lock made at import and one made by a dataclass can be waited for without waiting for real."""
    import types

    module = types.ModuleType("imported")
    module.LOCK = real = threading.Lock()  # type: ignore[attr-defined]
    module.Holder = Holder  # type: ignore[attr-defined]
    Holder.__module__, before = "imported", Holder.__module__
    try:
        holdings = Holdings([module])
    finally:
        Holder.__module__ = before
    scheduler = Scheduler()
    with scheduled(scheduler, holdings, None):
        kinds = {type(module.LOCK).__module__, type(Holder().lock).__module__}
    assert kinds == {"fault_injection.interleave.primitives"}
    assert module.LOCK is real
    assert type(Holder().lock) is type(real)


def test_candidates_are_what_changes_after_it_was_made() -> None:
    """Only names that something else than `__init__` changes, or whose content is changed, may be shared."""
    assert candidates([Counter.__init__, Counter.add, Counter.keep]) == {"count", "kept"}
    assert candidates([Counter.__init__]) == frozenset()


def bench(scenario: str, scratch: Path, spec: str = DEFAULT) -> Bench:
    """What a run of a scenario needs; a thread that is lost fails the test."""
    return Bench(load_subject(Spec(spec)), SCENARIOS[scenario], 0, str(scratch), lambda: pytest.fail("lost"))


def told(history: History) -> list[str]:
    """The events of a history, without the numbers that tell temporary files apart."""
    import re

    return [re.sub(r"-\d+-\d+\.tmp", ".tmp", repr(event)) for event in history.events]


def test_a_schedule_gives_the_same_history_each_time(tmp_path: Path) -> None:
    """The same text of a schedule gives the same points of choice and the same history."""
    at = bench("interleaved-drain-beside", tmp_path)
    first = run_schedule(at, SwitchPlan())
    decisions = ((len(first.points) // 2, first.points[len(first.points) // 2].options[-1]),)
    plan = SwitchPlan(decisions, frozenset({"_thread"}), Plan.parse("write#2:ENOSPC"))
    runs = [run_schedule(at, SwitchPlan.parse(str(plan))) for _ in range(3)]
    assert runs[0].points == runs[1].points == runs[2].points
    assert told(runs[0].history) == told(runs[1].history) == told(runs[2].history)
    assert list(tmp_path.iterdir()) == []


def job(plan: str, scratch: Path, *, history: bool = True, scenario: str = "interleaved-drain") -> Job:
    """What the engine would ask a worker for."""
    return Job(Spec(DEFAULT), 0, str(scratch), Unit(scenario, plan=plan), LAWS, history=history)


@pytest.mark.parametrize("plan", ["switch:3>1|plan=write#1:ENOSPC", "none"], ids=["one", "all"])
def test_a_worker_answers_for_one_schedule_or_all(plan: str, tmp_path: Path) -> None:
    """Asked for one schedule or for a plan, a worker sends one result and a history."""
    import io

    reply = serve.reply_to(job(plan, tmp_path), load_subject(Spec(DEFAULT)), io.BytesIO())
    assert [result.plan for result in reply.results] == [plan]
    assert reply.results[0].violations == ()
    assert (reply.results[0].states > 40) is (plan == "none")
    assert len(reply.histories) == 1


@pytest.mark.parametrize("plan", ["switch:9999>7", "switch:oops"], ids=["absent", "malformed"])
def test_a_worker_refuses_a_schedule_of_another_run(plan: str, tmp_path: Path) -> None:
    """A choice that the run does not have is one line for the user, no defect of the harness."""
    import io

    if plan == "switch:9999>7":
        plan = "switch:0>7"
    reply = serve.reply_to(job(plan, tmp_path), load_subject(Spec(DEFAULT)), io.BytesIO())
    assert reply.refusal
    assert "\n" not in reply.refusal


def test_a_plan_that_strikes_nothing_counts_for_nothing(tmp_path: Path) -> None:
    """A plan whose operation never comes gives no result, so that no law holds by it."""
    import io

    wanted = job("rmdir#1:EIO", tmp_path, history=False)
    assert serve.reply_to(wanted, load_subject(Spec(DEFAULT)), io.BytesIO()).results == ()


@pytest.mark.parametrize(
    ("scenario", "plan"),
    [("three-dumps", "switch:1>0"), ("interleaved-drain", "switch:1")],
    ids=["place", "form"],
)
def test_the_command_refuses_a_schedule_where_there_is_none(
    scenario: str, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule for a scenario without one, or a malformed one, ends with one line on stderr."""
    assert main(["check", "--scenario", scenario, "--plan", plan]) == UNUSABLE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_hang_says_which_call_it_was(tmp_path: Path) -> None:
    """The history of a run in which nothing can go on names the call and ends there."""
    at = bench("interleaved-drain", tmp_path, "tests.zoo.broken_races:NotifiesFirst")
    frontier, hung = Frontier(1), []
    while not hung and (cost := frontier.level()) >= 0:
        decisions = frontier.take()
        outcome = run_schedule(at, SwitchPlan(decisions))
        hung += list(outcome.history.of(Hung))
        frontier.extend(decisions, cost, outcome.points)
    common.OPEN.clear()
    assert hung == [Hung("drain")]
    assert not outcome.history.complete


UNSCHEDULED = """
import os

from tests.zoo.thread_queue import ThreadQueueWriter


class Piped(ThreadQueueWriter):
    def _init_dump_executor(self):
        super()._init_dump_executor()
        if "_pipe" not in self.__dict__:
            self._pipe = os.pipe()

    def _work(self, jobs):
        super()._work(jobs)
        os.write(self._pipe[1], b".")

    def _stop(self):
        if self._thread is not None:
            self._queue.put(None)
            os.read(self._pipe[0], 1)
        super()._stop()
"""


def test_a_writer_that_cannot_be_scheduled_is_not_accused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a thread waits in a system call for another one, the report says so and accuses nobody."""
    (tmp_path / "piped.py").write_text(UNSCHEDULED)
    code = main(["check", f"{tmp_path}/piped.py:Piped", "--law", "E8", "--scenario", "interleaved-dumps"])
    assert code == OK
    assert (
        "interleaved-dumps: a thread waits in something that the harness cannot schedule"
        in capsys.readouterr().out
    )


def test_the_report_says_how_many_schedules_there_were() -> None:
    """The report counts schedules by their preemptions, and says what was left out and what could not be scheduled."""
    found = (
        Interleaved("interleaved-drain", "none", Schedules((1, 10, 40))),
        Interleaved("interleaved-dumps", "none", Schedules((2, 20, 30), 7, ("_closed",))),
        Interleaved("interleaved-drains", "none", Schedules(unknown="a thread waits elsewhere")),
    )
    text = "\n".join(as_text(found))
    assert "103 schedules" in text
    assert "7 more" in text
    assert "interleaved-drains: a thread waits elsewhere" in text
    assert [value["left_out"] for value in as_values(found)] == [0, 7, 0]
    assert as_text(()) == []
