"""The trial: every call and operation goes into the history, the disk can be held, and whoever waits is noticed."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fault_injection.batches import canonical, expected_rows, make_batch, read_rows
from fault_injection.history import (
    Ended,
    Final,
    HandedOver,
    Hung,
    Logged,
    Mark,
    Operated,
    Seen,
    Threads,
    Waited,
)
from fault_injection.look import DiskLook, left_open
from fault_injection.mechanisms import disk
from fault_injection.plan import Plan
from fault_injection.runner import Order, run_trial
from fault_injection.subject import Spec, Subject
from fault_injection.targets.base import Batch, Target
from fault_injection.trial import Trial, listening
from fault_injection.watch import asleep

STEP = 7_000_001


class Synchronous(Target):
    """Writes within the call."""

    asynchronous = False

    def dump(self, directory: str, batch: Batch) -> None:
        os.makedirs(directory, exist_ok=True)
        with open(f"{directory}/{batch.step}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(row + "\n" for row in expected_rows(batch))


class Background(Synchronous):
    """Writes each dump on a thread of its own; drain joins them all."""

    asynchronous = True

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def dump(self, directory: str, batch: Batch) -> None:
        thread = threading.Thread(target=super().dump, args=(directory, batch), name=f"writing-{batch.step}")
        self.threads.append(thread)
        thread.start()

    def drain(self, timeout: float | None = None) -> None:
        for thread in self.threads:
            thread.join()


@contextmanager
def trial_of(
    make: Callable[[], Target],
    root: Path,
    plan: str = "none",
    on_hang: Callable[[], None] | None = None,
    older: tuple[str, ...] = (),
) -> Iterator[Trial]:
    """A trial with its faults armed, over complete files of an earlier run."""
    trial = Trial(make, str(root), DiskLook(str(root)), on_hang=on_hang)
    try:
        for name in older:
            trial.older(name, b"{}\n")
        with listening(trial), disk.armed(str(root), Plan.parse(plan), observe=trial.observe) as injector:
            trial.injector = injector
            yield trial
            trial.release()
    finally:
        trial.close()


def of(trial: Trial, kind: type) -> list[object]:
    """The events of one kind."""
    return [event for event in trial.events if isinstance(event, kind)]


def test_calls_and_operations_are_written_down_in_order(tmp_path: Path) -> None:
    """A dump is handed over, does its operations, is seen, and its call ends, in this order."""
    batch = make_batch(0, 0, STEP)
    with trial_of(Synchronous, tmp_path) as trial:
        assert trial.open() is None
        assert trial.dump(batch) is None
        assert trial.drain() is None
        trial.finish()
    kinds = [(e.op.kind if isinstance(e, Operated) else type(e).__name__) for e in trial.events]
    name = f"dump/{STEP}.jsonl"
    assert kinds[:2] == ["Ended", "HandedOver"]
    assert kinds[-4:] == ["Ended", "Ended", "Threads", "Final"]
    assert [k for k in kinds if k[0].islower()] == ["mkdir", "open", "flush", "write", "close"]
    assert of(trial, HandedOver) == [HandedOver(0, STEP, "dump", expected_rows(batch))]
    assert [(e.call, e.dump, e.failure) for e in of(trial, Ended)] == [
        ("open", None, None),
        ("dump", 0, None),
        ("drain", None, None),
    ]
    (final,) = of(trial, Final)
    assert [file for file, _ in final.files] == [name]
    assert read_rows(dict(final.files)[name]) == expected_rows(batch)
    assert all(event.op.caller for event in of(trial, Operated))


def test_what_is_under_a_final_name_is_seen_when_it_changes_and_only_then(tmp_path: Path) -> None:
    """Each look that finds the same notes nothing; a file that is gone is noted too."""
    with trial_of(Synchronous, tmp_path, older=("dump/1.jsonl",)) as trial:
        trial.dump(make_batch(0, 0, STEP))
        trial.observe_now()
        trial.observe_now()
        (tmp_path / "dump" / "1.jsonl").unlink()
        trial.observe_now()
    seen = [
        (name, content if content in {None, b""} else b"...")
        for e in of(trial, Seen)
        for name, content in e.files
    ]
    assert seen == [(f"dump/{STEP}.jsonl", b""), (f"dump/{STEP}.jsonl", b"..."), ("dump/1.jsonl", None)]


def test_a_failure_is_written_down_with_its_strike(tmp_path: Path) -> None:
    """What a call raises is kept as data: the exception, its chain, and the operation at which the layer raised it."""
    with trial_of(Synchronous, tmp_path, "open#1:EACCES") as trial:
        failure = trial.dump(make_batch(0, 0, STEP))
    assert failure is not None
    (struck,) = [e for e in of(trial, Operated) if e.fault]
    assert failure.links[0].strike == struck.number
    assert failure.links[0].frames[-1] == "strike"
    assert failure.links[0].types[0] == "PermissionError"
    assert f"ROOT/dump/{STEP}.jsonl" in failure.words
    assert str(tmp_path) not in failure.words


def test_anything_a_target_raises_is_caught(tmp_path: Path) -> None:
    """Also SystemExit and KeyboardInterrupt of the target end its call and not the trial."""

    class Raises(Synchronous):
        def dump(self, directory: str, batch: Batch) -> None:
            raise errors.pop()

    errors = [SystemExit(3), KeyboardInterrupt()]
    with trial_of(Raises, tmp_path) as trial:
        found = [trial.dump(make_batch(0, i, STEP)) for i in range(2)]
    assert [failure.links[0].types[0] for failure in found] == ["KeyboardInterrupt", "SystemExit"]


def test_the_disk_is_held_for_everybody_but_the_caller(tmp_path: Path) -> None:
    """While the disk is held the caller gets through and a worker does not; afterwards it goes on."""
    with trial_of(Background, tmp_path) as trial:
        with trial.held():
            trial.dump(make_batch(0, 0, STEP))
            os.mkdir(tmp_path / "mine")
            assert trial._hold.await_arrival()
            assert not (tmp_path / "dump").exists()
        trial.drain()
    assert (tmp_path / "dump" / f"{STEP}.jsonl").exists()
    assert of(trial, Waited) == []


def test_a_call_that_waits_for_the_held_disk_is_noticed_and_let_go(tmp_path: Path) -> None:
    """A dump that waits for its own write, behind a held disk, is noted and not left to hang."""

    class Waits(Background):
        def dump(self, directory: str, batch: Batch) -> None:
            super().dump(directory, batch)
            self.threads[-1].join()

    with trial_of(Waits, tmp_path) as trial:
        with trial.held():
            assert trial.dump(make_batch(0, 0, STEP)) is None
        trial.drain()
    assert of(trial, Waited) == [Waited("dump", 0)]
    assert of(trial, Hung) == []


def test_the_caller_at_a_stuck_operation_waits(tmp_path: Path) -> None:
    """A plan that makes an operation of the caller stuck is released at once, and the wait is noted."""
    with trial_of(Synchronous, tmp_path, "write#1:stuck") as trial:
        assert trial.dump(make_batch(0, 0, STEP)) is None
    assert of(trial, Waited) == [Waited("dump", 0)]


def test_a_call_that_never_ends_is_noticed(tmp_path: Path) -> None:
    """When every thread sleeps and nothing holds the disk, the call hangs: that is noted and told."""
    let_go = threading.Event()

    class Hangs(Synchronous):
        def drain(self, timeout: float | None = None) -> None:
            let_go.wait()

    with trial_of(Hangs, tmp_path, on_hang=let_go.set) as trial:
        trial.dump(make_batch(0, 0, STEP))
        trial.drain()
    assert of(trial, Hung) == [Hung("drain")]
    assert trial.events.index(Hung("drain")) < trial.events.index(Ended("drain"))


def test_a_trial_settles_when_the_writer_rests(tmp_path: Path) -> None:
    """Settling returns when the writer has done all it can do: written, or standing at the held disk."""
    with trial_of(Background, tmp_path) as trial:
        trial.dump(make_batch(0, 0, STEP))
        trial.settle()
        assert read_rows((tmp_path / "dump" / f"{STEP}.jsonl").read_bytes())
        with trial.held():
            trial.dump(make_batch(0, 1, STEP + 1))
            trial.settle()
            assert trial._hold.waiting == {trial.target.threads[-1].ident}
        trial.drain()


def test_threads_left_after_a_drain_are_named(tmp_path: Path) -> None:
    """A thread that the writer left asleep is named; one that is ending, or was there before, is not."""
    let_go = threading.Event()

    class Leaks(Background):
        def open(self) -> None:
            self.threads.append(threading.Thread(target=let_go.wait, name="leaked"))
            self.threads[-1].start()

        def drain(self, timeout: float | None = None) -> None:
            pass

    before = threading.Thread(target=let_go.wait, name="before")
    before.start()
    with trial_of(Leaks, tmp_path) as trial:
        trial.open()
        trial.dump(make_batch(0, 0, STEP))
        trial.drain()
        let_go.set()
        for thread in (*trial.target.threads, before):
            thread.join()
        trial.drain()
    assert of(trial, Threads) == [Threads(("leaked",)), Threads(())]


def test_the_number_of_a_dump_is_its_place_in_the_history(tmp_path: Path) -> None:
    """Also when several threads dump at the same time, the n-th dump that is noted has number n."""
    together = threading.Barrier(4)
    with trial_of(Synchronous, tmp_path) as trial:

        def dump(thread: int) -> None:
            together.wait()
            for step in range(5):
                trial.dump(make_batch(0, step, STEP + step, rows=1 + 20 * (thread % 2)), f"dump-{thread}")

        threads = [threading.Thread(target=dump, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [event.dump for event in of(trial, HandedOver)] == list(range(20))
    assert sorted(event.dump for event in of(trial, Ended)) == list(range(20))


def test_a_dump_within_another_call_raises_what_it_raised(tmp_path: Path) -> None:
    """A dump that fit() makes by itself is written down, and what it raises goes on to fit()."""
    error = ValueError("no")

    def fails() -> None:
        raise error

    with trial_of(Synchronous, tmp_path) as trial:
        failure = trial.run("fit", lambda: trial.dump_within(make_batch(0, 0, STEP), fails))
    assert [(e.call, e.dump, str(e.failure)) for e in of(trial, Ended)] == [
        ("dump", 0, "ValueError: no"),
        ("fit", None, "ValueError: no"),
    ]
    assert failure.links[0].serial == of(trial, Ended)[0].failure.links[0].serial


def test_what_the_writer_logs_and_warns_of_is_written_down(tmp_path: Path) -> None:
    """Log records from WARNING on and Python warnings are events, without the name of the trial's directory."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    with trial_of(Synchronous, tmp_path) as trial:
        logging.getLogger("writer").warning("in %s", tmp_path)
        logging.getLogger("writer").info("not this")
        try:
            raise ValueError("cause")
        except ValueError:
            logging.getLogger("writer").exception("failed")
        warnings.warn(f"at {tmp_path}/x", ResourceWarning, stacklevel=1)
    assert of(trial, Logged) == [
        Logged("WARNING", "in ROOT"),
        Logged("ERROR", "failed\nValueError('cause')"),
        Logged("ResourceWarning", "at ROOT/x"),
    ]
    assert root.handlers == handlers


