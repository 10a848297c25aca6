"""A correct writer over the calls of the operating system, with a thread for each dump."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from typing import Any

from tests.zoo import common
from tests.zoo.common import DumpError, Job

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)


class OsWriteWriter:
    """Each dump has its own thread, which waits for the one before; a second dump of a step in one run is refused."""

    max_waiting = 16
    max_bytes = 64 * 2**20
    global_steps: Any

    def _init_dump_executor(self):
        if "_state" not in self.__dict__:
            self._taken: set[str] = set()
            self._start_over()
            common.LIVE.add(self)

    def _start_over(self):
        self._state = threading.Condition()
        self._last: threading.Thread | None = None
        self._failures: list[DumpError] = []
        self._waiting = self._waiting_bytes = 0
        self._serial = next(common.SERIAL)

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        self._init_dump_executor()
        step = self.global_steps
        path = common.file_path(dump_path, step)
        try:
            columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
            data = common.encode(step, columns, reward_extra_infos_dict)
        except Exception as error:
            raise common.refused(step, path, error) from error
        with self._state:
            self._accept(Job(step, path, data))
            failures, self._failures = self._failures, []
        common.raise_all(failures)

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        with self._state:
            self._state.wait_for(lambda: self._waiting == 0)
            last, self._last = self._last, None
            failures, self._failures = self._failures, []
            common.OPEN.discard(self)
        if last is not None:
            last.join()
        common.raise_all(failures)

    def _accept(self, job):
        self._state.wait_for(lambda: self._fits(len(job.data)))
        key = os.path.realpath(job.path)
        if key in self._taken:
            raise common.refused(job.step, job.path, f"step {job.step} was already dumped there in this run")
        thread = threading.Thread(target=self._run, args=(job, key, self._last), name=f"dump-{job.step}")
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            raise common.refused(job.step, job.path, f"the writer thread cannot start: {error}") from error
        # The new thread takes this lock, which the caller holds, before it counts anything down.
        self._waiting += 1
        self._waiting_bytes += len(job.data)
        self._taken.add(key)
        self._last = thread
        common.OPEN.add(self)

    def _fits(self, size):
        return self._waiting < self.max_waiting and (
            self._waiting == 0 or self._waiting_bytes + size <= self.max_bytes
        )

    def _run(self, job, key, previous):
        if previous is not None:
            previous.join()
        failure = None
        try:
            self._write(job)
        except BaseException as error:
            failure = common.failed(job.step, job.path, error)
        finally:
            with self._state:
                if failure is not None:
                    self._failures.append(failure)
                    self._taken.discard(key)  # what failed may be dumped again
                self._waiting -= 1
                self._waiting_bytes -= len(job.data)
                self._state.notify_all()

    def _write(self, job):
        directory = os.path.dirname(job.path)
        os.makedirs(directory, exist_ok=True)
        temp = os.path.join(directory, f".{job.step}.jsonl.{os.getpid()}-{self._serial}.tmp")
        try:
            file = os.open(temp, FLAGS, 0o666)
            try:
                self._write_bytes(file, memoryview(job.data))
                self._sync(file)
            finally:
                os.close(file)
            os.replace(temp, job.path)
        except BaseException:
            for _ in range(2):
                with suppress(OSError):
                    os.unlink(temp)
            raise

    def _write_bytes(self, file, data):
        while data:
            taken = os.write(file, data)
            if taken == 0:
                raise OSError(errno.EIO, "the file takes no more bytes")
            data = data[taken:]

    def _sync(self, file):
        os.fsync(file)
