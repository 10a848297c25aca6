"""The disk mechanism: gates, threads, the garbage collector, killed processes, and the borders of a trial."""

import concurrent.futures
import gc
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fault_injection.fault import Fault
from fault_injection.mechanisms import disk
from fault_injection.op import Op
from fault_injection.plan import Plan, once


def test_a_stuck_write_waits_for_the_gate(tmp_path: Path) -> None:
    """A stuck write does not happen until the test opens the gate, and then does."""
    with disk.armed(str(tmp_path), Plan.parse("write#1:stuck")) as injector:
        worker = threading.Thread(target=(tmp_path / "f").write_text, args=("late",))
        worker.start()
        assert injector.gate.await_arrival()
        assert injector.gate.waiting == {worker.ident}
        assert (tmp_path / "f").read_bytes() == b""
        injector.gate.open()
        worker.join()
    assert (tmp_path / "f").read_text() == "late"


def test_a_slow_write_goes_on_by_itself(tmp_path: Path) -> None:
    """A slow write passes when its time is over, or at once when the gate is open."""
    with disk.armed(str(tmp_path), Plan.parse("write#1:slow(1ms);write#2:slow(1000000s)")) as injector:
        (tmp_path / "f").write_text("one")
        injector.gate.open()
        (tmp_path / "f").write_text("two")
        assert injector.gate.arrivals == 2
    assert (tmp_path / "f").read_text() == "two"


def test_a_worker_that_outlives_its_trial_goes_on_with_the_plain_functions(tmp_path: Path) -> None:
    """An operation in progress at the end of a trial finishes, its file works on, and nothing more is struck or counted."""
    seen: list[Op] = []

    def work() -> None:
        with open(tmp_path / "f", "w") as file:
            file.write("late")
            file.flush()
            file.write("r")
        os.rename(tmp_path / "f", tmp_path / "g")

    plan = Plan.parse("write#1:stuck;write#2+:EIO;rename#1:EIO")
    with disk.armed(str(tmp_path), plan, observe=lambda op, _: seen.append(op)) as injector:
        worker = threading.Thread(target=work)
        worker.start()
        assert injector.gate.await_arrival()
    count = len(seen)
    injector.gate.open()
    worker.join()
    assert (tmp_path / "g").read_text() == "later"
    assert len(seen) == count == injector.operations
    assert injector.fired == 1


def test_the_thread_that_arms_is_the_caller(tmp_path: Path) -> None:
    """Operations of the arming thread are marked as the caller's, those of any other thread are not."""
    seen: dict[str, bool] = {}
    with disk.armed(
        str(tmp_path), Plan(), observe=lambda op, _: seen.update({f"{op.kind} {op.path}": op.caller})
    ):
        os.mkdir(tmp_path / "mine")
        worker = threading.Thread(target=os.mkdir, args=(tmp_path / "theirs",))
        worker.start()
        worker.join()
    assert seen == {"mkdir mine": True, "thread ": True, "mkdir theirs": False}


def test_operations_of_many_threads_are_all_counted(tmp_path: Path) -> None:
    """Threads that write at the same time lose no operation and no byte."""
    with disk.armed(str(tmp_path), Plan()) as injector, concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: (tmp_path / str(k)).write_text("x" * k), range(1, 101)))
    assert injector.operations - 4 <= 4 * 100 <= injector.operations
    assert injector.unseen() == ()
    assert [(tmp_path / str(k)).stat().st_size for k in range(1, 101)] == list(range(1, 101))


@pytest.mark.parametrize("name", ["RuntimeError", "MemoryError"])
def test_a_thread_that_cannot_start(tmp_path: Path, name: str) -> None:
    """A struck start raises out of `Thread.start` and leaves no half-started thread behind."""
    before = threading.active_count()
    with disk.armed(str(tmp_path), once("thread", 1, Fault(name))) as injector:
        thread = threading.Thread(target=int)
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            thread.start()
        assert caught.value.injected == 1
        again = threading.Thread(target=int)
        again.start()
        again.join()
    assert type(caught.value).__name__ == name
    assert injector.fired == 1
    assert threading.active_count() == before


def test_what_the_observer_does_is_not_counted(tmp_path: Path) -> None:
    """An observer may read and write below the root; that is neither counted nor struck."""

    def observe(op: Op, _: object) -> None:
        with open(tmp_path / "log", "a") as log:
            log.write(f"{op.kind}\n")

    with disk.armed(str(tmp_path), Plan.parse("write#2:EIO"), observe=observe) as injector:
        (tmp_path / "f").write_text("x")
        with disk.bypass():
            (tmp_path / "g").write_text("x")
    assert injector.operations == 4
    assert injector.fired == 0
    assert (tmp_path / "log").read_text().split() == ["open", "flush", "write", "close"]