def test_a_new_run_has_a_fresh_writer_with_the_same_options(tmp_path: Path) -> None:
    """A restarted run drives another instance, opened under the options of the first."""
    with trial_of(Background, tmp_path) as trial:
        first = trial.target
        first.warn, first.exit_deadline = True, 0.5
        trial.new_run()
        assert trial.target is not first
        assert (trial.target.warn, trial.target.exit_deadline) == (True, 0.5)
    assert [type(event) for event in trial.events] == [Mark, Ended]


def test_who_sleeps_is_told_from_who_works() -> None:
    """The system says of a waiting thread that it sleeps, of the running one that it does not."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    while asleep(thread) is False:
        pass
    assert asleep(thread) in {True, None}
    assert asleep(threading.current_thread()) in {False, None}
    gate.set()
    thread.join()
    # Python has joined the thread a moment before the system has ended it.
    while asleep(thread) is False:
        pass
    assert asleep(thread) in {True, None}


@pytest.mark.parametrize("plan", ["none", "write#1:ENOSPC", "open#2+:EIO"])
def test_a_trial_leaves_nothing_in_its_scratch_directory(tmp_path: Path, plan: str) -> None:
    """Whatever a trial wrote is gone when its history is there."""
    subject = Subject("w", Background, True, None, frozenset(), frozenset())
    hook, quiet = threading.excepthook, lambda _: None
    threading.excepthook = quiet
    try:
        history = run_trial(Order(Spec("w"), "three-dumps", plan, 0), subject, str(tmp_path))
    finally:
        threading.excepthook = hook
    assert os.listdir(tmp_path) == []
    assert history.complete
    assert bool(history.fired) is (plan != "none")
    assert (history.scenario, history.plan, history.seed) == ("three-dumps", plan, 0)


def test_batches_are_the_same_for_the_same_seed_and_differ_in_every_row() -> None:
    """A trial is repeated by its seed, and no two dumps of a trial can be mistaken for each other."""
    assert make_batch(3, 1, STEP) == make_batch(3, 1, STEP)
    prompts = [row for number in range(20) for row in make_batch(3, number, STEP).inputs]
    assert len(set(prompts)) == len(prompts)
    assert make_batch(3, 1, STEP) != make_batch(4, 1, STEP)
    assert len(make_batch(3, 1, STEP, rows=7).inputs) == 7
    assert len(make_batch(3, 1, STEP, wide=9000).outputs[0]) > 9000


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b"", (), id="empty"),
        pytest.param(b'{"a": 1}\n', ('{"a": 1}',), id="row"),
        pytest.param(b'{"b":2, "a":1.0}\n{}\n', ('{"a": 1.0, "b": 2}', "{}"), id="rows"),
        pytest.param(b'{"a": 1}', None, id="no-newline"),
        pytest.param(b'{"a": 1}\n\n', None, id="empty-line"),
        pytest.param(b"[1]\n", None, id="no-object"),
        pytest.param(b'{"a": \xff}\n', None, id="no-utf-8"),
        pytest.param(b'{"a": 1}\n{"a"\n', None, id="torn"),
    ],
)
def test_the_independent_reader_tells_torn_from_whole(content: bytes, rows: tuple[str, ...] | None) -> None:
    """A file is rows of one JSON object each, all ended by a newline, or it is torn."""
    assert read_rows(content) == rows
    assert canonical({"b": 1, "a": True}) == '{"a": true, "b": 1}'


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list descriptors")
def test_descriptors_below_a_directory_are_counted(tmp_path: Path) -> None:
    """Files and folders below it count, also removed ones and through a link; the folder itself and others do not."""
    root, link = tmp_path / "root", tmp_path / "link"
    (root / "dump").mkdir(parents=True)
    link.symlink_to(root)
    numbers = []
    try:
        for path in (root / "a", root / "dump" / "b", tmp_path / "root.txt", tmp_path / "c"):
            numbers.append(os.open(path, os.O_WRONLY | os.O_CREAT))
        numbers += [os.open(path, os.O_RDONLY) for path in (root, root / "dump")]
        (root / "a").unlink()
        assert [left_open(str(path)) for path in (root, link, tmp_path / "none")] == [3, 3, 0]
        assert left_open(str(tmp_path)) == len(numbers)
    finally:
        for number in numbers:
            os.close(number)
    assert left_open(str(tmp_path)) == 0
