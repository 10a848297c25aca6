"""The second recorder: a run in a child that strace watches, for writers whose calls do not go through Python.

A thread that has made a system call goes on only when strace has written the call down. So of two calls that the run
itself orders, the earlier one stands first, and so do what the run tells through its pipe and what it does to files.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import subprocess
import tempfile
import threading
import traceback
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

import fault_injection.trial
from fault_injection import watch
from fault_injection.crash.record import Journal, Recorder
from fault_injection.crash.strace_follow import TRACED, Follower, NotFollowedError
from fault_injection.crash.strace_lines import CutShortError, calls
from fault_injection.forks import fork, reaper, watch_process
from fault_injection.history import Event, Hung, Mark
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk, originals
from fault_injection.mechanisms.kernel import missing, strace, system
from fault_injection.plan import Plan
from fault_injection.scenario import prepared
from fault_injection.targets.errors import TargetError
from fault_injection.tell import telling
from fault_injection.trial import Trial, listening, quiet_threads

if TYPE_CHECKING:
    from fault_injection.scenario import Scenario
    from fault_injection.subject import Subject

LONGEST_TEXT = 1 << 22
"""Bytes of one write that strace writes down; a recording with a longer one is refused."""
_PATIENCE = 30.0
"""Seconds that every thread of the child may sleep: it may wait for a process of its own, and tells of hangs by itself."""
_START = 10.0
"""Seconds within which the child must have laid down what the scenario wants."""


def traced(subject: Subject, scenario: Scenario, seed: int, root: str) -> tuple[list[Event], Journal]:
    """Run a scenario without faults in a child under strace.

    Args:
        subject: what is tested, loaded.
        scenario: the course of events.
        seed: chooses the batches.
        root: the real path of the directory of the trial.

    Returns:
        What happened, with a `Hung` at the end where a call never ended; and what was done to the files below the root.

    Raises:
        TargetError: this machine has no strace, or what the subject does cannot be followed.
        RuntimeError: the child broke for a reason of the harness.
    """
    if lacking := missing().get("strace"):
        raise TargetError(f"{subject.label} is recorded through strace: {lacking}")
    # Writers of earlier trials that are still to be collected may take part in the fork.
    gc.collect()
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    pipe = os.fstat(write).st_ino
    child = fork()
    if child == 0:
        ours.close()
        os.close(read)
        _live(subject, scenario, seed, root, write, theirs)
    theirs.close()
    os.close(write)
    try:
        with ours, tempfile.NamedTemporaryFile(prefix="strace-") as output:
            code, told, start = _watched(child, ours, read, root, output.name)
            events, ends = _events(told)
            _see_sound(subject, events, code)
            with open(output.name, encoding="latin-1") as lines:
                made = tuple(calls(lines))
    finally:
        os.close(read)
    try:
        return events, Follower(root, start, made, pipe, ends).journal()
    except (NotFollowedError, CutShortError) as error:
        raise TargetError(
            f"{subject.label} cannot be recorded through strace: {error}; write temporary files beside the final ones, "
            "in pieces of 4 MB at most"
        ) from None


def _watched(
    child: int, ours: socket.socket, read: int, root: str, output: str
) -> tuple[int | None, bytes, Journal]:
    """See the child through to its end: how it ended, what it told, and what was there when its run began."""
    process: subprocess.Popen[str] | None = None
    try:
        ours.settimeout(_START)
        start = Journal()
        if ours.recv(1):
            start = Recorder(root).journal()
            arguments = ["-y", "-xx", "-s", str(LONGEST_TEXT), "-e", "abbrev=none", "-e", "signal=none"]
            process = strace.attach(child, output, [*arguments, "-e", f"trace={','.join(TRACED)}"])
            ours.send(b"x")
        code, told = watch_process(child, _PATIENCE, reaper(child), read)
        return code, told, start
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    finally:
        if process is not None:
            strace.wait(process)


def _live(
    subject: Subject, scenario: Scenario, seed: int, root: str, write: int, theirs: socket.socket
) -> None:
    """The life of the child; it never returns."""
    tell = telling(write)
    try:
        quiet_threads()
        trial = Trial(subject.make, root, DiskLook(root), sink=tell, on_hang=lambda: os._exit(0))
        prepared(trial, scenario, seed)
        _mind_other_processes()
        with listening(trial), disk.armed(root, Plan(), observe=trial.observe) as injector:
            trial.injector = injector
            system.allow_tracing()
            theirs.send(b"x")
            theirs.recv(1)
            scenario.run(trial, seed)
            trial.release()
            trial.settle()
            trial.finish()
            os._exit(0)
    except TargetError as refusal:
        tell(Mark("refused", str(refusal)))
    except BaseException:  # noqa: BLE001 - told to the parent, which raises it
        with suppress(OSError):
            tell(Mark("broken", traceback.format_exc()))
    finally:
        os._exit(0)


def _mind_other_processes() -> None:
    """A thread that sleeps while a process that was started here is at work may wait for it: it is not at rest."""
    real = watch.asleep

    def asleep(thread: threading.Thread) -> bool | None:
        sleeps = real(thread)
        return False if sleeps and _works_for("self") else sleeps

    watch.asleep = asleep
    vars(fault_injection.trial)["asleep"] = asleep


def _works_for(pid: str) -> bool:
    """Whether a process that this one has started, or one started by that, is at work."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        found = [_read(f"/proc/{pid}/task/{task}/children") for task in tasks]
    except OSError:
        return False
    return any(_is_busy(child) or _works_for(child) for text in found for child in text.split())


def _is_busy(pid: str) -> bool:
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return False
    # Running, at the disk, or stopped by strace within a call.
    return stat[stat.rindex(")") + 2 : stat.rindex(")") + 3] in "RDt"


def _read(path: str) -> str:
    with originals.open(path, "rb", buffering=0) as file:
        return bytes(file.read(4096)).decode(errors="replace")


def _events(told: bytes) -> tuple[list[Event], list[int]]:
    """What the child told, and for each event how many bytes had come with it."""
    stream = BytesIO(told)
    events: list[Event] = []
    ends: list[int] = []
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            events.append(pickle.load(stream))  # noqa: S301 - written by this package's own child
            ends.append(stream.tell())
    return events, ends


def _see_sound(subject: Subject, events: list[Event], code: int | None) -> None:
    for mark in (event for event in events if isinstance(event, Mark)):
        if mark.name == "broken":
            raise RuntimeError(f"the child of a recording through strace broke:\n{mark.text}")
        if mark.name == "refused":
            raise TargetError(mark.text)
    if code is None:
        events.append(Hung("the process"))
    elif code:
        raise TargetError(
            f"{subject.label} ended its process with {code} while it was recorded through strace"
        )
