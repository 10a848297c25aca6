"""The asynchronous dump: a bounded queue, one writer thread, and every failure raised exactly once."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from verl_dump import exits
from verl_dump.encoding import Snapshot, encode, snapshot
from verl_dump.errors import DrainTimeout, DumpError, DumpErrorGroup, attach, count, failed, joined, refused
from verl_dump.files import Publisher, SameStep, locate
from verl_dump.policies import Collide, NonFinite, Policies, Ragged, Scalar, Unknown

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_LOG = logging.getLogger("verl_dump")
# A waiting thread looks this often whether the worker still lives; it is notified of everything else.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class _Job:
    number: int
    step: int
    path: str
    batch: Snapshot


class GenerationDumper:
    """Writes each batch handed over to `{directory}/{step}.jsonl` in a thread, in order, atomically.

    One dumper is one run. As a context manager it drains at the end of the block; when the block raises,
    its exception stays what propagates, with the failures of dumps attached to it (`__notes__`,
    `dump_failures`, and the end of its `__context__` chain), and a stuck write holds it for `exit_timeout`
    at most. What is attached to an exit or a cancellation is logged as well, since nobody is shown those. After `drain`, `close` or a fork the dumper works again.

    Args:
        fsync: sync file and directory, so that a drained dump survives a power loss.
        max_pending: number of dumps that may wait, the one being written included.
        max_pending_bytes: bytes that those may hold; a single larger dump is accepted when nothing waits.
        on_full: at that bound, "block" until there is room, or refuse the dump with an "error".
        same_step: a second dump of a step into a directory "merge"s its rows behind those of the first,
            "replace"s them, or is an "error". Files of earlier runs are always replaced.
        on_error: "raise" a failure from the next dump or drain, or "warn": log it, go on, sum up at drain.
        exit_timeout: seconds that undrained dumps may hold the end of the process.
        non_finite: NaN and infinities become "null", the "string" NaN, Infinity or -Infinity, or an "error".
        unknown: a value of a type without a JSON form is an "error", or becomes the text of its "repr".
        ragged: an extra column of another length is an "error", or a shorter one is "pad"ded with null at its end.
        collide: "rename" an extra named like a base column to `extra_<name>`, and of two keys that are one as
            text the one that is no text to `<text> (<type>)`; or each is an "error".
        scalar: an extra that is no column is an "error", or "repeat"ed in every row.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        max_pending: int = 64,
        max_pending_bytes: int = 512 << 20,
        on_full: Literal["block", "error"] = "block",
        same_step: SameStep = "merge",
        on_error: Literal["raise", "warn"] = "raise",
        exit_timeout: float = 30.0,
        non_finite: NonFinite = "null",
        unknown: Unknown = "error",
        ragged: Ragged = "error",
        collide: Collide = "rename",
        scalar: Scalar = "error",
    ) -> None:
        _check("on_full", on_full, ("block", "error"))
        _check("same_step", same_step, ("merge", "error", "replace"))
        _check("on_error", on_error, ("raise", "warn"))
        if max_pending < 1 or max_pending_bytes < 1:
            raise ValueError("max_pending and max_pending_bytes must be at least 1")
        if exit_timeout < 0:
            raise ValueError("exit_timeout must not be negative")
        self._max_pending = max_pending
        self._max_pending_bytes = max_pending_bytes
        self._on_full = on_full
        self._on_error = on_error
        self._exit_timeout = exit_timeout
        self._policies = Policies(non_finite, unknown, ragged, collide, scalar)
        self._publisher = Publisher(fsync=fsync, same_step=same_step)
        self._reset()
        exits.watch(self)

    @property
    def _shutdown(self) -> bool:
        """Never: verl's `fit()` reads this of its executor to know whether it must make a new one (verl #6324)."""
        return False

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._queue: deque[_Job] = deque()
        self._active: _Job | None = None
        self._thread: threading.Thread | None = None
        self._failures: list[DumpError] = []
        self._undrained = False  # whether dumps were accepted since the last drain
        self._written = 0  # since then

    @property
    def pending(self) -> tuple[tuple[int, str], ...]:
        """(step, path) of each dump that is not on disk yet, in order."""
        with self._changed:
            return tuple((job.step, job.path) for job in self._jobs())

    @property
    def failed(self) -> int:
        """Number of failed dumps that were not raised yet, or with `on_error="warn"` not summed up yet."""
        with self._changed:
            return len(self._failures)

    def dump(
        self,
        directory: str | os.PathLike[str],
        step: int,
        *,
        inputs: Any,
        outputs: Any,
        gts: Any = None,
        scores: Any,
        extras: Mapping[Any, Any] | None = None,
    ) -> None:
        """Hand over one batch; it is copied, so that the caller may change everything afterwards.

        Args:
            directory: made when missing; a relative one is taken from the present working directory.
            step: the step, which names the file.
            inputs: column of n prompts; like each column a list, tuple, array, tensor or Series with n first.
            outputs: column of n responses.
            gts: column of n ground truths; None leaves the column out.
            scores: column of n scores.
            extras: more columns of n values each, by name.

        Raises:
            TypeError, ValueError: the batch cannot be written and was not accepted; column, row and type are named.
            DumpError: an earlier dump failed, this one being accepted; or `accepted` is False and this one
                was not.
            DumpErrorGroup: several earlier dumps failed; this one was accepted.
        """
        step, path = locate(directory, step)
        try:
            batch = snapshot(
                step,
                inputs=inputs,
                outputs=outputs,
                gts=gts,
                scores=scores,
                extras=extras,
                policies=self._policies,
            )
            with self._changed:
                self._accept(step, path, batch)
                failures = self._take_failures() if self._on_error == "raise" else []
        except (TypeError, ValueError, DumpError) as error:
            if self._on_error == "warn":
                refusal = error if isinstance(error, DumpError) else refused(step, path, str(error), error)
                with self._changed:
                    self._failures.append(self._logged(refusal))
                return
            if isinstance(error, DumpError):
                raise
            raise type(error)(f"dump of step {step} was not accepted: {error}") from error
        if failures:
            raise joined(failures, f"; the dump of step {step} handed over by this call was accepted")

    def drain(self, timeout: float | None = None) -> None:
        """Wait until each accepted dump is on disk, end the worker, and raise what failed.

        Args:
            timeout: seconds to wait at most; None waits for as long as it takes.

        Raises:
            DumpError: one dump failed.
            DumpErrorGroup: several dumps failed.
            DrainTimeout: some dumps are not on disk in time; a later drain goes on waiting.
        """
        late, failures = self._drain(timeout)
        if failures and self._on_error == "warn":
            steps = ", ".join(str(failure.step) for failure in failures)
            _LOG.error("%s failed since the last drain (steps %s)", count(failures), steps)
            failures = []
        if late:
            timed_out = DrainTimeout(timeout or 0.0, [(job.step, job.path) for job in late], failures)
            raise timed_out from (joined(failures) if failures else None)
        if failures:
            raise joined(failures)

    def close(self) -> None:
        """Drain; the dumper stays usable."""
        self.drain()

    def __enter__(self) -> GenerationDumper:  # noqa: PYI034  typing.Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.drain()
            return
        try:
            self.drain(self._exit_timeout)
        except (DumpError, DumpErrorGroup, DrainTimeout) as failure:
            notes = attach(error, failure)
            if not isinstance(error, (Exception, KeyboardInterrupt)):
                # The interpreter prints nothing of a SystemExit, and asyncio nothing of a cancelled task.
                for note in notes:
                    _LOG.error("%s", note)

    def at_exit(self, started: float) -> list[str]:
        """Drain at the end of the process; return what stderr has to say, nothing when all was drained."""
        if not self._undrained and not self._failures:
            return []
        try:
            late, failures = self._drain(max(0.0, started + self._exit_timeout - time.monotonic()))
        except KeyboardInterrupt:
            with self._changed:
                late, failures = self._jobs(), self._take_failures()
        summary = f"{self._written} written, {len(failures)} failed, {len(late)} not on disk"
        lines = [f"the process ended without drain(): {summary}; call drain() before the end"]
        lines += [str(failure) for failure in failures]
        lines += [f"dump of step {job.step} to {job.path} is not on disk" for job in late]
        return lines

    def after_fork(self) -> None:
        """Leave to the parent what it has accepted; called in the child."""
        self._reset()

    def _drain(self, timeout: float | None) -> tuple[list[_Job], list[DumpError]]:
        """Wait, end the worker when nothing is left, and return what is not written and what failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            late = self._wait_written(deadline)
            thread = None
            if not self._jobs():
                # The worker ends when it sees that it is no longer the one in charge.
                thread, self._thread = self._thread, None
                self._undrained = False
                self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        with self._changed:
            return late, self._take_failures()

    # What follows holds the lock `_changed` unless it says otherwise.

    def _jobs(self) -> list[_Job]:
        return [*([self._active] if self._active else []), *self._queue]

    def _accept(self, step: int, path: str, batch: Snapshot) -> None:
        while not self._has_room(batch.size):
            if self._on_full == "error":
                raise refused(
                    step, path, f"the queue is full ({count(self._jobs())}); drain, or raise the bound"
                )
            self._changed.wait(_LOOK_SECONDS)
            self._look()
        try:
            self._ensure_worker()
        except Exception as error:
            raise refused(step, path, f"the writer thread cannot start: {error}") from error
        if not self._undrained:
            self._undrained, self._written = True, 0
        # One operation takes the batch over, so that an interrupt finds it accepted or not.
        self._queue.append(_Job(next(self._numbers), step, path, batch))
        self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        jobs = self._jobs()
        held = sum(job.batch.size for job in jobs)
        return not jobs or (len(jobs) < self._max_pending and held + size <= self._max_pending_bytes)

    def _ensure_worker(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._work, name="verl-dump-writer", daemon=True)
        thread.start()
        self._thread = thread
        exits.cover_child()

    def _wait_written(self, deadline: float | None) -> list[_Job]:
        """Wait for what has been accepted up to now; return what is not written at the deadline."""
        last = self._queue[-1].number if self._queue else self._active.number if self._active else 0
        while late := [job for job in self._jobs() if job.number <= last]:
            wait = _LOOK_SECONDS if deadline is None else min(_LOOK_SECONDS, deadline - time.monotonic())
            if wait <= 0:
                break
            self._changed.wait(wait)
            self._look()
        return late

    def _look(self) -> None:
        """See to it that nobody waits for a worker that ended without a word."""
        if self._thread is not None and not self._thread.is_alive():
            self._bury(RuntimeError("the writer thread died"))

    def _bury(self, error: BaseException) -> bool:
        """Start another worker for what waits; return whether the dead one's job was in hand, and reported."""
        lost, self._active, self._thread = self._active, None, None
        if lost is not None:
            self._fail(lost, error)
        try:
            if self._queue:
                self._ensure_worker()
        except Exception as refusal:  # noqa: BLE001
            while self._queue:
                self._fail(self._queue.popleft(), refusal)
        self._changed.notify_all()
        return lost is not None

    def _fail(self, job: _Job, error: BaseException) -> None:
        self._failures.append(self._logged(failed(job.step, job.path, error)))

    def _take_failures(self) -> list[DumpError]:
        failures, self._failures = self._failures, []
        return failures

    # The worker thread.

    def _work(self) -> None:
        """Write one job after the other until another thread, or none, is in charge; holds no lock."""
        try:
            while job := self._next_job():
                self._finish(self._write(job))
                del job  # nothing of a written batch is kept while the next one is awaited
        except BaseException as error:
            with self._changed:
                reported = self._thread is threading.current_thread() and self._bury(error)
            if not reported:
                raise
        finally:
            with contextlib.suppress(Exception):
                self._publisher.tidy()

    def _next_job(self) -> _Job | None:
        with self._changed:
            while self._thread is threading.current_thread():
                if self._queue:
                    self._active = self._queue.popleft()
                    return self._active
                self._changed.wait()
            return None

    def _write(self, job: _Job) -> DumpError | None:
        try:
            self._publisher.publish(job.path, encode(job.batch))
        except BaseException as error:  # noqa: BLE001
            # MemoryError and SystemExit too: whatever ends a write is the caller's to know.
            return failed(job.step, job.path, error)
        return None

    def _finish(self, failure: DumpError | None) -> None:
        if failure is not None and failure.__cause__ is not None:
            # The traceback stays; without this its frames would keep the batch in memory.
            traceback.clear_frames(failure.__cause__.__traceback__)
        if failure is not None:
            self._logged(failure)
        with self._changed:
            if failure is None:
                self._written += 1
            else:
                self._failures.append(failure)
            self._active = None
            self._changed.notify_all()

    def _logged(self, failure: DumpError) -> DumpError:
        """In warn mode log a failure at once, and keep for the summary nothing that holds memory."""
        if self._on_error == "warn":
            with contextlib.suppress(Exception):  # a broken log handler must not stop the dumps
                _LOG.error("%s", failure, exc_info=failure.__cause__, extra={"step": failure.step})
            failure.__cause__ = failure.__context__ = failure.__traceback__ = None
        return failure


def _check(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
