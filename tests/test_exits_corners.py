"""What the module of exits does to signals, children and stderr, in this process."""

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import runpy
import signal
import sys
import threading
import time

import pytest

from verl_dump import DumpMixin, GenerationDumper, exits
from verl_dump.exits import terminable


@pytest.fixture
def handler():
    """What asks for the handler of SIGTERM, which has its own action at first and afterwards."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield lambda: signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


class Holder:
    """Something with dumps, which notes when it is asked for them."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.started = []
        self.forks = 0

    def at_exit(self, started):
        self.started.append(started)
        return self.lines

    def after_fork(self):
        self.forks += 1


@pytest.fixture
def watched(monkeypatch):
    """Let the module know of these holders only."""

    def watched(*holders):
        monkeypatch.setattr(exits, "_watched", set(holders))

    return watched


def test_sigterm_is_an_exit_once(handler):
    """SIGTERM raises an exit with the code of the signal; when it comes again it is ignored, until the block ends."""
    with terminable():
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 128 + signal.SIGTERM
    assert handler() is signal.SIG_DFL


def test_a_block_in_a_block(handler):
    """Of nested blocks the outermost decides how long SIGTERM is an exit."""
    with terminable():
        outer = handler()
        with terminable():
            assert handler() is outer
        assert handler() is outer
        assert callable(outer)
    assert handler() is signal.SIG_DFL


def test_a_block_in_a_block_after_sigterm(handler):
    """A block that begins while a first SIGTERM is dealt with does not make an exit of a second."""
    with terminable():
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        with terminable():
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert handler() is signal.SIG_DFL


@pytest.mark.parametrize("when", ["before", "within"])
def test_the_programs_own_handler_stays(handler, when):
    """A handler that the program sets before a block or within is what SIGTERM calls from then on."""
    calls = []

    def mine(*_):
        calls.append(when)

    if when == "before":
        signal.signal(signal.SIGTERM, mine)
    with terminable():
        signal.signal(signal.SIGTERM, mine) if when == "within" else None
        signal.raise_signal(signal.SIGTERM)
        with terminable():
            signal.raise_signal(signal.SIGTERM)
    assert handler() is mine
    assert calls == [when] * 2


def test_an_error_ends_a_block(handler):
    """A block that an error leaves is over, too."""
    with pytest.raises(ZeroDivisionError), terminable():
        raise ZeroDivisionError
    assert handler() is signal.SIG_DFL


def test_a_block_in_a_thread(handler):
    """A block in another thread than the main one sets no handler."""
    seen = []

    def run():
        with terminable():
            seen.append(handler())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert seen == [signal.SIG_DFL]


def test_a_session_is_terminable(handler):
    """In the session of a trainer SIGTERM is an exit, which drains, and afterwards it has its own action again."""
    with pytest.raises(SystemExit), DumpMixin()._dump_session() as dumper:
        drained = []
        dumper.drain = drained.append
        signal.raise_signal(signal.SIGTERM)
    assert drained == [DumpMixin.dump_exit_timeout]
    assert handler() is signal.SIG_DFL


def test_a_forked_process_forgets(handler, watched):
    """In a process forked within a block SIGTERM has its own action, and each dumper forgets what is the parent's."""
    holders = Holder(), Holder()
    watched(*holders)
    with terminable():
        exits._after_fork()
        assert handler() is signal.SIG_DFL
        with terminable():
            assert handler() is not signal.SIG_DFL
        assert handler() is signal.SIG_DFL
    assert [holder.forks for holder in holders] == [1, 1]


def test_a_forked_process_forgets_a_first_sigterm(handler, watched):
    """A process forked while a first SIGTERM is dealt with obeys one of its own."""
    watched()
    with terminable():
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        exits._after_fork()
        assert handler() is signal.SIG_DFL


@pytest.mark.parametrize("within", [True, False], ids=["within", "outside"])
def test_a_forked_process_keeps_the_programs_own_handler(handler, watched, within):
    """A handler of the program's own is the forked process's, too, whether or not that was in a block."""
    watched()

    def mine(*_):
        raise AssertionError

    def fork():
        signal.signal(signal.SIGTERM, mine)
        exits._after_fork()
        assert handler() is mine

    if within:
        with terminable():
            fork()
    else:
        fork()


