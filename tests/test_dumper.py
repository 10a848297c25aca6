"""The dumper: order, bounds, errors, drain."""

import contextlib
import errno
import gc
import json
import logging
import os
import pickle
import sys
import threading
import traceback
import weakref

import pytest

import verl_dump.dumper
from verl_dump import DrainTimeout, DumpError, DumpErrorGroup, GenerationDumper

WORKER = "verl-dump-writer"
LONG = 60.0  # far beyond what any wait in these tests takes


def batch(mark, n=2):
    return {
        "inputs": [f"{mark}-in{row}" for row in range(n)],
        "outputs": [f"{mark}-out{row}" for row in range(n)],
        "gts": [None] * n,
        "scores": [0.5] * n,
        "extras": {"mark": [mark] * n},
    }


def marks(directory, step):
    """The batches that the file of a step holds, in order."""
    with open(os.path.join(directory, f"{step}.jsonl"), encoding="utf-8") as file:
        return list(dict.fromkeys(json.loads(line)["mark"] for line in file))


def workers():
    return [thread for thread in threading.enumerate() if thread.name == WORKER]


def reached(error):
    """All exceptions that can be reached from one."""
    found, todo = [], [error]
    while todo:
        one = todo.pop()
        if one is not None and one not in found:
            found.append(one)
            todo += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return found


class Disk:
    """The disk as the worker sees it: writes of a step may fail, or wait for the test."""

    def __init__(self, monkeypatch):
        self.entered = threading.Event()
        self.gates = {}
        self.errors = {}
        self.order = []
        self.step = None
        self.real_open, self.real_write = os.open, os.write
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "write", self.write)

    def open(self, path, *args):
        if threading.current_thread().name == WORKER and path.endswith(".tmp"):
            self.step = int(os.path.basename(path).split(".")[1])
            self.order.append(self.step)
        return self.real_open(path, *args)

    def write(self, descriptor, data):
        if threading.current_thread().name == WORKER:
            if self.step in self.gates:
                self.entered.set()
                assert self.gates[self.step].wait(LONG)
            if self.step in self.errors:
                raise self.errors[self.step]
        return self.real_write(descriptor, data)

    def hold(self, *steps):
        for step in steps:
            self.gates[step] = threading.Event()

    def release(self, *steps):
        for step in steps or self.gates:
            self.gates[step].set()

    def fail(self, *steps, code=errno.ENOSPC):
        for step in steps:
            self.errors[step] = OSError(code, os.strerror(code))


@pytest.fixture
def disk(monkeypatch):
    disk = Disk(monkeypatch)
    yield disk
    disk.release()


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "dumps")


@pytest.fixture
def make(disk):
    """Make dumpers; at the end their writes are released and they are drained."""
    made = []

    def make(**options):
        made.append(GenerationDumper(**options))
        return made[-1]

    yield make
    disk.release()
    for dumper in made:
        with contextlib.suppress(DumpError, DumpErrorGroup):
            dumper.drain(LONG)


def settle(dumper):
    """Wait until nothing is pending, without draining."""
    with dumper._changed:
        assert dumper._changed.wait_for(lambda: not dumper._jobs(), LONG)


class Blocked:
    """A dump call in a thread of its own, which waits at the bound."""

    def __init__(self, monkeypatch, dumper, *args, **kwargs):
        self.waiting = threading.Event()
        self.error = None
        real = dumper._changed.wait

        def wait(timeout=None):
            if threading.current_thread() is self.thread:
                self.waiting.set()
            return real(timeout)

        monkeypatch.setattr(dumper._changed, "wait", wait)
        self.thread = threading.Thread(target=self.run, args=(dumper, args, kwargs))
        self.thread.start()
        assert self.waiting.wait(LONG)

    def run(self, dumper, args, kwargs):
        try:
            dumper.dump(*args, **kwargs)
        except BaseException as error:
            self.error = error

    def join(self):
        self.thread.join(LONG)
        assert not self.thread.is_alive()


def test_drained_dump_is_on_disk(make, directory):
    """After drain every row of every dump is in the file of its step, and nothing else is in the directory."""
    dumper = make()
    for step in (1, 2, 3):
        dumper.dump(directory, step, **batch(f"b{step}", n=5))
    dumper.drain()
    assert sorted(os.listdir(directory)) == ["1.jsonl", "2.jsonl", "3.jsonl"]
    with open(os.path.join(directory, "2.jsonl"), encoding="utf-8") as file:
        assert [json.loads(line) for line in file] == [
            {"input": f"b2-in{n}", "output": f"b2-out{n}", "gts": None, "score": 0.5, "step": 2, "mark": "b2"}
            for n in range(5)
        ]


