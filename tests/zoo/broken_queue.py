"""Writers that each break one law of group Q, but for Q3."""

from __future__ import annotations

import itertools
import math
import os
import queue
import threading
import time
from contextlib import suppress

from tests.zoo import common
from tests.zoo.executor import ExecutorWriter
from tests.zoo.thread_queue import ThreadQueueWriter


class HoldsLockWhileWriting(ThreadQueueWriter):
    broken_law = "Q1"
    because = "the worker holds, for as long as it writes, a lock that every call takes"

    def _init_dump_executor(self):
        fresh = getattr(self, "_pid", None) != os.getpid()
        super()._init_dump_executor()
        if fresh:
            self._disk = threading.Lock()

    def _write(self, job):
        with self._disk:
            super()._write(job)

    def _accept(self, job):
        with self._disk:
            pass
        super()._accept(job)


class WaitsForOwnWrite(ExecutorWriter):
    broken_law = "Q1"
    because = "the call waits for the future that it has just submitted"

    def _accept(self, job):
        super()._accept(job)
        self._pending[-1][2].exception()


class UnboundedQueue(ThreadQueueWriter):
    broken_law = "Q2"
    because = "the number of waiting dumps has no bound"
    upstream = "verl #6324"
    max_waiting = 0


class UnboundedBytes(ThreadQueueWriter):
    broken_law = "Q2"
    because = "a thousand dumps may wait, whatever they weigh"
    upstream = "verl #6324"
    max_waiting = 1000
    max_bytes = 2**62


class DropsOldestWhenFull(ThreadQueueWriter):
    broken_law = "Q2"
    because = "at the bound the oldest waiting dump is thrown away, and nobody is told"

    def _accept(self, job):
        with self._calls:
            while self._queue.full():
                with suppress(queue.Empty):  # the worker was faster
                    self._release(self._queue.get_nowait())
            super()._accept(job)


class _Stack(queue.Queue):
    def _get(self):
        # The end mark of a drain comes last, so that every job is still written.
        at = next((i for i in reversed(range(len(self.queue))) if self.queue[i] is not None), 0)
        item = self.queue[at]
        del self.queue[at]
        return item


class NewestFirst(ThreadQueueWriter):
    broken_law = "Q4"
    because = "what came last is written first"

    def _make_queue(self):
        return _Stack(self.max_waiting)


class _BySteps(queue.PriorityQueue):
    """The end mark of a drain comes last; equal steps keep their order."""

    def __init__(self, maxsize):
        super().__init__(maxsize)
        self._number = itertools.count()

    def put(self, item, *args, **kwargs):
        super().put((math.inf if item is None else item.step, next(self._number), item), *args, **kwargs)

    def get(self, *args, **kwargs):
        return super().get(*args, **kwargs)[2]


class LowestStepFirst(ThreadQueueWriter):
    broken_law = "Q4"
    because = "what waits is written by its step, also where steps do not rise"

    def _make_queue(self):
        return _BySteps(self.max_waiting)


class TwoWorkers(ExecutorWriter):
    broken_law = "Q4"
    because = "two workers write at once, and a later dump may overtake one whose write takes long"
    max_workers = 2


class _Impatient(queue.Queue):
    def get(self, *args, **kwargs):
        try:
            return super().get(timeout=3600)
        except queue.Empty:
            return None  # the end mark of a drain


class GivesUpWaiting(ThreadQueueWriter):
    broken_law = "D1"
    because = "the worker ends after an hour without work, and what is handed over later is never written"

    def _make_queue(self):
        return _Impatient(self.max_waiting)


class ForgetsAfterDrain(ThreadQueueWriter):
    broken_law = "Q5"
    because = "a dump after drain returns as if it were accepted, and is never written"
    _closed = False

    def _init_dump_executor(self):
        super()._init_dump_executor()
        self._closed = False

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        if not self._closed:
            super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)

    def _stop(self):
        super()._stop()
        self._closed = True


class HoldsBackPerThread(ThreadQueueWriter):
    broken_law = "Q6"
    because = (
        "each thread's last batch is held back for its next call, and drain flushes only the calling thread's"
    )

    def _init_dump_executor(self):
        fresh = getattr(self, "_pid", None) != os.getpid()
        super()._init_dump_executor()
        if fresh:
            self._mine = threading.local()

    def _accept(self, job):
        self._mark_open()
        self._hold(job)

    def _hold(self, job):
        held, self._mine.held = getattr(self._mine, "held", None), job
        if held is not None:
            super()._accept(held)

    def _stop(self):
        self._hold(None)
        super()._stop()


class SharesOneSlot(ThreadQueueWriter):
    broken_law = "Q6"
    because = "the batch is passed on through an attribute, and a second thread's call overwrites it"
    _inside = 0

    def _accept(self, job):
        self._current = job
        self._inside += 1
        if threading.current_thread() is not threading.main_thread():
            self._let_others_in(job)
        super()._accept(self._current)
        self._inside -= 1

    def _let_others_in(self, job):
        # Each look at the disk lets another thread run, so that two calls at once always meet here.
        end = time.monotonic() + 0.2
        while self._inside < 2 and self._current is job and time.monotonic() < end:
            os.path.lexists(job.path)


class ForkedChildWritesAgain(ExecutorWriter):
    broken_law = "Q7"
    because = "the forked child inherits the list of what is pending, and writes it too"

    def _start_over(self):
        self._inherited = list(getattr(self, "_unwritten", ()))
        super()._start_over()
        self._unwritten: list[common.Job] = []
        if self._inherited:
            self._mark_open()

    def _accept(self, job):
        self._unwritten.append(job)
        super()._accept(job)

    def _write(self, job):
        try:
            super()._write(job)
        finally:
            self._unwritten.remove(job)

    def _stop(self):
        inherited, self._inherited = self._inherited, []
        for job in inherited:
            self._accept(job)
        super()._stop()


class ForkedChildHangs(ExecutorWriter):
    broken_law = "Q7"
    because = "the forked child waits for futures whose worker exists in the parent only"
    upstream = "verl #6324"

    def _start_over(self):
        if "_calls" not in self.__dict__:
            super()._start_over()
