"""The dumper's thread: what it holds while it waits, and what its death costs."""

import contextlib
import os
import threading
import weakref

import pytest

import verl_dump.dumper
from verl_dump import DumpError, GenerationDumper

WORKER = "verl-dump-writer"
LONG = 60.0  # far beyond what any wait in these tests takes


def batch():
    return {"inputs": ["q"], "outputs": ["a"], "scores": [1.0]}


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "dumps")


def test_death_of_the_worker_is_told_at_once(directory, monkeypatch):
    """Whoever waits for a worker that dies is told by it, and has not to look."""
    dumper = GenerationDumper()
    waits, gate = [], threading.Event()
    real = dumper._changed.wait

    def wait(timeout=None):
        if threading.current_thread() is not threading.main_thread():
            return real(timeout)
        gate.set()  # the worker cannot go on before the lock is given up
        waits.append(real(timeout))
        return waits[-1]

    def die(_):
        assert gate.wait(LONG)
        raise SystemExit

    monkeypatch.setattr(dumper._changed, "wait", wait)
    monkeypatch.setattr(dumper, "_finish", die)
    dumper.dump(directory, 1, **batch())
    with pytest.raises(DumpError, match="step 1") as caught:
        dumper.drain(LONG)
    assert waits == [True]
    assert (caught.value.step, caught.value.path) == (1, os.path.join(directory, "1.jsonl"))
    assert isinstance(caught.value.__cause__, SystemExit)


@pytest.mark.parametrize("lives", [1, 2], ids=["before-its-first-dump", "after-its-first-dump"])
def test_worker_that_dies_idle(directory, monkeypatch, lives):
    """A worker that dies with nothing in hand costs no dump: its error is shown, and the next one writes what waits."""
    dumper = GenerationDumper()
    real, asked, shown, error = dumper._next_job, [], [], RuntimeError("dead")

    def next_job():
        asked.append(True)
        if len(asked) == lives:
            raise error
        return real()

    monkeypatch.setattr(dumper, "_next_job", next_job)
    # The worker reports its own death; nobody has to look for it.
    monkeypatch.setattr(threading, "excepthook", lambda args: shown.append(args.exc_value))
    first = None
    for step in (1, 2):
        dumper.dump(directory, step, **batch())
        first = first or dumper._thread
        if lives == 2 and step == 1:
            first.join(LONG)
    dumper.drain(LONG)
    first.join(LONG)
    assert sorted(os.listdir(directory)) == ["1.jsonl", "2.jsonl"]
    assert shown == [error]


def test_what_cannot_be_cleared_up_is_no_matter(directory, monkeypatch):
    """A worker that cannot clear up at its end ends all the same, in silence, and what it wrote is there."""
    dumper = GenerationDumper()

    def tidy():
        raise MemoryError

    monkeypatch.setattr(dumper._publisher, "_prepare", lambda folder: os.makedirs(folder))
    monkeypatch.setattr(dumper._publisher, "tidy", tidy)
    dumper.dump(directory, 1, **batch())
    dumper.drain(LONG)
    assert os.listdir(directory) == ["1.jsonl"]


@pytest.mark.parametrize("fails", [False, True], ids=["written", "failed"])
def test_what_is_done_is_not_kept(directory, tmp_path, monkeypatch, fails):
    """While the worker waits for the next dump nothing holds the batch of the last one, and a failure does not either."""
    taken = []
    real = verl_dump.dumper.snapshot

    def taking(*args, **kwargs):
        result = real(*args, **kwargs)
        taken.append(weakref.ref(result))
        return result

    monkeypatch.setattr(verl_dump.dumper, "snapshot", taking)
    if fails:
        (tmp_path / "dumps").write_text("a file where the directory belongs")
    dumper = GenerationDumper()
    idle = threading.Event()
    wait = dumper._changed.wait

    def waiting(timeout=None):
        if taken and threading.current_thread().name == WORKER and not dumper._jobs():
            idle.set()
        return wait(timeout)

    monkeypatch.setattr(dumper._changed, "wait", waiting)
    dumper.dump(directory, 1, **batch())
    assert idle.wait(LONG)
    assert [ref() for ref in taken] == [None]
    assert dumper.failed == fails
    with contextlib.suppress(DumpError):
        dumper.drain(LONG)
