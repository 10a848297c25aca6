"""Signals that end fit(), and fit() in threads and within itself, in processes of their own."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals as POSIX has them")

BEGIN = """
import asyncio, os, signal, sys, threading
from verl_dump import AsyncReferenceTrainer, Batch, GenerationDumper, ReferenceTrainer, TrainerConfig
from verl_dump.exits import terminable

directory = sys.argv[1]
entered, gate = threading.Event(), threading.Event()
real_write = os.write

def stick():
    def write(descriptor, data):
        if threading.current_thread().name == "verl-dump-writer":
            entered.set()
            gate.wait()
        return real_write(descriptor, data)
    os.write = write

def batch(mark):
    return Batch([mark], ["o"], ["g"], [1.0])

class Trainer(ReferenceTrainer):
    hooks = {}
    dump_exit_timeout = 20.0

    def step(self, metrics, timing_raw):
        self.hooks.get(self.global_steps, lambda: None)()
        return super().step(metrics, timing_raw)

class Coroutine(AsyncReferenceTrainer):
    hooks = {}

    async def step(self, metrics, timing_raw):
        result = self.hooks.get(self.global_steps, lambda: None)()
        if result is not None:
            await result
        return super().step(metrics, timing_raw)

def trainer_of(kind, steps=3, **hooks):
    config = TrainerConfig(rollout_data_dir=directory, val_before_train=False)
    trainer = kind(config, [batch(f"train{i + 1}") for i in range(steps)])
    trainer.hooks = {int(name[2:]): hook for name, hook in hooks.items()}
    return trainer

def terminate():
    os.kill(os.getpid(), signal.SIGTERM)

def soon(signum):
    "Sends a signal from another thread once the event loop waits in its selector."
    loop = asyncio.get_running_loop()
    real = loop._selector.select
    sent = []
    def select(timeout=None):
        if not sent and timeout != 0:
            sent.append(True)
            os.kill(os.getpid(), signum)
        return real(timeout)
    loop._selector.select = select

def handler():
    return signal.getsignal(signal.SIGTERM)
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


def test_sigterm_ends_fit_with_its_dumps_on_disk(tmp_path):
    """SIGTERM ends a training as an exit does: what was handed over is on disk, and the exit code tells the signal."""
    err = run(tmp_path, "trainer_of(Trainer, at3=terminate).fit()", 143)
    assert files(tmp_path) == ["1.jsonl", "2.jsonl"]
    assert err == ""


def test_sigterm_tells_of_failed_dumps(tmp_path):
    """A failed dump is on stderr when SIGTERM ends the training, since no interpreter prints a SystemExit."""
    (tmp_path / "dumps").write_text("a file")
    err = run(tmp_path, "trainer_of(Trainer, at2=terminate).fit()", 143)
    assert err.count(f"dump of step 1 to {tmp_path}/dumps/1.jsonl failed") == 1


def test_an_exit_tells_of_failed_dumps(tmp_path):
    """A failed dump is on stderr when sys.exit ends the training, and attached to the SystemExit."""
    (tmp_path / "dumps").write_text("a file")
    script = """
    try:
        trainer_of(Trainer, at2=sys.exit).fit()
    except SystemExit as error:
        assert "dump of step 1" in error.__notes__[0], error.__notes__
        raise
    """
    assert "dump of step 1" in run(tmp_path, script)


def test_a_training_error_is_told_once(tmp_path):
    """What is attached to an error that the interpreter prints is not logged as well."""
    (tmp_path / "dumps").write_text("a file")
    err = run(tmp_path, "trainer_of(Trainer, at2=lambda: 1 / 0).fit()", 1)
    assert "ZeroDivisionError" in err
    assert not any(line.startswith("dump of step") for line in err.partition("Traceback")[0].splitlines())


def test_a_stuck_write_does_not_outlast_sigterm(tmp_path):
    """SIGTERM with a write that never ends is obeyed after the exit timeout, and the step is named."""
    script = """
    stick()
    def when_stuck():
        assert entered.wait(30)
        terminate()
    trainer = trainer_of(Trainer, at2=when_stuck)
    trainer.dump_exit_timeout = 0.1
    trainer.fit()
    """
    err = run(tmp_path, script, 143)
    assert "not on disk after 0.1 s: step 1" in err
    assert files(tmp_path)[0].startswith(".")


