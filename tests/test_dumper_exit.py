"""Processes that end, or fork, with dumps that were not drained."""

import os
import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import os, sys, threading
from verl_dump import DumpError, GenerationDumper

def hand_over(dumper, directory, step, mark="a"):
    dumper.dump(directory, step, inputs=[mark], outputs=["o"], scores=[1.0])

entered, never = threading.Event(), threading.Event()
real_write = os.write

def stick():
    def write(descriptor, data):
        if threading.current_thread().name == "verl-dump-writer":
            entered.set()
            never.wait()
        return real_write(descriptor, data)
    os.write = write

directory = sys.argv[1]
"""


def run(tmp_path, script, code=0):
    """Run a script in a process of its own; return what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(script), str(tmp_path / "dumps")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == code, done.stderr
    return done.stderr


def files(tmp_path):
    return sorted(os.listdir(tmp_path / "dumps"))


def test_drained_process_is_silent(tmp_path):
    """A process that has drained says nothing at its end."""
    err = run(
        tmp_path,
        """
        with GenerationDumper() as dumper:
            hand_over(dumper, directory, 1)
        other = GenerationDumper()
        """,
    )
    assert err == ""


def test_undrained_dumps_are_written(tmp_path):
    """A process that ends without drain writes what is pending, and says that drain was not called."""
    err = run(
        tmp_path,
        """
        dumper = GenerationDumper()
        for step in range(20):
            hand_over(dumper, directory, step)
        """,
    )
    assert files(tmp_path) == sorted(f"{step}.jsonl" for step in range(20))
    assert err == (
        "verl_dump: the process ended without drain(): 20 written, 0 failed, 0 not on disk; "
        "call drain() before the end\n"
    )


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError('boom')", 1),
        ("raise KeyboardInterrupt", None),
    ],
    ids=["end-of-script", "exit", "exit-code", "exception", "interrupt"],
)
def test_undrained_failure_is_told(tmp_path, end, code):
    """A process that ends without drain says on stderr which dump failed, why and where."""
    (tmp_path / "dumps").write_text("a file")
    code = -2 if code is None else code
    err = run(tmp_path, f"dumper = GenerationDumper()\nhand_over(dumper, directory, 4)\n{end}\n", code)
    assert "0 written, 1 failed, 0 not on disk" in err
    assert f"verl_dump: dump of step 4 to {tmp_path}/dumps/4.jsonl failed: FileExistsError" in err


def test_failure_in_warn_mode_is_told(tmp_path):
    """Also where failures are only logged, an undrained end says what failed."""
    (tmp_path / "dumps").write_text("a file")
    err = run(tmp_path, "dumper = GenerationDumper(on_error='warn')\nhand_over(dumper, directory, 4)\n")
    assert f"verl_dump: dump of step 4 to {tmp_path}/dumps/4.jsonl failed" in err


def test_abandoned_dumper_is_told_of(tmp_path):
    """A dumper that nobody holds any more is drained and told of like any other."""
    err = run(
        tmp_path,
        """
        import gc
        hand_over(GenerationDumper(), directory, 1)
        gc.collect()
        """,
    )
    assert "1 written, 0 failed" in err
    assert files(tmp_path) == ["1.jsonl"]


@pytest.mark.parametrize("count", [1, 3])
def test_stuck_write_does_not_hold_the_exit(tmp_path, count):
    """Stuck writes hold the exit for exit_timeout, not for ever, and each step not on disk is named."""
    err = run(
        tmp_path,
        f"""
        stick()
        dumpers = [GenerationDumper(exit_timeout=0.2) for _ in range({count})]
        for step, dumper in enumerate(dumpers):
            hand_over(dumper, directory, step)
            hand_over(dumper, directory, step + 10)
        assert entered.wait(30)
        """,
    )
    for step in range(count):
        assert f"verl_dump: dump of step {step} to {tmp_path}/dumps/{step}.jsonl is not on disk" in err
        assert f"verl_dump: dump of step {step + 10} to" in err
    assert err.count("0 written, 0 failed, 2 not on disk") == count
    assert not [name for name in files(tmp_path) if name.endswith(".jsonl")]


def test_interrupt_of_the_exit(tmp_path):
    """An interrupt while the exit waits ends the waiting, and what is not on disk is still named."""
    err = run(
        tmp_path,
        """
        import signal, time
        stick()
        dumper = GenerationDumper(exit_timeout=50)
        hand_over(dumper, directory, 1)
        assert entered.wait(30)
        real_drain = dumper._drain
        def drain(timeout):
            signal.raise_signal(signal.SIGINT)
            return real_drain(timeout)
        dumper._drain = drain
        """,
    )
    assert "dump of step 1 to" in err
    assert "is not on disk" in err


def test_closed_stderr(tmp_path):
    """A process without stderr ends as it would have."""
    err = run(tmp_path, "dumper = GenerationDumper()\nhand_over(dumper, directory, 1)\nsys.stderr = None\n")
    assert err == ""
    assert files(tmp_path) == ["1.jsonl"]


