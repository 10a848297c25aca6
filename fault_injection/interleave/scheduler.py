"""A cooperative scheduler: of the threads of a trial exactly one runs, and where another could go on, a plan decides.

A point of choice is a place at which the running thread has done something that another thread can see, or cannot go
on, while another one can. To leave a thread that could go on is a preemption (context bounding: Musuvathi and Qadeer,
PLDI 2007); to choose among others once it waits or has ended costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fault_injection.interleave.real import REAL

SPINS = 3_000
"""Steps that one thread may go without a switch before another one gets its turn: it may be waiting in a loop."""
MOST_STEPS = 60_000
"""Steps after which a run is said never to end."""
MOST_ALARMS = 400
"""Waits that may run out in one run, with nobody else to go on, before it is said never to end."""
_MASK = (1 << 61) - 1


class AbandonedError(BaseException):
    """Ends a thread of a run that is over, wherever it waits; a run's own code must not catch it."""


class DivergedError(RuntimeError):
    """A run does not have the choice that a plan makes."""


@dataclass(frozen=True)
class Point:
    """A place at which more than one thread could go on.

    Args:
        current: the thread that came there.
        could_go: whether it could go on itself.
        options: the threads that could; the first is the default.
        late: those of them that could only because the time of their wait runs out.
        chosen: the thread that went on.
        what: what the current thread was about to do.
        state: a number that is equal where everything that threads can see has happened in the same order.
    """

    current: int
    could_go: bool
    options: tuple[int, ...]
    late: frozenset[int]
    chosen: int
    what: str
    state: int

    def cost(self, option: int) -> int:
        """How many preemptions it takes to go on with this thread."""
        if option in self.late:
            return 1
        return int(self.could_go and option != self.current)


def _closed() -> Any:
    lock = REAL["lock"]()
    lock.acquire()
    return lock


@dataclass(eq=False)
class Task:
    """One thread of a run.

    Args:
        number: 0 for the thread that makes the calls, then in the order in which they were started.
        name: of the thread.
    """

    number: int
    name: str
    gate: Any = field(default_factory=_closed)
    ended: Any = field(default_factory=_closed)
    done: bool = False
    abandoned: bool = False
    ready: Callable[[], bool] | None = None
    deadline: float | None = None
    timed_out: bool = False
    visible: int = 1
    seen: int = 0
    count: int = 0
    made: int = 0
    last: int = 0
    held: list[object] = field(default_factory=list)
    clock: dict[int, int] = field(default_factory=dict)
    """How far of each thread it has learned that it has got: a vector clock, in which locks do not count."""

    def __post_init__(self) -> None:
        self.clock[self.number] = 1

    def can_go(self) -> bool:
        """Whether what it waits for has come."""
        return not self.done and (self.ready is None or self.ready())


def _merge(into: dict[int, int], other: dict[int, int]) -> None:
    for number, count in other.items():
        into[number] = max(into.get(number, 0), count)