def test_a_second_sigterm_does_not_cut_the_drain_short(tmp_path):
    """The drain that SIGTERM began is finished though SIGTERM comes again."""
    script = """
    stick()
    trainer = trainer_of(Trainer, at2=terminate)
    real = trainer._dump_executor.drain
    def drain(timeout=None):
        assert entered.wait(30)
        terminate()
        gate.set()
        return real(timeout)
    trainer._dump_executor.drain = drain
    try:
        trainer.fit()
    finally:
        assert handler() is signal.SIG_DFL
    """
    run(tmp_path, script, 143)
    assert files(tmp_path) == ["1.jsonl"]


def test_sigterm_in_the_last_drain(tmp_path):
    """SIGTERM while fit() waits for its last dumps leaves them to the end of the process, which tells of them."""
    script = """
    stick()
    trainer = trainer_of(Trainer)
    real = trainer._dump_executor._wait_written
    def wait(deadline):
        # The lock of the dumper is held here, so nobody waits for its thread.
        if not gate.is_set():
            gate.set()
            terminate()
        return real(deadline)
    trainer._dump_executor._wait_written = wait
    trainer.fit()
    """
    err = run(tmp_path, script, 143)
    assert files(tmp_path) == ["1.jsonl", "2.jsonl", "3.jsonl"]
    assert "0 failed, 0 not on disk" in err


@pytest.mark.parametrize(
    ("signum", "code"),
    [("SIGTERM", 143), ("SIGINT", -signal.SIGINT)],
    ids=["sigterm", "sigint"],
)
@pytest.mark.parametrize("wait", ["step", "drain"])
def test_a_signal_while_the_event_loop_waits(tmp_path, signum, code, wait):
    """A signal that comes out of the event loop, past the task of fit(), loses neither data nor failures."""
    script = f"""
    async def main():
        trainer = trainer_of(Coroutine, at3=lambda: asyncio.sleep(30))
        if {wait!r} == "drain":
            stick()
            trainer.hooks = {{}}
        soon(signal.{signum})
        threading.Timer(0.2, gate.set).start()
        await trainer.fit()
    asyncio.run(main())
    """
    err = run(tmp_path, script, code)
    assert files(tmp_path) == [f"{step}.jsonl" for step in ((1, 2) if wait == "step" else (1, 2, 3))]
    assert ("KeyboardInterrupt" in err) is (signum == "SIGINT")


@pytest.mark.parametrize(
    ("signum", "code"),
    [("SIGTERM", 143), ("SIGINT", -signal.SIGINT)],
    ids=["sigterm", "sigint"],
)
def test_a_signal_while_the_event_loop_waits_tells_of_failed_dumps(tmp_path, signum, code):
    """The failures that the cancelled task of fit() was left with are on stderr, though asyncio drops what it raised."""
    (tmp_path / "dumps").write_text("a file")
    script = f"""
    async def main():
        trainer = trainer_of(Coroutine, at2=lambda: asyncio.sleep(30))
        soon(signal.{signum})
        await trainer.fit()
    asyncio.run(main())
    """
    err = run(tmp_path, script, code)
    assert f"dump of step 1 to {tmp_path}/dumps/1.jsonl failed" in err


def test_the_handler_is_there_for_fit_only(tmp_path):
    """SIGTERM has its own action again after fit(), however that ended."""
    script = """
    seen = []
    trainer_of(Trainer, at1=lambda: seen.append(handler())).fit()
    assert callable(seen[0])
    assert handler() is signal.SIG_DFL
    try:
        trainer_of(Trainer, at1=lambda: 1 / 0).fit()
    except ZeroDivisionError:
        pass
    assert handler() is signal.SIG_DFL
    try:
        trainer_of(Trainer, at2=terminate).fit()
    except SystemExit as error:
        assert error.code == 143
    assert handler() is signal.SIG_DFL
    terminate()
    """
    run(tmp_path, script, -signal.SIGTERM)


def test_a_handler_of_the_programs_own_is_left_alone(tmp_path):
    """A handler that the program has set, before fit() or within, is what SIGTERM calls then and afterwards."""
    script = """
    calls = []
    mine = lambda *_: calls.append("mine")
    signal.signal(signal.SIGTERM, mine)
    trainer_of(Trainer, at2=terminate).fit()
    assert calls == ["mine"] and handler() is mine
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trainer_of(Trainer, at2=terminate).fit()
    assert handler() is signal.SIG_IGN
    for other in (mine, signal.SIG_IGN):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        trainer_of(Trainer, at2=lambda: signal.signal(signal.SIGTERM, other), at3=terminate).fit()
        assert handler() is other
    assert calls == ["mine"] * 2
    """
    run(tmp_path, script)
    assert files(tmp_path) == ["1.jsonl", "2.jsonl", "3.jsonl"]