def test_timeout_then_exit(tmp_path):
    """What a drain could not write in time is told at the end of the process."""
    err = run(
        tmp_path,
        """
        from verl_dump import DrainTimeout
        stick()
        dumper = GenerationDumper(exit_timeout=0.1)
        hand_over(dumper, directory, 1)
        try:
            dumper.drain(0)
        except DrainTimeout:
            pass
        """,
    )
    assert "1 not on disk" in err


FORK = """
gate = threading.Event()
def write(descriptor, data):
    if threading.current_thread().name == "verl-dump-writer" and os.getpid() == parent:
        entered.set()
        gate.wait()
        writes.append(bytes(data))
    return real_write(descriptor, data)
parent, writes = os.getpid(), []
os.write = write
dumper = GenerationDumper()
hand_over(dumper, directory, 1, "parent")
hand_over(dumper, directory, 2, "parent")
assert entered.wait(30)
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@needs_fork
def test_forked_child(tmp_path):
    """A forked child neither hangs nor writes the parent's dumps, its own work, and the parent's are written once."""
    err = run(
        tmp_path,
        FORK
        + """
child = os.fork()
if child == 0:
    code = 1
    try:
        assert dumper.pending == ()
        dumper.drain()
        hand_over(dumper, directory, 9, "child")
        dumper.drain()
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
assert [name for name in os.listdir(directory) if name.endswith(".jsonl")] == ["9.jsonl"]
gate.set()
dumper.drain()
assert len(writes) == 2
assert sorted(os.listdir(directory)) == ["1.jsonl", "2.jsonl", "9.jsonl"]
for step in (1, 2):
    with open(os.path.join(directory, f"{step}.jsonl")) as file:
        assert file.read().count("parent") == 1
""",
    )
    assert err == ""


@needs_fork
def test_forked_child_that_ends(tmp_path):
    """A forked child that ends like a program says nothing of the parent's dumps, but tells of its own."""
    err = run(
        tmp_path,
        FORK
        + """
child = os.fork()
if child == 0:
    if len(sys.argv) > 2:
        hand_over(dumper, directory, 9, "child")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
child = os.fork()
if child == 0:
    hand_over(dumper, directory, 9, "child")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
gate.set()
dumper.drain()
""",
    )
    assert err.count("verl_dump:") == 1
    assert "1 written, 0 failed, 0 not on disk" in err
    assert files(tmp_path) == ["1.jsonl", "2.jsonl", "9.jsonl"]


@needs_fork
def test_fork_while_the_lock_is_held(tmp_path):
    """A process forked while another thread holds the dumper's lock can use the dumper."""
    err = run(
        tmp_path,
        """
        dumper = GenerationDumper()
        held, done = threading.Event(), threading.Event()
        def hold():
            with dumper._changed:
                held.set()
                done.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(30)
        child = os.fork()
        if child == 0:
            hand_over(dumper, directory, 1)
            dumper.drain()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        done.set()
        thread.join()
        assert status == 0
        """,
    )
    assert err == ""
    assert files(tmp_path) == ["1.jsonl"]


@needs_fork
def test_failures_are_the_parents(tmp_path):
    """A failure of the parent's that was not raised yet is raised in the parent only."""
    (tmp_path / "dumps").write_text("a file")
    run(
        tmp_path,
        """
        dumper = GenerationDumper()
        hand_over(dumper, directory, 1)
        with dumper._changed:
            assert dumper._changed.wait_for(lambda: not dumper._jobs(), 30)
        child = os.fork()
        if child == 0:
            dumper.drain()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        try:
            dumper.drain()
        except DumpError as error:
            assert error.step == 1
        else:
            sys.exit("not raised")
        """,
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_of_multiprocessing(tmp_path, method):
    """A child of multiprocessing, which skips atexit, does not end in silence either."""
    script = tmp_path / "script.py"
    script.write_text(
        BEGIN
        + textwrap.dedent(
            f"""
            import multiprocessing

            def work():
                hand_over(GenerationDumper(), directory, 1)

            if __name__ == "__main__":
                child = multiprocessing.get_context("{method}").Process(target=work)
                child.start()
                child.join()
                sys.exit(child.exitcode)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "dumps")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0
    assert done.stderr.count("1 written, 0 failed, 0 not on disk") == 1
    assert files(tmp_path) == ["1.jsonl"]


def test_killed_process_leaves_no_partial_dump(tmp_path):
    """A process killed in mid-write leaves nothing that looks like a dump, and the next run clears up."""
    run(
        tmp_path,
        """
        import signal
        stick()
        hand_over(GenerationDumper(), directory, 1)
        assert entered.wait(30)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        code=-9,
    )
    (left,) = files(tmp_path)
    assert left.startswith(".1.jsonl.")
    run(tmp_path, "with GenerationDumper() as dumper:\n    hand_over(dumper, directory, 2)\n")
    assert files(tmp_path) == ["2.jsonl"]