def test_the_end_is_one_for_all(watched, capsys):
    """At the end all dumpers share one start, now, and each line that they have to say is one of stderr with our name."""
    holders = Holder("one", "two"), Holder(), Holder("three")
    watched(*holders)
    before = time.monotonic()
    exits._at_exit()
    started = {start for holder in holders for start in holder.started}
    assert len(started) == 1
    assert before <= started.pop() <= time.monotonic()
    out, err = capsys.readouterr()
    assert sorted(err.splitlines()) == ["verl_dump: one", "verl_dump: three", "verl_dump: two"]
    assert out == ""


@pytest.mark.parametrize("stderr", ["none", "closed"])
def test_the_end_without_stderr(watched, capsys, monkeypatch, tmp_path, stderr):
    """Where there is no stderr any more nothing is raised, and nothing gets into the output of the program."""
    with open(tmp_path / "closed", "w", encoding="utf-8") as file:
        pass
    monkeypatch.setattr(sys, "stderr", file if stderr == "closed" else None)
    watched(Holder("one"))
    exits._at_exit()
    assert capsys.readouterr().out == ""


def test_nothing_to_say(watched, capsys):
    """Dumpers with nothing to say leave stderr as it is."""
    watched(Holder())
    exits._at_exit()
    assert capsys.readouterr() == ("", "")


def test_a_child_reports_once(monkeypatch):
    """A child of multiprocessing, which does not call what `atexit` holds, has the report among its own last calls, once."""
    calls = []
    monkeypatch.setattr(exits, "_covered", set())
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    monkeypatch.setattr(
        multiprocessing.util, "Finalize", lambda *args, **kwargs: calls.append((args, kwargs))
    )
    exits.cover_child()
    exits.cover_child()
    (((owner, call), options),) = calls
    assert (owner, call) == (None, exits._at_exit)
    assert options["exitpriority"] is not None, "without a priority it is not called at the end"
    monkeypatch.setattr(os, "getpid", lambda: -1)
    exits.cover_child()
    assert len(calls) == 2, "a child of that child is another process"


def test_nothing_has_to_be_set_up_for_a_child_to_report(monkeypatch):
    """A child of multiprocessing is covered by the module as it was imported."""
    calls = []
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    monkeypatch.setattr(multiprocessing.util, "Finalize", lambda _, call, **__: calls.append(call))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    exits.cover_child()
    exits._covered.remove(-1)
    assert calls == [exits._at_exit]


def test_a_child_that_dumps_reports(monkeypatch, tmp_path):
    """The first dump in a child of multiprocessing is what makes it report at its end."""
    calls = []
    monkeypatch.setattr(exits, "_covered", set())
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    monkeypatch.setattr(multiprocessing.util, "Finalize", lambda _, call, **__: calls.append(call))
    with GenerationDumper() as dumper:
        assert calls == []
        dumper.dump(tmp_path, 1, inputs=["q"], outputs=["a"], scores=[1.0])
    assert calls == [exits._at_exit]


@pytest.mark.parametrize("loaded", [True, False], ids=["multiprocessing", "no-multiprocessing"])
def test_no_child_reports_by_itself(monkeypatch, loaded):
    """A process that is no child of multiprocessing needs no last call of its."""
    if not loaded:
        monkeypatch.delitem(sys.modules, "multiprocessing.process")
    monkeypatch.setattr(exits, "_covered", set())
    monkeypatch.setattr(multiprocessing.util, "Finalize", None)
    exits.cover_child()
    assert exits._covered == set()


def test_both_ends_are_registered(monkeypatch):
    """The interpreter calls the module at the end of a process, and after a fork in the child where there are forks."""
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(os, "register_at_fork", lambda **when: registered.append(when), raising=False)
    module = runpy.run_path(exits.__file__)
    assert registered == [module["_at_exit"], {"after_in_child": module["_after_fork"]}]
