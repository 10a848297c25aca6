"""The child of a trial through the kernel: it enters the faulty system, runs the scenario, tells, and ends."""

from __future__ import annotations

import array
import os
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import fault_injection.trial
from fault_injection import watch
from fault_injection.history import Event, Mark
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk, originals
from fault_injection.mechanisms.kernel import notify, system
from fault_injection.mechanisms.kernel.account import STRUCK
from fault_injection.mechanisms.kernel.notes import Note
from fault_injection.mechanisms.kernel.stages import Stage, errors_of
from fault_injection.plan import Plan
from fault_injection.scenario import Scenario, prepared
from fault_injection.targets.errors import TargetError
from fault_injection.tell import telling
from fault_injection.trial import Trial, listening, quiet_threads

if TYPE_CHECKING:
    from fault_injection.subject import Subject


class Blind:
    """Sees no file: for a child that is looked at from outside, so that it makes no call on a file by itself."""

    def __call__(self) -> dict[str, bytes]:
        """Nothing."""
        return {}

    def read(self, name: str) -> bytes | None:
        """Nothing, whatever the name."""
        del name
        return None


class Regular(DiskLook):
    """Reads regular files only: a link to /dev/full has no end."""

    def read(self, name: str) -> bytes | None:
        """The content of one file, or None where there is none."""
        return None if os.path.islink(os.path.join(self._root, name)) else super().read(name)


@dataclass(frozen=True)
class Course:
    """What a child is to do.

    Args:
        stage: makes the plan real.
        subject: what is tested, loaded.
        scenario: the course of events.
        plan: what fails.
        seed: chooses the batches.
        root: the directory of the trial.
        dumps: the number of the first dump.
        prepare: whether the scenario's preparation is still to be done.
    """

    stage: Stage
    subject: Subject
    scenario: Scenario
    plan: Plan
    seed: int
    root: str
    dumps: int = 0
    prepare: bool = True


def live(course: Course, write: int, theirs: socket.socket) -> None:
    """Run the trial; never returns."""
    tell = telling(write)
    try:
        quiet_threads()
        _try(course, tell, theirs)
    except TargetError as refusal:
        tell(Mark("refused", str(refusal)))
    except BaseException:  # noqa: BLE001 - told to the parent, which raises it
        with suppress(OSError):
            tell(Mark("broken", traceback.format_exc()))
    finally:
        os._exit(0)


def _try(course: Course, tell: Callable[[Event], None], theirs: socket.socket) -> None:
    stage, plan, root = course.stage, course.plan, course.root
    look = Regular(root) if stage.sees else Blind()
    stage.ground(root, plan)
    trial = Trial(course.subject.make, root, look, sink=tell, on_hang=lambda: os._exit(0), first=course.dumps)
    if course.prepare:
        prepared(trial, course.scenario, course.seed, plan)
    around = stage.enter(root, plan)
    note = Note(errors_of(plan), lambda number, name: trial.mark(STRUCK, f"{number} {name}"), around)
    note.install()
    observe = note.observing(trial.observe)
    with listening(trial), disk.armed(root, Plan(), observe=observe) as injector:
        trial.injector = injector
        if stage.traces:
            system.allow_tracing()
            theirs.send(b"x")
            theirs.recv(1)
        if stage.asks:
            _tell_waiting_from_resting()
            _hand_over(theirs)
        course.scenario.run(trial, course.seed)
        trial.release()
        trial.settle()
        if unseen := injector.unseen():
            trial.mark("unseen", unseen[0])
        if stage.sees:
            trial.finish()
        # The process ends here: what closes the layer would only add calls of its own.
        os._exit(0)


def _tell_waiting_from_resting() -> None:
    """A thread whose call waits for this side's answer sleeps, but it is no thread at rest."""
    waiting = {str(number).encode() for number in notify.numbers()}
    real = watch.asleep

    def asleep(thread: threading.Thread) -> bool | None:
        sleeps = real(thread)
        if not sleeps:
            return sleeps
        try:
            with originals.open(f"/proc/self/task/{thread.native_id}/syscall", "rb", buffering=0) as file:
                return file.read(64).split(b" ")[0] not in waiting
        except OSError:
            return sleeps

    watch.asleep = asleep
    vars(fault_injection.trial)["asleep"] = asleep


def _hand_over(theirs: socket.socket) -> None:
    """From here on the parent is asked about every call on a file."""
    listener = notify.install()
    theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)
