"""The crew: worker processes that run the units of one subject, and are replaced where they hang or die."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fault_injection.history import History
from fault_injection.scenario import Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.scratch import scratch_directory
from fault_injection.subject import Spec
from fault_injection.sweep import TrialResult
from fault_injection.targets.errors import TargetError
from fault_injection.wire import DEPTH, Depth, Job, Reply, send

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_HANGS = 2
"""Trials of one unit that may hang before the rest of the unit is left out, since each costs more than a second."""

PROCESSES = min(8, 2 * (os.cpu_count() or 1))
"""Worker processes of a run: most of a trial is waiting for threads to come to rest, so two for each core keep them busy."""

SPARED = 1.0
"""Seconds for which a run that ends early waits for the trials that are under way."""


class HarnessError(RuntimeError):
    """A defect of the harness itself, with the traceback of the process that met it."""


@dataclass(frozen=True)
class UnitResult:
    """The results of one unit.

    Args:
        unit: what was run.
        results: of every trial that counts.
        cut_short: whether the rest of the unit was left out because calls hung.
    """

    unit: Unit
    results: tuple[TrialResult, ...]
    cut_short: bool = False


class Pool:
    """Worker processes that are kept between the runs of one command, for subjects that take long to import.

    Args:
        size: how many each run has, where it does not say so itself.
    """

    def __init__(self, size: int = PROCESSES) -> None:
        self.size = size
        self._idle: list[_Worker] = []
        self._opened = ExitStack()
        self.scratch = ""

    def __enter__(self) -> Self:
        self.scratch = self._opened.enter_context(scratch_directory())
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().end()
        self._opened.close()

    @contextmanager
    def worker(self) -> Iterator[_Worker]:
        """A worker that nobody else has while this lasts."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self.scratch)
        try:
            yield worker
        finally:
            self._idle.append(worker)


