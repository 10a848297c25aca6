"""A trial: drives one target through one scenario under one plan and writes down what happens."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from fault_injection.batches import expected_rows
from fault_injection.errors import Registry
from fault_injection.gate import Gate
from fault_injection.history import (
    Ended,
    Event,
    Failure,
    Final,
    HandedOver,
    Hung,
    Logged,
    Mark,
    Older,
    Operated,
    Seen,
    Threads,
    Waited,
)
from fault_injection.watch import Watchdog, asleep

if TYPE_CHECKING:
    from fault_injection.injector import Injector, Strike
    from fault_injection.op import Op
    from fault_injection.targets.base import Batch, Target


class Look(Protocol):
    """Reads what is on disk, independently of the target."""

    def __call__(self) -> dict[str, bytes]:
        """The content of every file, by its path relative to the root."""

    def read(self, name: str) -> bytes | None:
        """The content of one file, or None where there is none."""


LOOK = 0.0004 if sys.platform == "linux" else 0.02
"""Seconds between two looks at the threads while waiting until the writer rests."""
LINGER = 0.006
"""Seconds that a thread must have slept after a drain before it counts as left behind."""


class Trial:
    """The hands of a scenario: every call on the target goes through here and into the history.

    Args:
        make: makes a fresh target.
        root: the directory of the trial.
        look: reads files below the root behind the fault layer's back.
        sink: gets every event as it happens, besides `events`.
        on_hang: called after a hang was written down; it must not return where the trial can go on.
        first: the number of the first dump.
        folder: where dumps go that name no directory, relative to the root.
    """

    def __init__(
        self,
        make: Callable[[], Target],
        root: str,
        look: Look,
        sink: Callable[[Event], None] | None = None,
        on_hang: Callable[[], None] | None = None,
        first: int = 0,
        folder: str = "dump",
    ) -> None:
        self.make = make
        self.root = root
        self.folder = folder
        self.events: list[Event] = []
        self.target: Target = make()
        self.injector: Injector | None = None
        self.caller = threading.current_thread()
        self.before = set(threading.enumerate())
        self.look = look
        self._sink = sink
        self.on_hang = on_hang
        self.caught: BaseException | None = None
        self.keeps = False
        """Whether `caught` keeps what the last call raised, for a process that is to end of it."""
        self._registry = Registry(self.root)
        self._hold = Gate()
        self._hold.open()
        self._last: dict[str, bytes] = {}
        self._disturbed = False
        self._touched: dict[int, tuple[str, str]] = {}
        self._dumps = first
        self._now: tuple[str, int | None] = ("", None)
        self._lock = threading.RLock()
        self._watchdog = Watchdog(self._progress, self._is_held, self._waits, self._hangs)
        self.before.add(self._watchdog.thread)

    # What the scenario says.

    def open(self) -> Failure | None:
        """Start the writer."""
        return self._call("open", None, self.target.open)

    def dump(self, batch: Batch, directory: str | None = None, spelled: str | None = None) -> Failure | None:
        """Hand over a batch.

        Args:
            batch: what to hand over.
            directory: relative to the root; by default the trial's folder.
            spelled: how the writer is told of that directory; by default its absolute path.

        Returns:
            What the call raised, or None.
        """
        directory = directory or self.folder
        path = os.path.join(self.root, directory) if spelled is None else spelled
        number = self._hand_over(batch, directory)
        return self._call("dump", number, lambda: self.target.dump(path, batch))

    def dump_within(self, batch: Batch, call: Callable[[], Any], directory: str = "dump") -> None:
        """Write down a dump that the target makes by itself, inside `fit`.

        Args:
            batch: what it hands over.
            call: the target's own call; what it raises is written down and raised on.
            directory: where it dumps, relative to the root.
        """
        number, outer = self._hand_over(batch, directory), self._now
        caught: list[BaseException] = []

        def kept() -> None:
            try:
                call()
            except BaseException as error:
                caught.append(error)
                raise

        self._call("dump", number, kept)
        self._now = outer
        self._watchdog.begin()
        if caught:
            raise caught[0]

    def _hand_over(self, batch: Batch, directory: str) -> int:
        rows = expected_rows(batch, gts=getattr(self.target, "_takes_gts", True))
        with self._lock:
            # Noted under the same lock: a dump's number is its place among those of the history.
            number, self._dumps = self._dumps, self._dumps + 1
            self.note(HandedOver(number, batch.step, directory, rows))
        return number

    def drain(self, timeout: float | None = None, *, threads: bool = True) -> Failure | None:
        """Drain the target, then look for threads that it left.

        Args:
            timeout: seconds, for targets that claim `deadline`.
            threads: whether the worker must have ended.

        Returns:
            What the call raised, or None.
        """
        failure = self._call(
            "drain" if timeout is None else "drain-deadline", None, lambda: self.target.drain(timeout)
        )
        if threads:
            self.note(Threads(self._left_behind()))
        return failure

    def run(self, name: str, call: Callable[[], Any]) -> Failure | None:
        """Make any other call on the target's object, such as `fit`."""
        return self._call(name, None, call)

    def new_run(self) -> None:
        """Put a fresh writer in the place of the old one, as a restarted training would."""
        options = self.target.warn, self.target.exit_deadline
        self.target = self.make()
        self.target.warn, self.target.exit_deadline = options
        self.mark("new run")
        self.open()

    def older(self, name: str, content: bytes) -> None:
        """Lay down a complete file of an earlier run (before the faults are armed)."""
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        self.note(Older(name, content))
        self._last[name] = content

    def mark(self, name: str, text: str = "") -> None:
        """Write down a turn of the scenario."""
        self.note(Mark(name, text))

    def note(self, event: Event) -> None:
        """Write down an event."""
        with self._lock:
            self.events.append(event)
            if self._sink is not None:
                self._sink(event)

    @contextmanager
    def held(self, *, hold: bool = True) -> Iterator[None]:
        """While this lasts, nobody but the caller gets through to the disk (or everybody does, if not `hold`)."""
        (self._hold.close if hold else self._hold.open)()
        try:
            yield
        finally:
            self._hold.open()

    def let_go(self) -> None:
        """Let a held disk go on, but for the plan's stuck operations."""
        self._hold.open()

    @contextmanager
    def free(self) -> Iterator[None]:
        """While this lasts, a held disk is not held."""
        was_open = self._hold.is_open
        self._hold.open()
        try:
            yield
        finally:
            if not was_open:
                self._hold.close()

    def release(self) -> None:
        """Let the disk go on: the hold and the plan's stuck operations."""
        self._hold.open()
        if self.injector is not None:
            self.injector.gate.open()

    def await_end(self) -> None:
        """Let a stuck operation go on when the end of the process waits for it, for targets that promise no deadline."""
        self._now = ("the exit of the process", None)
        self._watchdog.begin()

    def settle(self, looks: int = 3) -> None:
        """Wait until the writer rests: no operation, and every thread but ours asleep.

        Args:
            looks: how many looks in a row must find it at rest.
        """
        quiet, last, nap = 0, -1, threading.Event()
        for _ in range(5000):
            others = [
                t for t in threading.enumerate() if t is not self.caller and t is not self._watchdog.thread
            ]
            if not others:
                return
            now = self._progress()
            resting = now == last and all(asleep(thread) is not False for thread in others)
            quiet, last = (quiet + 1 if resting else 0), now
            if quiet >= looks:
                return
            nap.wait(LOOK)

    def observe_now(self) -> None:
        """Look at the directory outside of any operation."""
        self._see(0)

    def finish(self) -> None:
        """Read what is on disk behind the writer's back and end the trial."""
        self.release()
        self._see(0)
        self.note(Final(tuple(sorted(self.look().items()))))
        self.close()

    def close(self) -> None:
        """Stop watching and let go of everything."""
        self._watchdog.stop()
        self._registry = Registry(self.root)

    # What the fault layer says.

    def observe(self, op: Op, strike: Strike) -> None:
        """Write an operation down, look at the directory, and wait where the scenario holds the disk."""
        with self._lock:
            fault = strike.fault
            removed = fault is not None and fault.name in {"vanish", "replace"}
            self._see(strike.number, None if self._disturbed else op)
            self._disturbed = removed
            partial = strike.room > 0
            self.note(
                Operated(
                    strike.number,
                    op,
                    "" if fault is None else str(fault),
                    0 if partial or not fault else fault.kind.errno,
                    strike.room,
                )
            )
        if op.caller:
            if fault is not None and fault.name == "stuck":
                self._waits()
        elif op.kind != "thread":
            self._hold.wait()

    def _see(self, number: int, op: Op | None = None) -> None:
        """Note what changed under the names `*.jsonl`: all of them, or where an operation can have changed something."""
        if op is None or number == 1:
            now = {name: content for name, content in self.look().items() if name.endswith(".jsonl")}
            names = now.keys() | self._last.keys()
        else:
            # The last operation of a thread may still be under way, and nothing else changes files.
            names = {name for pair in self._touched.values() for name in pair if name.endswith(".jsonl")}
            now = {name: content for name in names if (content := self.look.read(name)) is not None}
        changed = [(name, now.get(name)) for name in sorted(names) if now.get(name) != self._last.get(name)]
        if op is not None:
            self._touched[threading.get_ident()] = (op.path, op.target)
        if not changed:
            return
        self.note(Seen(number, tuple(changed)))
        for name, content in changed:
            if content is None:
                self._last.pop(name, None)
            else:
                self._last[name] = content

    # The calls.

    def _call(self, name: str, dump: int | None, call: Callable[[], Any]) -> Failure | None:
        self._now = (name, dump)
        caught: BaseException | None = None
        self._watchdog.begin()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - whatever it raises is what the trial is about
            caught = error
        self._watchdog.end()
        failure = None if caught is None else self._registry.failure(caught)
        self.caught = caught if self.keeps else None
        self.note(Ended(name, dump, failure))
        return failure

    def _left_behind(self) -> tuple[str, ...]:
        """The threads that sleep on after the drain; one that is still ending is given the time to end."""
        left = [t for t in threading.enumerate() if t not in self.before and t is not self._watchdog.thread]
        slept = 0.0
        while left and slept < LINGER:
            left[0].join(LOOK)
            left = [thread for thread in left if thread.is_alive()]
            slept = slept + LOOK if all(asleep(thread) is not False for thread in left) else 0.0
        return tuple(sorted(thread.name for thread in left))

    def _progress(self) -> int:
        return self.injector.operations if self.injector is not None else 0

    def _is_held(self) -> bool:
        stuck = self.injector is not None and bool(self.injector.gate.waiting)
        return stuck or bool(self._hold.waiting)

    def _waits(self) -> None:
        self.note(Waited(*self._now))
        self.release()

    def _hangs(self) -> None:
        self.note(Hung(*self._now))
        if self.on_hang is not None:
            self.on_hang()


@contextmanager
def listening(trial: Trial) -> Iterator[None]:
    """Write down what the target logs and warns about while this lasts."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                text += f"\n{record.exc_info[1]!r}"
            trial.note(Logged(record.levelname, text.replace(trial.root, "ROOT")))

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        trial.note(Logged(category.__name__, str(message).replace(trial.root, "ROOT")))

    handler, root = Handler(logging.WARNING), logging.getLogger()
    root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            yield
    finally:
        root.removeHandler(handler)


def quiet_threads() -> None:
    """Keep the traceback of a dying worker from stderr; the trial has what it needs in its history."""
    threading.excepthook = lambda _: None
    sys.unraisablehook = lambda _: None