def leave_open(path: Path, *, cycle: bool) -> None:
    """Write to a file that is never closed, and let go of it, alone or in a cycle of references."""
    file = open(path, "w")
    if cycle:
        file.itself = file
    file.write("text")
    del file
    gc.collect()


def test_a_dropped_file_raises_nothing_and_loses_its_bytes_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that nobody closed warns as always; its last write to a full disk is lost, without an error to anybody."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    seen: list[Op] = []
    plan = Plan.parse("write#1+:ENOSPC;close#1+:EIO;flush#1+:EIO")
    with disk.armed(str(tmp_path), plan, observe=lambda op, _: seen.append(op)):
        with pytest.warns(ResourceWarning, match="unclosed file"):
            leave_open(tmp_path / "f", cycle=False)
    assert unraisable == []
    assert [(op.kind, op.caller) for op in seen] == [("open", True), ("write", False)]
    assert (tmp_path / "f").read_text() == ""


@pytest.mark.parametrize("cycle", [False, True], ids=["dropped", "in-a-cycle"])
def test_a_file_nobody_closed_ends_as_a_plain_one(tmp_path: Path, cycle: bool) -> None:
    """Without a fault, what reaches the disk from a file that nobody closed is what plain Python writes."""
    with pytest.warns(ResourceWarning, match="unclosed file"):
        leave_open(tmp_path / "plain", cycle=cycle)
    with disk.armed(str(tmp_path), Plan()) as injector:
        with pytest.warns(ResourceWarning, match="unclosed file"):
            leave_open(tmp_path / "f", cycle=cycle)
        assert injector.unseen() == ()
    assert (tmp_path / "f").read_text() == (tmp_path / "plain").read_text()


def test_a_second_trial_inside_a_trial_is_refused(tmp_path: Path) -> None:
    """Arming while armed is one clear error, and the outer trial goes on."""
    with disk.armed(str(tmp_path), Plan.parse("mkdir#1:EIO")) as injector:
        with pytest.raises(RuntimeError, match="armed already"), disk.armed(str(tmp_path), Plan()):
            pass
        with pytest.raises(OSError, match="Input/output"):
            os.mkdir(tmp_path / "d")
    assert injector.fired == 1


@pytest.mark.parametrize("plan", ["write#1:kill", "write#1:torn"])
def test_a_deadly_plan_is_refused_where_it_would_kill_the_suite(tmp_path: Path, plan: str) -> None:
    """A plan that kills is armed only where that was asked for, and `supports` says so beforehand."""
    with pytest.raises(ValueError, match="child process"), disk.armed(str(tmp_path), Plan.parse(plan)):
        pass
    assert "child process" in disk.supports(Plan.parse(plan))
    assert disk.supports(Plan.parse(plan), deadly=True) == ""
    assert io.open is open is disk.originals.open


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """The root must exist: otherwise nothing below it could be told from elsewhere."""
    with (
        pytest.raises(NotADirectoryError, match="must be an existing directory"),
        disk.armed(str(tmp_path / "x"), Plan()),
    ):
        pass


KILLED = """
import os, sys
from fault_injection.mechanisms.disk import armed
from fault_injection.plan import Plan
root, plan = sys.argv[1:]
with armed(root, Plan.parse(plan), deadly=True):
    with open(root + "/f", "wb", 0) as file:
        file.write(b"0123456789")
    os.rename(root + "/f", root + "/g")
print("survived")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on Windows")
@pytest.mark.parametrize(
    ("plan", "left"),
    [("open#1:kill", {}), ("write#1:torn", {"f": b"01234"}), ("rename#1:kill", {"f": b"0123456789"})],
    ids=["before-open", "torn-write", "before-rename"],
)
def test_a_kill_leaves_exactly_what_was_done_before(
    tmp_path: Path, plan: str, left: dict[str, bytes]
) -> None:
    """A killed process dies of SIGKILL at the operation; a torn write leaves half of its bytes."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), plan]
    child = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parent.parent)
    assert (child.returncode, child.stdout, child.stderr) == (-signal.SIGKILL, b"", b"")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_disarmed(tmp_path: Path) -> None:
    """A child forked inside a trial works on plain files, whatever the other threads of its parent held."""
    with disk.armed(str(tmp_path), Plan.parse("write#1+:EIO;mkdir#1+:EIO")) as injector:
        child = os.fork()
        if not child:
            (tmp_path / "made").mkdir()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert injector.operations == 0
    assert (tmp_path / "made").is_dir()