def test_a_fit_in_a_thread_touches_no_handler(tmp_path):
    """A fit() in another thread leaves the signals of the process as they are, and works."""
    script = """
    seen = []
    thread = threading.Thread(target=trainer_of(Trainer, at1=lambda: seen.append(handler())).fit)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
    """
    run(tmp_path, script)
    assert files(tmp_path) == ["1.jsonl", "2.jsonl", "3.jsonl"]


def test_a_fit_within_a_fit(tmp_path):
    """A fit() that a hook of another calls ends with its own dumps on disk, and the outer one stays terminable."""
    script = """
    def inner():
        other = trainer_of(Trainer, steps=2)
        other.global_steps = 10
        other.fit()
        assert sorted(os.listdir(directory))[:2] == ["1.jsonl", "11.jsonl"]
        assert callable(handler())
    trainer_of(Trainer, at2=inner, at3=terminate).fit()
    """
    run(tmp_path, script, 143)
    assert files(tmp_path) == ["1.jsonl", "11.jsonl", "12.jsonl", "2.jsonl"]


def test_a_fit_that_calls_itself(tmp_path):
    """A fit() that is entered again from its own hook drains twice and loses nothing."""
    script = """
    def again():
        trainer.hooks = {}
        trainer.fit()
    trainer = trainer_of(Trainer, at2=again)
    trainer.fit()
    assert trainer.global_steps == 6
    assert trainer._dump_executor.pending == ()
    """
    run(tmp_path, script)
    assert files(tmp_path) == [f"{step}.jsonl" for step in (1, 3, 4, 5, 6)]


def test_two_coroutines_leave_in_any_order(tmp_path):
    """Of two fit() in one event loop the one that ends first does not take the other's handler away."""
    script = """
    async def main():
        second = asyncio.Event()
        first = trainer_of(Coroutine, at1=second.wait)
        other = trainer_of(Coroutine, steps=2, at12=lambda: slow())
        other.global_steps = 10
        async def slow():
            second.set()
            await task
            assert handler() is not signal.SIG_DFL
            terminate()
            await asyncio.sleep(30)
        task = asyncio.ensure_future(first.fit())
        await asyncio.sleep(0)
        assert handler() is not signal.SIG_DFL
        await other.fit()
    asyncio.run(main())
    """
    run(tmp_path, script, 143)
    assert files(tmp_path) == ["1.jsonl", "11.jsonl", "2.jsonl", "3.jsonl"]


def test_sigterm_before_the_first_dump(tmp_path):
    """SIGTERM between the handler and the drain of a session ends the process, and dumps from before are told of."""
    script = """
    trainer = trainer_of(Trainer)
    trainer._dump_batch(batch("before"), directory)
    class Interrupted(GenerationDumper):
        def __enter__(self):
            terminate()
            return super().__enter__()
    trainer._dump_executor.__class__ = Interrupted
    try:
        trainer.fit()
    finally:
        assert handler() is signal.SIG_DFL
    """
    err = run(tmp_path, script, 143)
    assert files(tmp_path) == ["0.jsonl"]
    assert "1 written, 0 failed, 0 not on disk" in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_by_a_hook_dies_of_sigterm(tmp_path):
    """A process forked within fit() is none of the training: SIGTERM ends it at once, and not through the parent's code."""
    script = """
    def fork():
        child = os.fork()
        if child == 0:
            terminate()
            os._exit(9)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM, status
        assert callable(handler())
    trainer_of(Trainer, at2=fork).fit()
    """
    run(tmp_path, script)
    assert files(tmp_path) == ["1.jsonl", "2.jsonl", "3.jsonl"]


def test_a_program_started_while_draining_obeys_sigterm(tmp_path):
    """That the signal is ignored during the drain is not inherited by what is started then."""
    script = """
    import subprocess
    with terminable():
        try:
            terminate()
        except SystemExit:
            code = "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
            assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.strip() == b"True"
    """
    run(tmp_path, script)
