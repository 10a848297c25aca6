"""Writers that each break one law of group E, but for E6 and E9."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress

from tests.zoo import common
from tests.zoo.common import DumpError
from tests.zoo.executor import ExecutorWriter
from tests.zoo.os_write import OsWriteWriter
from tests.zoo.thread_queue import ThreadQueueWriter

LOG = logging.getLogger(__name__)


class LogsOnly(ThreadQueueWriter):
    broken_law = "E1"
    because = "a failure is logged and never raised"

    def _note_failure(self, job, error):
        LOG.error("dump of step %s to %s failed: %r", job.step, job.path, error)


class IgnoresCloseError(ThreadQueueWriter):
    broken_law = "E1"
    because = "what close raises, and with it the failure of the last buffered write, is ignored"

    def _write_temp(self, temp, data):
        file = open(temp, "wb")
        try:
            file.write(data)
        finally:
            with suppress(OSError):
                file.close()


class IgnoresSyncError(OsWriteWriter):
    broken_law = "E1"
    because = "a failed fsync is ignored, though the bytes may be gone after it"

    def _sync(self, file):
        with suppress(OSError):
            os.fsync(file)


class LeavesFailedFileOpen(ThreadQueueWriter):
    broken_law = "E7"
    because = "the file is closed when every byte could be written, and otherwise its descriptor is forgotten"

    def _write_temp(self, temp, data):
        file = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.close(file)


class ClearsBeforeRaise(ThreadQueueWriter):
    broken_law = "E1"
    because = "the list of failures is cleared before it is raised, and both names are of one list"

    def _take_failures(self):
        with self._room:
            failures = self._failures
            self._failures.clear()
        return failures


class KeepsLastFailures(ThreadQueueWriter):
    broken_law = "E3"
    because = "of many failures only the last eight are kept"

    def _note_failure(self, job, error):
        super()._note_failure(job, error)
        with self._room:
            del self._failures[:-8]


class KeepsTheSlotOfAFailure(ThreadQueueWriter):
    broken_law = "E8"
    because = "the slot of a dump is given back when it succeeds only, and after sixteen failures a call waits for ever"

    def _init_dump_executor(self):
        super()._init_dump_executor()
        self.__dict__.setdefault("_slots", threading.Semaphore(16))

    def _accept(self, job):
        self._slots.acquire()
        super()._accept(job)

    def _write(self, job):
        super()._write(job)
        self._slots.release()


class RetriesForEver(ThreadQueueWriter):
    broken_law = "E8"
    because = "a write that fails is tried again until it succeeds, and on a full disk it never does"

    def _write(self, job):
        while True:
            try:
                return super()._write(job)
            except OSError:
                continue


class StickyError(ThreadQueueWriter):
    broken_law = "E2"
    because = "failures are raised but not taken off the list"
    upstream = "verl #6324"

    def _take_failures(self):
        return self._failures


class RaisesAgainAtDrain(ThreadQueueWriter):
    broken_law = "E2"
    because = "what a dump has raised already is raised once more by drain"

    def _take_failures(self):
        failures = super()._take_failures()
        self._told = [*getattr(self, "_told", []), *failures]
        return failures

    def _stop(self):
        super()._stop()
        with self._room:
            self._failures = [*getattr(self, "_told", []), *self._failures]
            self._told = []

    def _shutdown_dump_executor(self):
        try:
            super()._shutdown_dump_executor()
        finally:
            self._told = []


class LastFailureWins(ThreadQueueWriter):
    broken_law = "E3"
    because = "there is one place for a failure, and a later one takes it"

    def _note_failure(self, job, error):
        self._failures = [common.failed(job.step, job.path, error)]


class FirstFailureWins(ThreadQueueWriter):
    broken_law = "E3"
    because = "there is one place for a failure, and a later one finds it taken"

    def _note_failure(self, job, error):
        if not self._failures:
            super()._note_failure(job, error)


class RaisesOnlyFirst(ExecutorWriter):
    broken_law = "E3"
    because = "the first failed future is raised and the failures of the others are dropped"
    upstream = "verl #6324"

    def _raise(self, failures):
        super()._raise(failures[:1])


class NamesNothing(ThreadQueueWriter):
    broken_law = "E4"
    because = (
        "the original error is raised as it is, and 'No space left on device' tells neither step nor path"
    )
    upstream = "verl #6324"

    def _raise(self, failures):
        super()._raise([f.__cause__ if isinstance(f.__cause__, Exception) else f for f in failures])


class NamesNoPath(ThreadQueueWriter):
    broken_law = "E4"
    because = "the error tells the step but not the directory"

    def _note_failure(self, job, error):
        failure = DumpError(f"dump of step {job.step} failed: {type(error).__name__}")
        failure.__cause__ = error
        with self._room:
            self._failures.append(failure)


class LosesOriginal(ThreadQueueWriter):
    broken_law = "E4"
    because = "the failure is turned into a RuntimeError from None, and type and errno are gone"

    def _raise(self, failures):
        try:
            super()._raise(failures)
        except DumpError as error:
            raise RuntimeError(str(error)) from None


class LosesTraceback(ThreadQueueWriter):
    broken_law = "E4"
    because = "the traceback of the write is cut off before the error is kept"

    def _note_failure(self, job, error):
        super()._note_failure(job, error.with_traceback(None))


class RaisesBeforeQueueing(ThreadQueueWriter):
    broken_law = "E5"
    because = "an earlier failure is raised before the call's own batch is queued, and nothing says so"

    def _hand_over(self, job):
        self._raise(self._take_failures())
        self._accept(job)


class LeaksWorker(ExecutorWriter):
    broken_law = "E7"
    because = "drain raises the failure before it reaches the shutdown of the executor"
    upstream = "verl #6324"

    def _stop(self):
        failures = self._collect(wait=True)
        if failures:
            common.OPEN.discard(self)
            self._raise(failures)
        super()._stop()


class SecondDrainRaises(ThreadQueueWriter):
    broken_law = "E7"
    because = "a drain of a writer that is drained already is an error"

    def _stop(self):
        if self._thread is None:
            raise RuntimeError("the writer has been drained already")
        super()._stop()


class StaysBrokenAfterDrain(ThreadQueueWriter):
    broken_law = "E7"
    because = "after a drain that raised, the next run is refused every dump"
    _broken = False

    def _shutdown_dump_executor(self):
        try:
            super()._shutdown_dump_executor()
        except DumpError:
            self._broken = True
            raise

    def _accept(self, job):
        if self._broken:
            raise common.refused(job.step, job.path, "an earlier dump failed")
        super()._accept(job)


class WorkerDiesOfSystemExit(ThreadQueueWriter):
    broken_law = "E8"
    because = "the worker catches Exception, and SystemExit is none: it dies with all that waits, and nobody is told"

    def _work(self, jobs):
        while (job := jobs.get()) is not None:
            try:
                self._write(job)
            except Exception as error:
                self._note_failure(job, error)
            self._release(job)


class DrainWaitsForDeadWorker(ThreadQueueWriter):
    broken_law = "E8"
    because = "the worker dies of SystemExit, and drain waits for ever for jobs that nobody will finish"

    def _work(self, jobs):
        while (job := jobs.get()) is not None:
            try:
                self._write(job)
            except Exception as error:
                self._note_failure(job, error)
            self._release(job)
            jobs.task_done()

    def _stop(self):
        if self._thread is not None:
            self._queue.join()
        super()._stop()


class ForgetsWithoutThread(ThreadQueueWriter):
    broken_law = "E8"
    because = "a thread that cannot start is ignored, and the dump waits in a queue that nobody reads"

    def _start_worker(self, job):
        with suppress(DumpError):
            super()._start_worker(job)


class SilentEnd(ThreadQueueWriter):
    broken_law = "E10"
    because = "the daemon thread ends with the process, and nothing says what it had not written"

    def _mark_open(self):
        pass


class SilentFailureAtEnd(ExecutorWriter):
    broken_law = "E10"
    because = "the executor is joined when the process ends, but a failed future says nothing"
    upstream = "verl #6324, #7934"

    def _mark_open(self):
        pass