class Scheduler:
    """Runs the threads of one trial one at a time.

    Args:
        decisions: which thread goes on at which point of choice, by their numbers; elsewhere the default does.
        early: whether a wait with a timeout may run out while others could go on.
        watched: names of attributes whose uses are points of choice.
        on_hang: called when no thread can go on, or none ever will stop.
        on_switch: told of every decision that was made other than by default.
    """

    def __init__(
        self,
        decisions: Mapping[int, int] | None = None,
        *,
        early: bool = False,
        watched: frozenset[str] = frozenset(),
        on_hang: Callable[[], None] = lambda: None,
        on_switch: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.decisions = dict(decisions or {})
        self.early = early
        self.watched = watched
        self.on_hang, self.on_switch = on_hang, on_switch
        self.main = Task(0, "caller")
        self.tasks = [self.main]
        self.threads: dict[int, Task] = {threading.get_ident(): self.main}
        self.points: list[Point] = []
        self.clock = 0.0
        self.trace: Any = None
        self.over = self.hung = False
        self.diverged = ""
        self._quiet = False
        self._steps = self._spun = self._alarms = 0
        self._state = 0
        self._latest: dict[object, int] = {}
        self._told: dict[object, dict[int, int]] = {}

    def task(self) -> Task | None:
        """The task of the calling thread; None for a thread that is not of the run."""
        return self.threads.get(threading.get_ident())

    # What the threads do.

    def did(self, task: Task, where: object) -> None:
        """Note that a thread did something at a place that other threads may look at.

        Args:
            task: the thread.
            where: the lock, queue or attribute; equal in every run for the same one.
        """
        if self.over:
            return
        task.visible += 1
        task.count += 1
        done = hash((task.number, task.count, where, self._latest.get(where, 0), task.last)) & _MASK
        task.last = self._latest[where] = done
        self._state = (self._state + done) & _MASK

    def tell(self, task: Task, place: object) -> None:
        """Note that what a thread has done so far comes before what others do once they `hear` of this place."""
        _merge(self._told.setdefault(place, {}), task.clock)
        task.clock[task.number] += 1

    def hear(self, task: Task, place: object) -> None:
        """Note that a thread has learned of what was told at a place."""
        _merge(task.clock, self._told.get(place, {}))

    def reach(
        self, task: Task, what: str, ready: Callable[[], bool] | None = None, timeout: float | None = None
    ) -> bool:
        """Come to a place at which another thread may go on.

        Args:
            task: the calling thread.
            what: what it is about to do, in words.
            ready: whether it can go on; None for always.
            timeout: seconds of the run's own clock after which it goes on all the same.

        Returns:
            Whether it goes on because it could (False: the time ran out).
        """
        if self.over:
            if ready is None or ready():
                return True
            raise AbandonedError
        self.step()
        could_go = ready is None or ready()
        if could_go and self._spun < SPINS and (self._quiet or task.visible == task.seen):
            return True
        task.ready = ready
        task.deadline = None if timeout is None else self.clock + max(timeout, 0.0)
        chosen = self._choose(task, what, could_go=could_go)
        self._go(task, chosen)
        task.ready, task.seen = None, task.visible
        timed_out, task.timed_out, task.deadline = task.timed_out, False, None
        return not timed_out

    @property
    def steps(self) -> int:
        """How many steps the threads of the run have made."""
        return self._steps

    def step(self) -> None:
        """Count one step of the running thread, so that a loop without an end is noticed."""
        self._steps += 1
        self._spun += 1
        if self._steps > MOST_STEPS and not self.over:
            self._hang()
            task = self.task()
            if task is not self.main and task is not None:
                self._park(task)
            raise AbandonedError

    def rest(self) -> None:
        """Let every other thread go on until it waits or has ended; called by the calling thread of the trial."""
        if self.over:
            return
        self._quiet = True
        try:
            while any(task.can_go() for task in self.tasks if task is not self.main):
                self.main.ready = lambda: not any(t.can_go() for t in self.tasks if t is not self.main)
                self._go(self.main, self._choose(self.main, "rest", could_go=False))
                self.main.ready = None
        finally:
            self._quiet = False

    def started(self, task: Task, by: Task) -> None:
        """Take a thread in that another one has started."""
        self.tell(by, task)
        self.hear(task, task)
        self.tasks.append(task)

    def enter(self, task: Task) -> None:
        """Begin as a thread of the run: wait until it is its turn."""
        self.threads[threading.get_ident()] = task
        task.gate.acquire()
        if task.abandoned:
            raise AbandonedError

    def leave(self, task: Task) -> None:
        """End as a thread of the run."""
        task.done = True
        self.threads.pop(threading.get_ident(), None)
        if not self.over:
            self.did(task, "threads")
            self.tell(task, task)
            chosen = self._choose(task, "end", could_go=False)
            if chosen is not None:
                chosen.gate.release()
        task.ended.release()

    def finish(self) -> None:
        """End what is left of the run; called by the calling thread of the trial when the trial is over."""
        self.rest()
        self.over = True
        for task in self.tasks:
            if task is not self.main and not task.done:
                task.abandoned = True
                task.gate.release()
                task.ended.acquire(True, 5)

    # Who goes on.

    def _go(self, task: Task, chosen: Task | None) -> None:
        if chosen is task:
            if task.abandoned:
                raise AbandonedError
            return
        if chosen is not None:
            self._spun = 0
            chosen.gate.release()
        self._park(task)

    def _park(self, task: Task) -> None:
        task.gate.acquire()
        if task.abandoned:
            raise AbandonedError

    def _choose(self, task: Task, what: str, *, could_go: bool) -> Task | None:
        """The task that goes on; None when nobody can, of which the calling thread of the trial has been told."""
        others = [each for each in self.tasks if each is not task and each.can_go()]
        if others and could_go and self._spun >= SPINS:
            self._spun = 0
            could_go = False
        options = [task, *others] if could_go else others
        late = []
        if self.early and not self._quiet:
            late = [t for t in self.tasks if t not in options and not t.done and t.deadline is not None]
        if not options:
            return self._alarm(task)
        if self._quiet or len(options) + len(late) == 1:
            return options[0]
        chosen = self._decide(task, what, options, late, could_go=could_go)
        if chosen in late:
            self._ring(chosen)
        return chosen

    def _decide(
        self, task: Task, what: str, options: list[Task], late: list[Task], *, could_go: bool
    ) -> Task:
        wanted = self.decisions.get(len(self.points))
        chosen = options[0]
        if wanted is not None:
            found = [each for each in (*options, *late) if each.number == wanted]
            if found:
                chosen = found[0]
                self.on_switch(
                    f"at point {len(self.points)}, {task.name} before {what}: {chosen.name} goes on"
                )
            else:
                self.diverged = f"thread {wanted} cannot go on at point {len(self.points)}"
        numbers = tuple(each.number for each in (*options, *late))
        left_out = frozenset(each.number for each in late)
        self.points.append(Point(task.number, could_go, numbers, left_out, chosen.number, what, self._state))
        return chosen

    def _alarm(self, task: Task) -> Task | None:
        """Nobody can go on: the wait that ends first runs out, or the run hangs."""
        timed = [each for each in self.tasks if not each.done and each.deadline is not None]
        self._alarms += 1
        if timed and self._alarms <= MOST_ALARMS and not self._quiet:
            first = min(timed, key=lambda each: each.deadline or 0.0)
            self._ring(first)
            return first
        self._hang()
        return self.main if task is self.main else None

    def _ring(self, task: Task) -> None:
        self.clock = max(self.clock, task.deadline or 0.0)
        task.timed_out = True

    def _hang(self) -> None:
        self.over = self.hung = True
        self.on_hang()
        self.main.abandoned = True
        if self.task() is not self.main:
            self.main.gate.release()