class Crew:
    """Worker processes for one subject.

    Args:
        spec: the subject.
        seed: the seed of the run.
        depth: how far examples go.
        size: the number of processes, by default the pool's.
        pool: where the processes come from and go back to; by default they end with each call.
    """

    def __init__(
        self,
        spec: Spec,
        seed: int,
        depth: Depth = DEPTH,
        size: int | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.spec = spec
        self.seed = seed
        self.depth = depth
        self.pool = pool
        self.size = size or (PROCESSES if pool is None else pool.size)
        self._stopped = threading.Event()
        self._workers: list[_Worker] = []
        # Scenarios in which the subject hangs though nothing fails: their sweeps would only hang again and again.
        self._hopeless: set[str] = set()

    def run(
        self,
        units: tuple[Unit, ...],
        laws: frozenset[str],
        tell: Callable[[UnitResult], object] | None = None,
        shuffle: int | None = None,
    ) -> tuple[UnitResult, ...]:
        """Run units on all processes.

        Args:
            units: what to run.
            laws: the laws to judge by.
            tell: called with each result as it comes, one at a time; what it returns as true ends the run early.
            shuffle: chooses another order in which they are begun.

        Returns:
            The results in the order of the units.

        Raises:
            TargetError: the subject cannot be loaded or driven.
            HarnessError: the harness itself failed.
        """
        shift = _Shift(units, shuffle, tell)
        with self._pool() as pool:

            def work() -> None:
                try:
                    with pool.worker() as worker:
                        self._workers.append(worker)
                        shift.busy[threading.current_thread()] = worker
                        while not self._stopped.is_set() and (task := shift.next()) is not None:
                            shift.add(task, self._unit(worker, units[task], laws, pool.scratch))
                except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                    shift.fail(error)
                shift.hurry()

            threads = [
                threading.Thread(target=work, name=f"fault_injection-crew-{i}") for i in range(self.size)
            ]
            for thread in threads:
                thread.start()
            self._join(threads)
        return shift.results()

    def _join(self, threads: list[threading.Thread]) -> None:
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self._stopped.set()
            # Nobody waits for what they are at: it may be an hour of examples.
            for worker in self._workers:
                worker.kill()
            for thread in threads:
                thread.join()
            raise

    def replay(self, scenario: str, plan: str, laws: frozenset[str]) -> tuple[TrialResult | None, History]:
        """Run one trial and bring its history back.

        Args:
            scenario: the name of the scenario.
            plan: the text of the plan.
            laws: the laws to judge by.

        Returns:
            What the judge says (None when the plan struck nothing), and the history.
        """
        with self._pool() as pool, pool.worker() as worker:
            unit = Unit(scenario, plan=plan)
            reply = worker.ask(Job(self.spec, self.seed, pool.scratch, unit, laws, self.depth, history=True))
        if not reply.histories:
            raise TargetError(
                f"scenario {scenario}: the fake file system lacks a call that this writer makes; "
                "look at its twin on the disk"
            )
        return (reply.results[0] if reply.results else None), reply.histories[0]

    def _pool(self) -> AbstractContextManager[Pool]:
        return nullcontext(self.pool) if self.pool is not None else Pool()

    def _unit(self, worker: _Worker, unit: Unit, laws: frozenset[str], scratch: str) -> UnitResult:
        results: list[TrialResult] = []
        hangs, rest = 0, unit
        if unit.scenario in self._hopeless:
            return UnitResult(unit, (), cut_short=True)
        while True:
            wanted = laws & (SCENARIOS[unit.scenario].laws | {"E8"})
            reply = worker.ask(Job(self.spec, self.seed, scratch, rest, wanted, self.depth))
            results += reply.results
            if not reply.hung_at:
                return UnitResult(unit, tuple(results))
            hangs += 1
            if results[-1].plan == "none":
                self._hopeless.add(unit.scenario)
            if unit.family is None or unit.most or hangs >= MOST_HANGS or unit.scenario in self._hopeless:
                return UnitResult(unit, tuple(results), cut_short=unit.family is not None)
            rest = replace(unit, start=reply.hung_at + 1)


class _Shift:
    """What the threads of one run share: the units that wait, and what became of the others.

    Args:
        units: what to run.
        shuffle: chooses another order in which they are begun.
        tell: called with each result; what it returns as true ends the run early.
    """

    def __init__(
        self, units: tuple[Unit, ...], shuffle: int | None, tell: Callable[[UnitResult], object] | None
    ) -> None:
        order = list(range(len(units)))
        if shuffle is not None:
            random.Random(shuffle).shuffle(order)  # noqa: S311 - no secret depends on it
        self.busy: dict[threading.Thread, _Worker] = {}
        self._waiting = deque(order)
        self._tell = tell
        self._done: dict[int, UnitResult] = {}
        self._errors: list[BaseException] = []
        self._ended_by: threading.Thread | None = None
        self._lock = threading.Lock()

    def next(self) -> int | None:
        """The position of the unit that comes next, or None where there is none any more."""
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._errors else None

    def add(self, position: int, result: UnitResult) -> None:
        """Take a result, and tell it."""
        with self._lock:
            self._done[position] = result
            if self._tell is not None and self._tell(result):
                self._waiting.clear()
                self._ended_by = self._ended_by or threading.current_thread()

    def fail(self, error: BaseException) -> None:
        """Take what a thread ends by; a worker that was given up fails in any way."""
        with self._lock:
            if self._ended_by is None:
                self._errors.append(error)

    def hurry(self) -> None:
        """In the thread that has ended the run: let the others end what they are at, for a moment, or give them up."""
        if self._ended_by is not threading.current_thread():
            return
        deadline = time.monotonic() + SPARED
        for thread, worker in tuple(self.busy.items()):
            if thread is threading.current_thread():
                continue
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                worker.kill()

    def results(self) -> tuple[UnitResult, ...]:
        """The results in the order of the units; raises what a thread has ended by."""
        if self._errors:
            raise self._errors[0]
        return tuple(self._done[position] for position in sorted(self._done))


_SERIAL = itertools.count()


class _Worker:
    """One worker process, started anew when it is gone."""

    def __init__(self, scratch: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = Path(scratch) / f"stderr-{next(_SERIAL)}"

    def kill(self) -> None:
        """End the process at once, whatever it is at."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def ask(self, job: Job) -> Reply:
        """Send a job and wait for the answer."""
        process = self._running()
        try:
            send(process.stdin, job)  # type: ignore[arg-type]
            reply: Reply = pickle.load(process.stdout)  # type: ignore[arg-type]  # noqa: S301 - from our own worker
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            code = process.wait()
            self.end()
            text = self._errors.read_text(errors="replace")[-4000:] if self._errors.exists() else ""
            if code == 1 and "worker.py" in text:
                raise HarnessError(f"a worker process died in {job.unit}:\n{text}") from None
            said = f", having said {text.splitlines()[-1]!r}" if text.strip() else ""
            raise TargetError(
                f"{job.spec.location} ended the process that it ran in ({_ending(code)}{said}) in {job.unit}; "
                "a writer must raise its errors and leave the process alone"
            ) from None
        if reply.refusal:
            raise TargetError(reply.refusal)
        if reply.error:
            raise HarnessError(f"in {job.unit}:\n{reply.error}")
        if reply.hung_at or reply.tired:
            self.end()
        return reply

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "fault_injection.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
        return self._process

    def end(self) -> None:
        """Let the process come to its end, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ending(code: int) -> str:
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"
