"""Writers that are each broken in one schedule only, and the correct ones that they differ from."""

from __future__ import annotations

import os
from collections import deque

from tests.zoo import common
from tests.zoo.thread_queue import ThreadQueueWriter


class EndsWhenIdle(ThreadQueueWriter):
    """Correct: one condition for everything, and a worker that ends when nothing waits and is started when needed."""

    def _init_dump_executor(self):
        fresh = getattr(self, "_pid", None) != os.getpid()
        super()._init_dump_executor()
        if fresh:
            self._waiting = deque()
            self._pending = 0
            self._running = False

    def _accept(self, job):
        with self._room:
            while not self._fits(len(job.data)):
                self._room.wait()
            self._admit(job)
            self._waiting.append(job)
            self._pending += 1
            self._waiting_bytes += len(job.data)
            self._mark_open()

    def _fits(self, size):
        return not self._pending or (
            self._pending < self.max_waiting and self._waiting_bytes + size <= self.max_bytes
        )

    def _admit(self, job):
        if not self._running:
            self._start_again(job)

    def _start_again(self, job):
        self._thread = None
        self._start_worker(job)
        self._running = True

    def _work(self, jobs):
        while (job := self._next()) is not None:
            error = None
            try:
                self._write(job)
            except BaseException as caught:
                error = caught
            self._finish(job, error)
            del job, error

    def _next(self):
        with self._room:
            if self._waiting:
                return self._waiting.popleft()
            self._running = False
            return None

    def _finish(self, job, error):
        with self._room:
            if error is not None:
                self._note_failure(job, error)
            self._done(job)
            self._room.notify_all()

    def _done(self, job):
        self._pending -= 1
        self._waiting_bytes -= len(job.data)

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        self._raise(self._drained())

    def _drained(self):
        with self._room:
            self._wait()
            failures = self._take_failures()
            thread, self._thread = self._thread, None
            common.OPEN.discard(self)
        if thread is not None:
            thread.join()
        return failures

    def _wait(self):
        while self._pending:
            self._room.wait()


class UnlockedFailureList(EndsWhenIdle):
    broken_law = "E1"
    because = "the list of failures is read and replaced without a lock, and what is noted in between is gone"

    def _finish(self, job, error):
        if error is not None:
            self._note_failure(job, error)
        super()._finish(job, None)

    def _note_failure(self, job, error):
        self._failures = self._failures + [common.failed(job.step, job.path, error)]  # noqa: RUF005

    def _take_failures(self):
        failures = self._failures
        self._failures = []
        return failures


class RefusesAfterDrain(EndsWhenIdle):
    """Correct: from a drain on every dump is refused until the writer is started again."""

    _closed = False

    def _init_dump_executor(self):
        super()._init_dump_executor()
        with self._room:
            self._closed = False

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
        self._hand_over(self._job(self.global_steps, columns, reward_extra_infos_dict, dump_path))

    def _admit(self, job):
        self._see_open(job)
        super()._admit(job)

    def _see_open(self, job):
        if self._closed:
            raise common.refused(job.step, job.path, "the writer was drained")

    def _shutdown_dump_executor(self):
        with self._room:
            if self._closed and not self._pending and not self._failures:
                return
            self._closed = True
        self._raise(self._drained())


class ClosedFlagCheckedFirst(RefusesAfterDrain):
    broken_law = "Q5"
    because = (
        "whether the writer is closed is asked before the lock is taken, and a drain may come in between"
    )

    def _accept(self, job):
        self._see_open(job)
        with self._room:
            EndsWhenIdle._accept(self, job)

    def _admit(self, job):
        EndsWhenIdle._admit(self, job)

    def _shutdown_dump_executor(self):
        with self._room:
            if self._closed:
                return
            self._closed = True
        self._raise(self._drained())


class NotesAfterDone(EndsWhenIdle):
    broken_law = "E1"
    because = "a failure is noted when its job is done already, and a drain returns in between"

    def _finish(self, job, error):
        super()._finish(job, None)
        if error is not None:
            self._note_failure(job, error)


class NotifiesFirst(EndsWhenIdle):
    broken_law = "E8"
    because = "who waits is woken before there is anything new to see, and sleeps on for ever"

    def _finish(self, job, error):
        with self._room:
            if error is not None:
                self._note_failure(job, error)
            self._room.notify_all()
        with self._room:
            self._done(job)


class LooksBeforeLock(EndsWhenIdle):
    broken_law = "E8"
    because = "whether there is something to wait for is asked without the lock, and the wakeup comes before the wait"

    def _drained(self):
        while self._pending:
            with self._room:
                self._room.wait()
        return super()._drained()


class EndsAfterLooking(EndsWhenIdle):
    broken_law = "E8"
    because = "the worker sees that nothing waits, gives the lock back, and only then says that it ends"

    def _next(self):
        with self._room:
            if self._waiting:
                return self._waiting.popleft()
        self._running = False
        return None


class TrustsLivingWorker(EndsWhenIdle):
    broken_law = "E8"
    because = (
        "a worker that has decided to end is still alive, so none is started for the dump that comes now"
    )

    def _admit(self, job):
        if self._thread is None or not self._thread.is_alive():
            self._start_again(job)


class RaisesAtDrainOnly(EndsWhenIdle):
    """Correct: failures are raised by the drain alone."""

    def _hand_over(self, job):
        self._accept(job)


class CountsWithoutLock(RaisesAtDrainOnly):
    broken_law = "E8"
    because = (
        "what is pending is counted up and down without a lock, and a step lost in between never comes back"
    )

    def _accept(self, job):
        with self._room:
            self._admit(job)
            self._waiting.append(job)
            self._waiting_bytes += len(job.data)
            self._mark_open()
        self._pending += 1

    def _finish(self, job, error):
        with self._room:
            if error is not None:
                self._note_failure(job, error)
            self._waiting_bytes -= len(job.data)
        self._pending -= 1
        with self._room:
            self._room.notify_all()


TWINS: tuple[type, ...] = (EndsWhenIdle, RefusesAfterDrain)
"""Correct writers that the broken ones of this module differ from."""


class DoneBeforePublished(EndsWhenIdle):
    broken_law = "D1"
    because = (
        "a dump counts as done when its bytes are written, and a drain returns before the file has its name"
    )

    def _publish(self, temp, path):
        with self._room:
            self._pending -= 1
            self._room.notify_all()
        super()._publish(temp, path)
        with self._room:
            self._pending += 1

    def _drained(self):
        # Nor does it wait for the thread, which has nothing to do any more.
        with self._room:
            self._wait()
            failures = self._take_failures()
            common.OPEN.discard(self)
        return failures
