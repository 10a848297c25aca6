"""The dumper at its edges: what is told, to whom, and what is true at every instant."""

import collections
import errno
import logging
import os
import threading
import time

import pytest

from verl_dump import DrainTimeout, DumpError, GenerationDumper, exits
from verl_dump.encoding import snapshot

WORKER = "verl-dump-writer"
LONG = 60.0  # far beyond what any wait in these tests takes


def batch(n=1):
    return {"inputs": ["q"] * n, "outputs": ["a"] * n, "scores": [1.0] * n}


@pytest.fixture
def disk(monkeypatch):
    """Let writes of the worker wait for `gate`, and fail with `error`."""

    class Disk:
        gate = threading.Event()
        entered = threading.Event()
        error = None

    disk = Disk()
    disk.gate.set()
    real = os.write

    def write(descriptor, data):
        if threading.current_thread().name == WORKER:
            disk.entered.set()
            assert disk.gate.wait(LONG)
            if disk.error is not None:
                raise disk.error
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    yield disk
    disk.gate.set()


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "dumps")


def full():
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("name", "value"), [("on_full", "drop"), ("same_step", "append"), ("on_error", "ignore")]
)
def test_wrong_option_is_named(name, value):
    """The error of a wrong option names it, and the value that it does not know."""
    with pytest.raises(ValueError, match=f"^{name} must be one of .*, not '{value}'$"):
        GenerationDumper(**{name: value})


def test_no_patience_at_the_exit():
    """Zero seconds at the end of the process are a choice that may be made, less than none are not."""
    GenerationDumper(exit_timeout=0)
    with pytest.raises(ValueError, match="exit_timeout"):
        GenerationDumper(exit_timeout=-0.001)


def test_never_looks_shut_down(directory):
    """To verl's `fit()`, which makes a new executor where the old one is shut down, a dumper never is."""
    dumper = GenerationDumper()
    assert not dumper._shutdown
    dumper.dump(directory, 1, **batch())
    dumper.close()
    assert not dumper._shutdown


def test_unused_or_drained_dumper_has_nothing_to_say_at_the_exit(directory):
    """A process that ends with a dumper that holds nothing, whether it was ever given a dump or not, ends in silence."""
    dumper = GenerationDumper()
    assert dumper.at_exit(time.monotonic()) == []
    dumper.dump(directory, 1, **batch())
    dumper.drain()
    assert dumper.at_exit(time.monotonic()) == []


def test_exit_asks_every_dumper(directory, capsys):
    """At the end of the process each dumper is drained, also one that the program has let go of, and its dumps counted."""
    dumper = GenerationDumper()
    dumper.dump(directory, 0, **batch())
    dumper.drain()
    for step in (1, 2, 3):
        dumper.dump(directory, step, **batch())
    del dumper
    exits._at_exit()
    assert sorted(os.listdir(directory)) == [f"{step}.jsonl" for step in range(4)]
    assert "verl_dump: the process ended without drain(): 3 written, 0 failed" in capsys.readouterr().err


def test_interrupted_exit_tells_what_it_knows(directory, disk, monkeypatch):
    """An interrupt of the drain at the exit ends it, and what failed and what is not on disk is told all the same."""
    dumper = GenerationDumper(on_error="warn", exit_timeout=LONG)
    dumper.dump(directory, 1, **{**batch(), "scores": []})
    disk.gate.clear()
    dumper.dump(directory, 2, **batch())

    owned = []

    def interrupt(_):
        raise KeyboardInterrupt

    def jobs():
        owned.append(dumper._changed._is_owned())
        return real()

    real = dumper._jobs
    with monkeypatch.context() as patch:
        patch.setattr(dumper, "_drain", interrupt)
        patch.setattr(dumper, "_jobs", jobs)
        first, *rest = dumper.at_exit(time.monotonic())
    assert owned == [True]
    assert "0 written, 1 failed, 1 not on disk" in first
    assert [f"step {step} " in line for step, line in enumerate(rest, 1)] == [True, True]
    disk.gate.set()
    dumper.drain(LONG)