def test_dump_does_not_wait_for_the_disk(make, disk, directory):
    """With the disk stalled a dump returns, and what it handed over may be changed or freed at once."""
    disk.hold(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("first"))
    assert disk.entered.wait(LONG)
    second = batch("second")
    dumper.dump(directory, 2, **second)
    second["inputs"][0] = "changed"
    second["extras"]["mark"][:] = []
    second["extras"]["more"] = [1, 2]
    disk.release()
    dumper.drain()
    assert marks(directory, 1) == ["first"]
    with open(os.path.join(directory, "2.jsonl"), encoding="utf-8") as file:
        first = json.loads(file.readline())
    assert first["input"] == "second-in0"
    assert "more" not in first


def test_lock_is_free_while_writing(make, disk, directory):
    """While a write hangs, what is pending can be asked for."""
    disk.hold(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    assert disk.entered.wait(LONG)
    assert dumper.pending == ((1, f"{directory}/1.jsonl"), (2, f"{directory}/2.jsonl"))
    disk.release()
    dumper.drain()
    assert dumper.pending == ()


def test_order(make, disk, directory):
    """Dumps are written in the order in which they were handed over."""
    disk.hold(9)
    dumper = make()
    for step in (9, 3, 7, 1):
        dumper.dump(directory, step, **batch("x"))
    disk.release()
    dumper.drain()
    assert disk.order == [9, 3, 7, 1]


def test_relative_directory(make, disk, directory, monkeypatch, tmp_path):
    """A relative directory is that of the call, whatever the working directory is when it is written."""
    disk.hold(1)
    dumper = make()
    monkeypatch.chdir(tmp_path)
    dumper.dump("dumps", 1, **batch("a"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    disk.release()
    dumper.drain()
    assert marks(directory, 1) == ["a"]


def test_several_threads(make, directory):
    """Dumps from several threads all arrive, those of one thread in their order."""
    dumper = make(max_pending=3)
    start = threading.Barrier(6)

    def hand_over(thread):
        start.wait(LONG)
        for turn in range(10):
            dumper.dump(directory, turn, **batch(f"{thread}-{turn}"))

    threads = [threading.Thread(target=hand_over, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    dumper.drain()
    for turn in range(10):
        assert sorted(marks(directory, turn)) == [f"{thread}-{turn}" for thread in range(6)]


def test_drain_waits_only_for_what_came_before(make, disk, directory, monkeypatch):
    """A drain does not wait for a dump that another thread hands over meanwhile, nor end its worker."""
    disk.hold(1, 2)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    real = dumper._changed.wait

    def wait(timeout=None):
        if threading.current_thread() is threading.main_thread() and not disk.gates[1].is_set():
            dumper.dump(directory, 2, **batch("b"))
            disk.release(1)
        return real(timeout)

    monkeypatch.setattr(dumper._changed, "wait", wait)
    dumper.drain(LONG)
    assert marks(directory, 1) == ["a"]
    assert [step for step, _ in dumper.pending] == [2]
    disk.release()
    dumper.drain()
    assert marks(directory, 2) == ["b"]


# Errors


def test_failure_is_raised_by_the_next_dump(make, disk, directory):
    """The next dump raises a failure once, and its own batch is accepted and written."""
    disk.fail(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    with pytest.raises(DumpError, match=r"dump of step 1 .* the dump of step 2 .* was accepted") as caught:
        dumper.dump(directory, 2, **batch("b"))
    assert caught.value.accepted
    dumper.dump(directory, 3, **batch("c"))
    dumper.drain()
    dumper.drain()
    assert (marks(directory, 2), marks(directory, 3)) == (["b"], ["c"])


def test_failure_is_raised_by_drain(make, disk, directory):
    """Drain raises a failure once; the dumps before and after it are on disk."""
    disk.fail(2)
    dumper = make()
    for step in (1, 2, 3):
        dumper.dump(directory, step, **batch("x"))
        settle(dumper) if step == 1 else None
    with pytest.raises(DumpError, match=r"step 2") as caught:
        dumper.drain()
    assert "accepted" not in str(caught.value)
    dumper.drain()
    assert sorted(os.listdir(directory)) == ["1.jsonl", "3.jsonl"]
    assert workers() == []


def test_error_says_what_where_and_why(make, disk, directory):
    """The error names step and path and what to do, and keeps type, errno and traceback of the original."""
    disk.fail(7)
    dumper = make()
    dumper.dump(directory, 7, **batch("a"))
    with pytest.raises(DumpError) as caught:
        dumper.drain()
    error = caught.value
    assert str(error) == (
        f"dump of step 7 to {directory}/7.jsonl failed: OSError: [Errno 28] No space left on device; "
        "free space on that disk"
    )
    assert (error.step, error.path, error.errno) == (7, f"{directory}/7.jsonl", errno.ENOSPC)
    assert error.__cause__ is disk.errors[7]
    frames = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]
    assert "publish" in frames


def test_all_failures_are_raised(make, disk, directory):
    """Several failures are raised together, in order, each with its own cause."""
    disk.hold(1)
    disk.fail(1, 3, 4)
    dumper = make()
    for step in (1, 2, 3, 4):
        dumper.dump(directory, step, **batch("x"))
    disk.release()
    with pytest.raises(DumpErrorGroup, match=r"3 dumps failed \(steps 1, 3, 4\)") as caught:
        dumper.drain()
    assert [error.step for error in caught.value.exceptions] == [1, 3, 4]
    assert [error.__cause__ for error in caught.value.exceptions] == [disk.errors[step] for step in (1, 3, 4)]
    dumper.drain()
    assert os.listdir(directory) == ["2.jsonl"]


def test_several_failures_raised_by_a_dump(make, disk, directory):
    """A dump that raises several earlier failures says that its own batch was accepted."""
    disk.hold(1)
    disk.fail(1, 2)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    disk.release()
    settle(dumper)
    with pytest.raises(DumpErrorGroup, match=r"steps 1, 2\); the dump of step 3 .* was accepted"):
        dumper.dump(directory, 3, **batch("c"))
    dumper.drain()
    assert marks(directory, 3) == ["c"]


def test_group_can_be_split(make, disk, directory):
    """A part of a group taken by step is a group of the same type."""
    disk.hold(1)
    disk.fail(1, 2)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    disk.release()
    with pytest.raises(DumpErrorGroup) as caught:
        dumper.drain()
    one, other = caught.value.split(lambda error: getattr(error, "step", None) == 1)
    assert isinstance(one, DumpErrorGroup)
    assert [error.step for error in other.exceptions] == [2]


@pytest.mark.parametrize("kind", [MemoryError, SystemExit, KeyboardInterrupt, AssertionError])
def test_worker_survives_anything(make, disk, directory, kind):
    """Whatever ends a write is reported as the cause, and the next dump is written."""
    disk.errors[1] = kind("boom")
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    assert len(workers()) == 1
    with pytest.raises(DumpError, match=kind.__name__) as caught:
        dumper.dump(directory, 2, **batch("b"))
    assert isinstance(caught.value.__cause__, kind)
    assert caught.value.errno is None
    dumper.drain()
    assert os.listdir(directory) == ["2.jsonl"]


def test_dead_worker_is_replaced(make, disk, directory, monkeypatch):
    """When the worker dies of what hits it between two operations, its job is reported and the others are written."""
    disk.hold(1)
    dumper = make()
    real = dumper._finish

    def die(failure):
        monkeypatch.setattr(dumper, "_finish", real)
        raise SystemExit

    monkeypatch.setattr(dumper, "_finish", die)
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    disk.release()
    with pytest.raises(DumpError, match=r"step 1 .*SystemExit") as caught:
        dumper.drain(LONG)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert (caught.value.step, caught.value.path) == (1, f"{directory}/1.jsonl")
    assert marks(directory, 2) == ["b"]
    assert workers() == []


@pytest.mark.parametrize("call", ["drain", "dump"])
def test_worker_that_ends_without_a_word(make, disk, directory, monkeypatch, call):
    """When the worker is gone without having said so, nobody waits for it and its job is reported."""
    disk.hold(1)
    dumper = make(max_pending=1)

    def die(*args):
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    monkeypatch.setattr(verl_dump.dumper, "_LOOK_SECONDS", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(dumper, "_finish", die)
        patch.setattr(dumper, "_bury", die)
        dumper.dump(directory, 1, **batch("a"))
        (worker,) = workers()
        disk.release()
        worker.join(LONG)
    with pytest.raises(DumpError, match=r"step 1 .* the writer thread died"):
        dumper.drain(LONG) if call == "drain" else dumper.dump(directory, 2, **batch("b"))
    dumper.drain()
    assert dumper.pending == ()


def test_undeleted_file_is_gone_after_drain(make, disk, directory, monkeypatch):
    """A temporary file that could not be removed at once is removed by the end of the drain."""
    real, calls = os.unlink, []

    def unlink(path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError(errno.EIO, "not now")
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    disk.fail(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    assert len(os.listdir(directory)) == 1
    with pytest.raises(DumpError):
        dumper.drain()
    assert os.listdir(directory) == []


def refuse_start(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_dead_worker_without_successor(make, disk, directory, monkeypatch):
    """When no other worker can start, what waits has failed and nobody waits for it."""
    disk.hold(1)
    dumper = make()

    def die(failure):
        refuse_start(monkeypatch)
        raise SystemExit

    monkeypatch.setattr(dumper, "_finish", die)
    for step in (1, 2, 3):
        dumper.dump(directory, step, **batch("x"))
    disk.release()
    with pytest.raises(DumpErrorGroup) as caught:
        dumper.drain(LONG)
    assert [error.step for error in caught.value.exceptions] == [1, 2, 3]
    assert [error.path for error in caught.value.exceptions] == [
        f"{directory}/{step}.jsonl" for step in (1, 2, 3)
    ]
    assert all("can't start new thread" in str(error) for error in caught.value.exceptions[1:])


def test_dead_worker_in_warn_mode(make, disk, directory, monkeypatch, caplog):
    """With on_error="warn" also the dumps that a dead worker leaves are each logged with their step."""
    disk.hold(1)
    dumper = make(on_error="warn")

    def die(failure):
        refuse_start(monkeypatch)
        raise SystemExit

    monkeypatch.setattr(dumper, "_finish", die)
    for step in (1, 2):
        dumper.dump(directory, step, **batch("x"))
    disk.release()
    dumper.drain(LONG)
    assert [getattr(record, "step", None) for record in caplog.records] == [1, 2, None]
    assert caplog.messages[2] == "2 dumps failed since the last drain (steps 1, 2)"


def test_thread_cannot_start(make, directory, monkeypatch):
    """When the thread cannot start the call says that its batch was not accepted, and a later one works."""
    dumper = make()
    with monkeypatch.context() as patch:
        refuse_start(patch)
        with pytest.raises(
            DumpError, match=r"step 1 .* was not accepted: the writer thread cannot start"
        ) as caught:
            dumper.dump(directory, 1, **batch("a"))
        dumper.drain()
    assert (caught.value.step, caught.value.path) == (1, f"{directory}/1.jsonl")
    assert not caught.value.accepted
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert dumper.pending == ()
    dumper.dump(directory, 2, **batch("b"))
    dumper.drain()
    assert os.listdir(directory) == ["2.jsonl"]


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"inputs": ["one"]}, ValueError), ({"extras": {"x": [{1}, {2}]}}, TypeError)],
    ids=["unequal-columns", "unknown-type"],
)
def test_bad_batch_is_refused(make, disk, directory, change, kind):
    """A batch that cannot be written is refused at the call, which says so; an earlier failure is not lost."""
    disk.fail(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    with pytest.raises(kind, match="dump of step 2 was not accepted: column"):
        dumper.dump(directory, 2, **{**batch("b"), **change})
    with pytest.raises(DumpError, match="step 1"):
        dumper.drain()
    assert os.listdir(directory) == []


def test_policies_reach_the_file(make, directory):
    """What a dumper declares about values and columns is what becomes of them."""
    dumper = make(non_finite="string", unknown="repr", ragged="pad", collide="rename", scalar="repeat")
    extras = {"score": [float("nan"), {1}], "short": [1], "mean": 0.5}
    dumper.dump(directory, 1, **{**batch("a"), "extras": extras})
    dumper.drain()
    with open(os.path.join(directory, "1.jsonl"), encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    assert [(row["extra_score"], row["short"], row["mean"]) for row in found] == [
        ("NaN", 1, 0.5),
        ("{1}", None, 0.5),
    ]


def test_warn_counts_bad_batches(make, directory, caplog):
    """With on_error="warn" a batch that cannot be written is logged with step, path and reason, and counted."""
    dumper = make(on_error="warn")
    dumper.dump(directory, 1, **{**batch("a"), "extras": {"x": [{1}, 2]}})
    dumper.dump(directory, 2, **batch("b"))
    assert dumper.failed == 1
    path = os.path.join(directory, "1.jsonl")
    reason = "column 'x', row 0: a set cannot be written"
    assert caplog.messages == [f"dump of step 1 to {path} was not accepted: {reason}"]
    dumper.drain()
    assert os.listdir(directory) == ["2.jsonl"]


def test_failure_does_not_hold_the_batch(make, disk, directory, monkeypatch):
    """A failure that was not raised yet keeps its traceback but not the batch."""
    taken = []
    real = verl_dump.dumper.snapshot

    def snapshot(*args, **kwargs):
        result = real(*args, **kwargs)
        taken.append(weakref.ref(result))
        return result

    monkeypatch.setattr(verl_dump.dumper, "snapshot", snapshot)
    disk.fail(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    gc.collect()
    assert [ref() for ref in taken] == [None]
    assert dumper.failed == 1


def test_errors_can_be_pickled():
    """The errors survive the way out of another process with all that they say."""

    def sent(error):
        return pickle.loads(pickle.dumps(error))  # noqa: S301

    error = sent(DumpError("message", 3, "/d/3.jsonl", errno.EIO, False))
    assert (str(error), error.step, error.path, error.errno, error.accepted) == (
        *("message", 3, "/d/3.jsonl"),
        *(errno.EIO, False),
    )
    assert [one.step for one in sent(DumpErrorGroup("two", [error, error])).exceptions] == [3, 3]
    timeout = DrainTimeout(2.0, [(1, "p")], [error])
    assert sent(timeout).pending == ((1, "p"),)
    assert str(sent(timeout)) == str(timeout)


# Bounds


def test_blocks_at_the_number(make, disk, directory, monkeypatch):
    """At the bound in number a dump waits until there is room, and is then written in its turn."""
    disk.hold(1)
    dumper = make(max_pending=2)
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    blocked = Blocked(monkeypatch, dumper, directory, 3, **batch("c"))
    assert [step for step, _ in dumper.pending] == [1, 2]
    disk.release()
    blocked.join()
    dumper.drain()
    assert blocked.error is None
    assert disk.order == [1, 2, 3]


def test_blocks_at_the_bytes(make, disk, directory, monkeypatch):
    """At the bound in bytes a dump waits until what is before it is written."""
    disk.hold(1)
    dumper = make(max_pending_bytes=150_000)
    dumper.dump(directory, 1, **{**batch("a"), "inputs": ["x" * 50_000] * 2})
    blocked = Blocked(monkeypatch, dumper, directory, 2, **{**batch("b"), "inputs": ["y" * 50_000] * 2})
    assert [step for step, _ in dumper.pending] == [1]
    disk.release()
    blocked.join()
    dumper.drain()
    assert disk.order == [1, 2]


def test_single_large_dump(make, disk, directory):
    """A dump larger than the bound in bytes is accepted when nothing waits."""
    dumper = make(max_pending_bytes=1, on_full="error")
    dumper.dump(directory, 1, **batch("a"))
    dumper.drain()
    assert marks(directory, 1) == ["a"]


def test_refuses_at_the_bound(make, disk, directory):
    """With on_full="error" the dump at the bound is refused and says so; failures stay to be raised later."""
    disk.hold(2)
    disk.fail(1)
    dumper = make(max_pending=1, on_full="error")
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    with pytest.raises(DumpError, match="step 1"):
        dumper.dump(directory, 2, **batch("b"))
    with pytest.raises(
        DumpError, match=r"step 3 .* was not accepted: the queue is full \(1 dump\)"
    ) as caught:
        dumper.dump(directory, 3, **batch("c"))
    assert (caught.value.step, caught.value.path) == (3, f"{directory}/3.jsonl")
    assert not caught.value.accepted
    disk.release()
    dumper.drain()
    assert os.listdir(directory) == ["2.jsonl"]


def test_blocked_dump_outlives_the_worker(make, disk, directory, monkeypatch):
    """A dump that waits at the bound goes through when the worker dies."""
    disk.hold(1)
    dumper = make(max_pending=1)
    real = dumper._finish

    def die(failure):
        monkeypatch.setattr(dumper, "_finish", real)
        raise SystemExit

    monkeypatch.setattr(dumper, "_finish", die)
    dumper.dump(directory, 1, **batch("a"))
    blocked = Blocked(monkeypatch, dumper, directory, 2, **batch("b"))
    disk.release()
    blocked.join()
    assert isinstance(blocked.error, DumpError)
    assert blocked.error.step == 1
    dumper.drain()
    assert marks(directory, 2) == ["b"]


def interrupt_wait(monkeypatch, dumper):
    def wait(timeout=None):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return real(timeout)

    real = dumper._changed.wait
    monkeypatch.setattr(dumper._changed, "wait", wait)


def test_interrupt_at_the_bound(make, disk, directory, monkeypatch):
    """A dump interrupted while it waits was not accepted, and all else is as before."""
    disk.hold(1)
    dumper = make(max_pending=1)
    dumper.dump(directory, 1, **batch("a"))
    with monkeypatch.context() as patch:
        interrupt_wait(patch, dumper)
        with pytest.raises(KeyboardInterrupt):
            dumper.dump(directory, 2, **batch("b"))
    assert [step for step, _ in dumper.pending] == [1]
    disk.release()
    dumper.dump(directory, 3, **batch("c"))
    dumper.drain()
    assert sorted(os.listdir(directory)) == ["1.jsonl", "3.jsonl"]


def test_interrupt_of_drain(make, disk, directory, monkeypatch):
    """A drain that was interrupted can be done again, and no failure is lost by it."""
    disk.hold(1)
    disk.fail(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    with monkeypatch.context() as patch:
        interrupt_wait(patch, dumper)
        with pytest.raises(KeyboardInterrupt):
            dumper.drain()
    disk.release()
    with pytest.raises(DumpError, match="step 1"):
        dumper.drain()


@pytest.mark.parametrize(
    "options",
    [
        {"on_full": "drop"},
        {"same_step": "append"},
        {"on_error": "ignore"},
        {"max_pending": 0},
        {"max_pending_bytes": 0},
        {"exit_timeout": -1.0},
    ],
    ids=lambda options: next(iter(options)),
)
def test_wrong_options(options):
    """An option that has no meaning is refused with its name when the dumper is made."""
    with pytest.raises(ValueError, match=next(iter(options))):
        GenerationDumper(**options)


# Drain


def test_second_drain_is_a_no_op(make, directory):
    """After drain the thread has ended and nothing is pending; a second drain does nothing."""
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    assert len(workers()) == 1
    dumper.drain()
    assert workers() == []
    assert dumper.pending == ()
    dumper.drain()
    dumper.close()


def test_thread_starts_lazily(make):
    """A dumper that has nothing to write has no thread."""
    dumper = make()
    assert workers() == []
    dumper.drain()


def test_usable_after_drain_and_close(make, directory):
    """A dump after drain or close works."""
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.drain()
    dumper.dump(directory, 2, **batch("b"))
    dumper.close()
    dumper.dump(directory, 3, **batch("c"))
    dumper.drain()
    assert sorted(os.listdir(directory)) == ["1.jsonl", "2.jsonl", "3.jsonl"]


@pytest.mark.parametrize("timeout", [0.0, 0.01], ids=["at-once", "soon"])
def test_deadline(make, disk, directory, timeout):
    """Past its deadline a drain names the steps that are not on disk; a later drain goes on."""
    disk.hold(1)
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    with pytest.raises(
        DrainTimeout, match=r"2 dumps not on disk after .* step 1 \(.*\), step 2 \("
    ) as caught:
        dumper.drain(timeout)
    assert caught.value.pending == ((1, f"{directory}/1.jsonl"), (2, f"{directory}/2.jsonl"))
    assert caught.value.failures == ()
    disk.release()
    dumper.drain()
    assert sorted(os.listdir(directory)) == ["1.jsonl", "2.jsonl"]


def test_deadline_with_failures(make, disk, directory):
    """Failures found before the deadline can be reached from the timeout, and are not raised again."""
    disk.hold(1, 3)
    disk.fail(1, 2)
    dumper = make()
    for step in (1, 2, 3):
        dumper.dump(directory, step, **batch("x"))
    disk.release(1)
    with dumper._changed:
        assert dumper._changed.wait_for(lambda: dumper.failed == 2, LONG)
    with pytest.raises(DrainTimeout, match="2 dumps failed besides") as caught:
        dumper.drain(0)
    assert [failure.step for failure in caught.value.failures] == [1, 2]
    assert {disk.errors[1], disk.errors[2]} <= set(reached(caught.value))
    disk.release()
    dumper.drain()


def test_deadline_not_reached(make, directory):
    """A drain in time raises nothing."""
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.drain(LONG)
    assert marks(directory, 1) == ["a"]


# One step twice


def test_same_step_is_merged(make, disk, directory, tmp_path):
    """Two dumps of a step in one run are both in its file, in order, also across a drain and through a link."""
    (tmp_path / "dumps").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "dumps")
    (tmp_path / "dumps" / "1.jsonl").write_text("of an older run\n")
    dumper = make()
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 1, **batch("b"))
    dumper.drain()
    dumper.dump(tmp_path / "link", 1, **batch("c"))
    dumper.drain()
    assert marks(directory, 1) == ["a", "b", "c"]


def test_same_step_replaces(make, directory):
    """With same_step="replace" the later dump stands."""
    dumper = make(same_step="replace")
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 1, **batch("b"))
    dumper.drain()
    assert marks(directory, 1) == ["b"]


def test_same_step_is_an_error(make, directory):
    """With same_step="error" the later dump is raised and the first one stands."""
    dumper = make(same_step="error")
    dumper.dump(directory, 1, **batch("a"))
    settle(dumper)
    dumper.dump(directory, 1, **batch("b"))
    with pytest.raises(DumpError, match="this run has dumped the step already") as caught:
        dumper.drain()
    assert caught.value.errno == errno.EEXIST
    assert marks(directory, 1) == ["a"]


def test_same_step_after_failure(make, disk, directory):
    """After a dump of a step has failed, the step can be dumped again in any mode."""
    disk.fail(1)
    dumper = make(same_step="error")
    dumper.dump(directory, 1, **batch("a"))
    with pytest.raises(DumpError):
        dumper.drain()
    disk.errors.clear()
    dumper.dump(directory, 1, **batch("b"))
    dumper.drain()
    assert marks(directory, 1) == ["b"]


# Warn


def test_warn(make, disk, directory, caplog):
    """With on_error="warn" nothing is raised; each failure is logged at once and all are summed up at drain."""
    caplog.set_level(logging.ERROR, "verl_dump")
    disk.fail(1, 3)
    dumper = make(on_error="warn")
    for step in (1, 2, 3):
        dumper.dump(directory, step, **batch("x"))
        settle(dumper)
    assert dumper.failed == 2
    assert [record.step for record in caplog.records] == [1, 3]
    assert (
        f"dump of step 1 to {directory}/1.jsonl failed: OSError: [Errno 28]" in caplog.records[0].getMessage()
    )
    assert caplog.records[0].exc_info[1] is disk.errors[1]
    dumper.drain()
    assert caplog.messages[2] == "2 dumps failed since the last drain (steps 1, 3)"
    assert dumper.failed == 0
    dumper.drain()
    assert len(caplog.records) == 3
    assert os.listdir(directory) == ["2.jsonl"]


def test_warn_counts_refused_dumps(make, disk, directory, caplog):
    """With on_error="warn" a dump that is not accepted is logged and counted like a failed one."""
    disk.hold(1)
    dumper = make(on_error="warn", on_full="error", max_pending=1)
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    assert dumper.failed == 1
    assert "step 2" in caplog.text
    assert "was not accepted" in caplog.text
    disk.release()
    dumper.drain()


def test_warn_survives_a_broken_log(make, disk, directory, monkeypatch):
    """A log that raises does not stop the dumps."""

    class Broken(logging.Handler):
        def handle(self, record):
            raise OSError("log is gone")

    monkeypatch.setattr(logging.getLogger("verl_dump"), "handlers", [Broken()])
    disk.fail(1)
    dumper = make(on_error="warn")
    dumper.dump(directory, 1, **batch("a"))
    dumper.dump(directory, 2, **batch("b"))
    settle(dumper)
    assert dumper.failed == 1
    assert marks(directory, 2) == ["b"]
    monkeypatch.undo()
    dumper.drain()


# As a context manager


def test_block_drains(make, directory):
    """A block that ends well has drained."""
    with make() as dumper:
        dumper.dump(directory, 1, **batch("a"))
    assert marks(directory, 1) == ["a"]
    assert workers() == []


def test_block_raises_failures(make, disk, directory):
    """A block that ends well raises what failed."""
    disk.fail(1)
    with pytest.raises(DumpError, match="step 1"), make() as dumper:
        dumper.dump(directory, 1, **batch("a"))


def chain(error):
    links = []
    while error is not None:
        assert error not in links, "a circle"
        links.append(error)
        error = error.__context__
    return links


def test_error_of_the_block_stays_primary(make, disk, directory):
    """An exception in the block propagates as it is, with the failed dump as note, attribute and last context."""
    disk.hold(1)
    disk.fail(1)
    with pytest.raises(ZeroDivisionError) as caught, make() as dumper:
        dumper.dump(directory, 1, **batch("a"))
        dumper.dump(directory, 2, **batch("b"))
        disk.release()
        try:
            raise KeyError("inner")
        except KeyError:
            raise ZeroDivisionError("outer") from None
    primary = caught.value
    assert primary.__cause__ is None
    (failure,) = primary.dump_failures
    assert [type(link) for link in chain(primary)] == [ZeroDivisionError, KeyError, DumpError]
    assert chain(primary)[-1] is failure
    assert failure.__cause__ is disk.errors[1]
    (note,) = primary.__notes__
    assert f"dump of step 1 to {directory}/1.jsonl" in note
    assert "[Errno 28]" in note
    assert os.listdir(directory) == ["2.jsonl"]
    if sys.version_info >= (3, 11):
        assert note in "".join(traceback.format_exception(primary))


def test_several_failures_are_attached(make, disk, directory):
    """Each of several failures has its note and can be reached from the primary exception."""
    disk.hold(1)
    disk.fail(1, 2)
    with pytest.raises(KeyboardInterrupt) as caught, make() as dumper:
        dumper.dump(directory, 1, **batch("a"))
        dumper.dump(directory, 2, **batch("b"))
        disk.release()
        raise KeyboardInterrupt
    assert [f"step {step} " in note for step, note in enumerate(caught.value.__notes__, 1)] == [True, True]
    assert {disk.errors[1], disk.errors[2]} <= set(reached(caught.value))


def test_no_failure_adds_nothing(make, directory):
    """An exception in a block without failed dumps is as it would be without the dumper."""
    with pytest.raises(ZeroDivisionError) as caught, make() as dumper:
        dumper.dump(directory, 1, **batch("a"))
        raise ZeroDivisionError
    assert caught.value.__context__ is None
    assert not hasattr(caught.value, "__notes__")
    assert not hasattr(caught.value, "dump_failures")


def test_stuck_write_lets_the_exception_through(make, disk, directory):
    """A stuck write holds an exception for exit_timeout only, and the note names the step not on disk."""
    disk.hold(1)
    with pytest.raises(ZeroDivisionError) as caught, make(exit_timeout=0.01) as dumper:
        dumper.dump(directory, 1, **batch("a"))
        assert disk.entered.wait(LONG)
        raise ZeroDivisionError
    assert "not on disk after 0.01 s: step 1" in caught.value.__notes__[0]
    assert isinstance(caught.value.dump_failures[0], DrainTimeout)


def test_failed_dump_that_ends_the_block(make, disk, directory):
    """When a failed dump ends the block, what fails later is attached to it."""
    disk.fail(1, 2)
    with pytest.raises(DumpError, match="step 1") as caught, make() as dumper:
        dumper.dump(directory, 1, **batch("a"))
        settle(dumper)
        dumper.dump(directory, 2, **batch("b"))
    assert [failure.step for failure in caught.value.dump_failures] == [2]
    assert [link.step for link in chain(caught.value)] == [1, 2]


def test_two_blocks(make, disk, directory):
    """The failures of two dumpers are both attached to the exception that leaves their blocks."""
    disk.hold(1)
    disk.fail(1, 2)
    with pytest.raises(ZeroDivisionError) as caught, make() as outer, make() as inner:
        outer.dump(directory, 1, **batch("a"))
        inner.dump(directory, 2, **batch("b"))
        disk.release()
        raise ZeroDivisionError
    assert [failure.step for failure in caught.value.dump_failures] == [2, 1]
    assert [getattr(link, "step", None) for link in chain(caught.value)] == [None, 2, 1]
    assert len(caught.value.__notes__) == 2


def test_circular_chain(make, disk, directory):
    """A context chain that is a circle already is walked once, and notes and attribute are there."""
    disk.hold(1)
    disk.fail(1)
    one, other = ValueError("one"), ValueError("other")
    with pytest.raises(ValueError, match="one") as caught, make() as dumper:
        dumper.dump(directory, 1, **batch("a"))
        disk.release()
        one.__context__, other.__context__ = other, one
        raise one
    assert caught.value is one
    assert [failure.step for failure in one.dump_failures] == [1]
    one.__context__ = None
