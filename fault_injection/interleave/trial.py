"""The hands of a scenario in a run whose threads are scheduled: the same events, and nothing that waits for real."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fault_injection.history import Ended, Event, Failure, Final, HandedOver, Hung, Threads
from fault_injection.interleave.scheduler import AbandonedError, Scheduler
from fault_injection.interleave.threads import BESIDE
from fault_injection.mechanisms.guard import bypass
from fault_injection.trial import Trial

if TYPE_CHECKING:
    from fault_injection.injector import Strike
    from fault_injection.op import Op

HISTORY = "history"
"""The place that stands for what is written down, and for the final names."""
_NAMING = frozenset({"rename", "link", "unlink"})


class SwitchedTrial(Trial):
    """A trial whose threads a scheduler runs, one at a time; made before the run begins.

    Args:
        arguments, keywords: as for `Trial`.
    """

    scheduler: Scheduler

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._calls: dict[int, tuple[int, str, int | None]] = {}
        self._drained: dict[str, bytes] | None = None

    def together(self, *bodies: Callable[[], object]) -> None:
        """Do the first in the calling thread and each of the others in a thread of its own, at the same time."""
        threads = [threading.Thread(target=body, name=f"{BESIDE}{i}") for i, body in enumerate(bodies[1:], 1)]
        with bypass():
            # They are the harness's own, which no plan strikes.
            for thread in threads:
                thread.start()
        bodies[0]()
        for thread in threads:
            thread.join()

    def drain(self, timeout: float | None = None, *, threads: bool = True) -> Failure | None:
        """Drain the target; what is on disk when the last one returns is what counts, since the process may end then."""
        failure = super().drain(timeout, threads=False)
        self._drained = self.look()
        if threads:
            self.note(Threads(self._left_behind()))
        return failure

    def drain_beside(self) -> None:
        """Drain while another call is under way."""
        self.run("drain beside another call", self.target.drain)

    def note(self, event: Event) -> None:
        """Write down an event, unless the run is over because nothing in it could go on."""
        if self.scheduler.over:
            return
        super().note(event)
        if isinstance(event, (HandedOver, Ended)):
            self._visible()

    def observe(self, op: Op, strike: Strike) -> None:
        """Write an operation down; one on final names, or that is struck, is seen by the other threads."""
        if self.scheduler.over:
            return
        super().observe(op, strike)
        final = any(path.endswith(".jsonl") for path in (op.path, op.target))
        if (
            strike.fault is not None
            or op.kind in _NAMING
            or (final and op.kind in {"open", "close", "write"})
        ):
            self._visible()

    def hangs(self) -> None:
        """Write down which call will never end."""
        _, name, dump = min(self._calls.values(), default=(0, "drain", None))
        with self._lock:
            self.events.append(Hung(name, dump))

    def finish(self) -> None:
        """Look at what is on disk: when the last drain had returned, or now where there was none."""
        self._see(0)
        found = self.look() if self._drained is None else self._drained
        self.note(Final(tuple(sorted(found.items()))))

    def settle(self, looks: int = 3) -> None:  # noqa: ARG002 - as in a trial that waits
        """Let every other thread go on until it waits."""
        self.scheduler.rest()

    def _visible(self) -> None:
        task = self.scheduler.task()
        if task is not None:
            self.scheduler.did(task, HISTORY)

    def _call(self, name: str, dump: int | None, call: Callable[[], Any]) -> Failure | None:
        task = self.scheduler.task()
        number = -1 if task is None else task.number
        self._calls[number] = (number, name, dump)

        def traced() -> None:
            sys.settrace(self.scheduler.trace)
            try:
                call()
            finally:
                sys.settrace(None)

        failure = super()._call(name, dump, traced)
        if self.scheduler.over:
            raise AbandonedError
        del self._calls[number]
        return failure

    def _left_behind(self) -> tuple[str, ...]:
        self.scheduler.rest()
        return tuple(
            sorted(t.name for t in self.scheduler.tasks if t is not self.scheduler.main and not t.done)
        )