@pytest.mark.parametrize(("timeout", "waits"), [(None, None), (0, 0.0)], ids=["no-deadline", "deadline"])
def test_deadline_holds_for_the_end_of_the_worker(directory, monkeypatch, timeout, waits):
    """A drain whose dumps are all on disk waits for its thread to end, but not past the deadline."""
    dumper = GenerationDumper()
    dumper.dump(directory, 1, **batch())
    worker = dumper._thread
    with dumper._changed:
        assert dumper._changed.wait_for(lambda: not dumper._jobs(), LONG)
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(worker, "join", asked.append)
        dumper.drain(timeout)
    assert asked == [waits]
    worker.join(LONG)


def test_exit_counts_from_nothing(directory):
    """What was refused before anything was written is one failure and no file at the end of the process."""
    dumper = GenerationDumper(on_error="warn")
    dumper.dump(directory, 1, **{**batch(), "scores": [1.0, 2.0]})
    first, *rest = dumper.at_exit(time.monotonic())
    assert "0 written, 1 failed, 0 not on disk" in first
    assert len(rest) == 1


def test_late_at_the_exit_waits_for_nothing(directory, disk, monkeypatch):
    """A dumper that comes to its turn at the exit when the time is over does not wait any more."""
    dumper = GenerationDumper(exit_timeout=5)
    disk.gate.clear()
    dumper.dump(directory, 1, **batch())
    assert disk.entered.wait(LONG)
    waits = []
    with monkeypatch.context() as patch:
        patch.setattr(dumper._changed, "wait", waits.append)
        lines = dumper.at_exit(time.monotonic() - 6)
    assert waits == []
    assert "1 not on disk" in lines[0]
    disk.gate.set()
    dumper.drain(LONG)


def test_pending_until_on_disk(directory, disk):
    """Between two dumps of the worker, too, what is not on disk is seen to be pending."""
    dumper = GenerationDumper()
    popped, asked, go_on = threading.Event(), threading.Event(), threading.Event()
    seen = []

    class Lock(threading.Condition):
        def __enter__(self):
            if threading.current_thread() is reader:
                asked.set()
            return super().__enter__()

    class Queue(collections.deque):
        def popleft(self):
            job = super().popleft()
            popped.set()
            assert go_on.wait(LONG)
            return job

    def read():
        seen.append(dumper.pending)
        asked.set()

    reader = threading.Thread(target=read)
    dumper._changed, dumper._queue = Lock(), Queue()
    disk.gate.clear()
    dumper.dump(directory, 1, **batch())
    assert popped.wait(LONG)
    reader.start()
    assert asked.wait(LONG)
    go_on.set()
    reader.join(LONG)
    assert seen == [((1, os.path.join(directory, "1.jsonl")),)]
    disk.gate.set()
    dumper.drain(LONG)


def test_the_bound_in_bytes_can_be_reached(directory, disk):
    """Dumps that hold just as many bytes as may wait are accepted, and then no other one is."""
    dumper = GenerationDumper(max_pending_bytes=2 * snapshot(1, **batch()).size, on_full="error")
    disk.gate.clear()
    for step in (1, 2):
        dumper.dump(directory, step, **batch())
    with pytest.raises(DumpError, match=r"the queue is full \(2 dumps\)"):
        dumper.dump(directory, 3, **batch())
    disk.gate.set()
    dumper.drain(LONG)


def test_the_thread_does_not_hold_the_process(directory):
    """The interpreter does not wait for the thread that writes: how long it may take is the exit timeout's to say."""
    dumper = GenerationDumper()
    dumper.dump(directory, 1, **batch())
    assert [thread.daemon for thread in threading.enumerate() if thread.name == WORKER] == [True]
    dumper.drain()


@pytest.mark.parametrize("on_error", ["raise", "warn"])
def test_failures_are_noted_one_at_a_time(directory, disk, monkeypatch, on_error):
    """Whoever notes or takes failures has the lock, so that none is lost to another who does at that instant."""
    dumper = GenerationDumper(on_error=on_error)
    owned = []

    class Failures(list):
        def append(self, failure):
            owned.append(dumper._changed._is_owned())
            super().append(failure)

    def take():
        owned.append(dumper._changed._is_owned())
        return real()

    real = dumper._take_failures
    disk.error = full()
    disk.gate.clear()
    dumper.dump(directory, 1, **batch())
    dumper._failures = Failures()
    monkeypatch.setattr(dumper, "_take_failures", take)
    if on_error == "warn":
        dumper.dump(directory, 2, **{**batch(), "scores": []})
    disk.gate.set()
    with dumper._changed:
        assert dumper._changed.wait_for(lambda: not dumper._jobs(), LONG)
    if on_error == "raise":
        with pytest.raises(DumpError):
            dumper.drain(LONG)
    dumper.drain(LONG)
    assert owned == [True] * 3


