"""The parent of a trial through the kernel: receives what the child tells, and answers what its calls ask."""

from __future__ import annotations

import array
import os
import pickle
import select
import signal
import socket
import time
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

from fault_injection.forks import reaper
from fault_injection.history import Event, Operated, Seen
from fault_injection.look import DiskLook
from fault_injection.mechanisms.kernel.supervisor import Supervisor
from fault_injection.plan import Plan
from fault_injection.watch import ENDLESS

if TYPE_CHECKING:
    from fault_injection.injector import Strike
    from fault_injection.op import Op

LONGEST = 60.0
"""Seconds of silence after which a child is killed; it tells of hangs by itself long before."""
MOST_ASKED = 10 * ENDLESS
"""Calls after which a child is killed that goes on asking: its own watchdog never gets a turn."""


class Watch:
    """Receives what a child tells and asks, until it has ended.

    Args:
        child: the process.
        read: the end of the pipe that it tells its events through.
        root: the directory of the trial.
        plan: what fails.
    """

    def __init__(self, child: int, read: int, root: str, plan: Plan) -> None:
        self.events: list[Event] = []
        self.asked: list[Operated] = []
        self.supervisor = Supervisor(child, root, plan, self._observe)
        self.hung = False
        self.child, self._read = child, read
        self._look, self._last = DiskLook(root), dict[str, bytes]()
        self._rest = b""

    def until_the_end(self, ours: socket.socket | None) -> int:
        """Serve the child.

        Args:
            ours: brings the listener of the child's calls, or None where they are not asked about.

        Returns:
            The exit code, minus the number of the signal.
        """
        listener = _received(ours) if ours is not None else -1
        reap, poll = reaper(self.child), select.poll()
        for fd in (self._read, listener):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        heard = time.monotonic()
        try:
            while (code := reap()) is None:
                ready = {fd for fd, what in poll.poll(5) if what & select.POLLIN}
                if ready:
                    # A child that tells or asks is at work: on a busy machine, thousands of calls take their time.
                    heard = time.monotonic()
                self._pump()
                if listener in ready:
                    self.supervisor.answer(listener)
                if time.monotonic() - heard > LONGEST or len(self.asked) > MOST_ASKED:
                    self.hung = True
                    os.kill(self.child, signal.SIGKILL)
            self._pump()
            return code
        finally:
            if listener >= 0:
                os.close(listener)

    def _pump(self) -> None:
        while select.select([self._read], [], [], 0)[0]:
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                # The end may come right behind the last events.
                break
            self._rest += chunk
        events, self._rest = _events(self._rest)
        self.events += events

    def see(self, number: int) -> None:
        """Note what changed under the names `*.jsonl`."""
        now = {name: content for name, content in self._look().items() if name.endswith(".jsonl")}
        names = sorted(now.keys() | self._last.keys())
        changed = tuple((name, now.get(name)) for name in names if now.get(name) != self._last.get(name))
        self._last = now
        if changed:
            self.events.append(Seen(number, changed))

    def _observe(self, op: Op, strike: Strike) -> None:
        self.see(strike.number)
        fault = strike.fault
        number = 0 if strike.room > 0 or fault is None else fault.kind.errno
        operated = Operated(strike.number, op, "" if fault is None else str(fault), number, strike.room)
        self.asked.append(operated)
        self.events.append(operated)


def _events(data: bytes) -> tuple[list[Event], bytes]:
    """The events that are whole, and the beginning of the one that is not yet."""
    stream, events, place = BytesIO(data), [], 0
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            events.append(pickle.load(stream))  # noqa: S301 - written by this package's own child
            place = stream.tell()
    return events, data[place:]


def _received(ours: socket.socket) -> int:
    """The descriptor that the child hands over, or -1 where it ended before."""
    ours.settimeout(LONGEST)
    _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    numbers = array.array("i")
    for _, _, data in ancillary:
        numbers.frombytes(data[:4])
    return numbers[0] if numbers else -1


# The life of the child.
