"""The nursery: children that end as programs do, and a parent that outlives whatever they do."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from fault_injection import nursery
from fault_injection.crew import Crew, Pool
from fault_injection.history import Ended, Exited, History, Hung, Mark
from fault_injection.subject import Spec
from fault_injection.targets.errors import TargetError
from fault_injection.targets.fit import FitTarget

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")

COUNT = [0]


class Returns(FitTarget):
    """A trainer whose fit() returns; the way out is its own."""

    def prepare(self, course):
        self.course = course

    def fit(self):
        self.course.left = True


class Raises(Returns):
    def fit(self):
        raise RuntimeError("boom 4711")


class Interrupted(Returns):
    def fit(self):
        raise KeyboardInterrupt


class Exits(Returns):
    def fit(self):
        sys.exit(3)


class Vanishes(Returns):
    def fit(self):
        atexit.register(os.write, 2, b"never said")
        os._exit(7)


class Killed(Returns):
    def fit(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Returns):
    def fit(self):
        threading.Event().wait()


class HangsAtTheEnd(Returns):
    def fit(self):
        super().fit()
        threading.Thread(target=threading.Event().wait).start()


class Talks(Returns):
    """Says much, and asks what nobody answers."""

    def fit(self):
        super().fit()
        print("x" * 100_000)
        os.write(1, b"y" * 100_000)
        print("on stderr", file=sys.stderr)
        atexit.register(print, "at the end", file=sys.stderr)
        if sys.stdin.read() == "":
            print("nothing to read", file=sys.stderr)


class Counts(Returns):
    def fit(self):
        super().fit()
        COUNT[0] += 1
        print(f"run {COUNT[0]} of this process", file=sys.stderr)


class Broken(Returns):
    def prepare(self, course):
        raise ZeroDivisionError("a mistake in the adapter")


class Refuses(Returns):
    def prepare(self, course):
        raise TargetError("this trainer cannot be driven; do something else")


@pytest.fixture(scope="module")
def pool():
    """One worker, and so one nursery, for all tests of this module."""
    with Pool() as opened:
        yield opened


def bear(pool: Pool, cls: type, way: str = "sigint") -> tuple[History, Exited]:
    """Run one child; return its history, and how it ended."""
    crew = Crew(Spec(f"tests.test_nursery:{cls.__name__}"), 0, pool=pool)
    _, history = crew.replay(f"exit-{way}-one", "none", frozenset())
    (ended,) = history.of(Exited)
    return history, ended


@pytest.mark.parametrize(
    ("cls", "code", "words"),
    [
        (Returns, 0, []),
        (Raises, 1, ["Traceback (most recent call last):", "RuntimeError: boom 4711"]),
        (Interrupted, -signal.SIGINT, ["KeyboardInterrupt"]),
        (Exits, 3, []),
        (Vanishes, 7, []),
        (Killed, -signal.SIGKILL, []),
    ],
    ids=["return", "exception", "interrupt", "exit", "os-exit", "kill"],
)
def test_a_child_ends_as_a_program_does(pool, cls, code, words):
    """What the training raises is what the process ends of, with its exit code and its traceback on stderr."""
    history, ended = bear(pool, cls)
    assert ended.code == code
    assert all(word in ended.stderr for word in words), ended.stderr
    assert words or ended.stderr == ""
    assert ended.stderr.count("Traceback") == len(words[:1])
    assert next(iter(history.of(Mark))) == Mark("due", "1")


def test_a_thread_that_dies_is_heard(pool):
    """What is raised in the thread of a training is on the stderr of its process, which ends well."""
    _, ended = bear(pool, Raises, "thread")
    assert ended.code == 0
    assert "Exception in thread training" in ended.stderr
    assert "RuntimeError: boom 4711" in ended.stderr


@pytest.mark.parametrize("cls", [Raises, Vanishes, Killed, Talks], ids=lambda cls: cls.__name__)
def test_the_nursery_goes_on_after_a_child(pool, cls):
    """Whatever a child ends of, the same nursery bears the next one."""
    bear(pool, Returns)
    (worker,) = pool._idle
    before = worker._process.pid
    bear(pool, cls)
    history, ended = bear(pool, Returns)
    assert (ended.code, ended.stderr) == (0, "")
    assert list(history.of(Ended)) == [Ended("fit")]
    assert worker._process.pid == before


@pytest.mark.parametrize("cls", [Hangs, HangsAtTheEnd], ids=["in-fit", "at-the-end"])
def test_a_child_that_hangs_is_killed_and_told(pool, cls):
    """A child whose threads all sleep for ever is ended, and its history says where it hung."""
    history, ended = bear(pool, cls)
    hung = [event.call for event in history.of(Hung)]
    assert hung == ["fit" if cls is Hangs else "the exit of the process"]
    assert ended.code == -signal.SIGKILL


def test_a_child_speaks_on_stderr_only(pool):
    """What a child prints gets between no answers, its standard input is empty, and its end says what atexit says."""
    _, ended = bear(pool, Talks)
    assert ended.code == 0
    assert ended.stderr.splitlines() == ["on stderr", "nothing to read", "at the end"]


def test_children_do_not_know_each_other(pool):
    """Each child begins where the nursery stands, whatever the one before has changed."""
    assert [bear(pool, Counts)[1].stderr for _ in range(2)] == ["run 1 of this process\n"] * 2


def test_a_mistake_in_the_adapter_is_raised_in_the_parent(pool):
    """What breaks before the training is no end of it: the parent says in one line what the adapter has raised."""
    with pytest.raises(
        TargetError, match=r"its prepare\(course\) raised ZeroDivisionError: a mistake in the adapter$"
    ):
        bear(pool, Broken)
    assert bear(pool, Returns)[1].code == 0


def test_a_refusal_of_the_adapter_is_raised_in_the_parent(pool):
    """An adapter that cannot drive its trainer says so in one line, through the child."""
    with pytest.raises(TargetError, match=r"^this trainer cannot be driven; do something else$"):
        bear(pool, Refuses)


ALONE = """
import os, signal, sys
from fault_injection.nursery import ChildEndsError, Nursery
from fault_injection.runner import Order
from fault_injection.subject import Spec