def test_refusal_is_logged_once_with_its_traceback(directory, caplog):
    """In warn mode the log says once that a batch was not accepted and why, and shows where that was found."""
    dumper = GenerationDumper(on_error="warn")
    with caplog.at_level(logging.ERROR, "verl_dump"):
        dumper.dump(directory, 7, **{**batch(), "scores": [1.0, 2.0]})
    (record,) = caplog.records
    assert record.getMessage().count("was not accepted") == 1
    assert "columns differ in length" in record.getMessage()
    assert isinstance(record.exc_info[1], ValueError)
    assert (record.step, record.name) == (7, "verl_dump")
    dumper.drain()


def test_full_queue_is_logged_as_it_is(directory, disk, caplog):
    """In warn mode a dump for which the queue has no room is told of in the words of the queue."""
    dumper = GenerationDumper(on_error="warn", on_full="error", max_pending=1)
    disk.gate.clear()
    dumper.dump(directory, 1, **batch())
    with caplog.at_level(logging.ERROR, "verl_dump"):
        dumper.dump(directory, 2, **batch())
    (record,) = caplog.records
    assert record.getMessage().count("was not accepted") == 1
    assert "the queue is full (1 dump)" in record.getMessage()
    disk.gate.set()
    dumper.drain(LONG)


def test_deadline_in_warn_mode(directory, disk, caplog):
    """In warn mode a drain that is late raises for what is not on disk, and logs what has failed."""
    dumper = GenerationDumper(on_error="warn")
    dumper.dump(directory, 1, **{**batch(), "scores": []})
    disk.gate.clear()
    dumper.dump(directory, 2, **batch())
    with caplog.at_level(logging.ERROR, "verl_dump"), pytest.raises(DrainTimeout) as caught:
        dumper.drain(0)
    assert (caught.value.timeout, caught.value.failures, caught.value.__cause__) == (0, (), None)
    assert "1 dump failed since the last drain (steps 1)" in caplog.text
    disk.gate.set()
    dumper.drain(LONG)


def test_close_raises_what_failed(directory, disk):
    """To close a dumper is to drain it: what failed is raised."""
    dumper = GenerationDumper()
    disk.error = full()
    dumper.dump(directory, 1, **batch())
    with pytest.raises(DumpError, match="step 1"):
        dumper.close()


def test_exit_logs_what_it_attaches(directory, disk, caplog):
    """What is attached to an exit, of which the interpreter shows nothing, is logged word for word."""
    disk.error = full()
    with caplog.at_level(logging.ERROR, "verl_dump"), pytest.raises(SystemExit) as caught:
        with GenerationDumper() as dumper:
            dumper.dump(directory, 1, **batch())
            raise SystemExit(3)
    assert [record.getMessage() for record in caplog.records] == caught.value.__notes__
    assert len(caught.value.__notes__) == 1


def test_without_a_bound_of_its_own_64_dumps_wait(directory, disk):
    """By default so many dumps are pending as the documentation says, and the next one meets the bound."""
    dumper = GenerationDumper(fsync=False, on_full="error")
    disk.gate.clear()
    for step in range(64):
        dumper.dump(directory, step, **batch())
    with pytest.raises(DumpError, match=r"the queue is full \(64 dumps\)"):
        dumper.dump(directory, 64, **batch())
    disk.gate.set()
    dumper.drain(LONG)


def test_by_default_files_are_synced(directory, monkeypatch):
    """A writer that was given no options syncs each file before it gets its name, and one that was told not to does not."""
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor)))
    for options, some in (({"fsync": False}, False), ({}, True)):
        dumper = GenerationDumper(**options)
        dumper.dump(directory, 1, **batch())
        dumper.drain(LONG)
        assert bool(synced) is some