def order(name):
    return Order(Spec(f"tests.test_nursery:{name}"), "exit-sigint-one", "none", 0)

def attempt(call, *words):
    try:
        call()
    except RuntimeError as error:
        assert all(word in str(error) for word in words), error
    else:
        sys.exit("no error")

def main(root):
    nursery = Nursery()
    nursery.close()
    attempt(lambda: nursery.run(order("Returns"), root), "was not started")
    nursery.start()
    first = nursery._pid
    nursery.start()
    assert nursery._pid == first
    attempt(lambda: nursery.run(order("Nobody"), root), "the nursery of child processes broke", "Nobody")
    assert nursery.run(order("Exits"), root).code == 3
    os.kill(first, signal.SIGKILL)
    attempt(lambda: nursery.run(order("Returns"), root), "the nursery of child processes died")
    nursery.start()
    assert nursery._pid != first
    assert nursery.run(order("Returns"), root).code == 0
    nursery.close()
    nursery.close()
    attempt(lambda: os.waitpid(-1, os.WNOHANG) and None)

try:
    main(sys.argv[1])
except ChildEndsError:
    pass
except ChildProcessError:
    print("no child is left")
"""


def test_the_life_of_a_nursery(tmp_path):
    """A nursery starts once, answers its own defects by their traceback, is replaced when it died, and ends when closed."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "no child is left\n")


def test_a_child_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a child has ended, both ends of its pipe are closed in the process that bore it."""
    pipes: list[int] = []
    real = os.pipe

    def pipe() -> tuple[int, int]:
        pipes.extend(real())
        return pipes[0], pipes[1]

    monkeypatch.setattr(os, "pipe", pipe)
    monkeypatch.setattr(nursery, "ready_subject", lambda spec: None)
    monkeypatch.setattr(nursery, "fork", lambda: 4711)
    monkeypatch.setattr(nursery, "reaper", lambda pid: pid)
    monkeypatch.setattr(nursery, "watch_process", lambda *_: (0, b"told"))
    ending = nursery._bear(SimpleNamespace(spec=None), "", ())
    assert (ending.code, ending.told) == (0, b"told")
    for descriptor in pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
