"""A correct writer with a thread of its own and a bounded queue."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import Any

from tests.zoo import common
from tests.zoo.common import DumpError, Job


class ThreadQueueWriter:
    """One daemon thread and a bounded `queue.Queue`; the process id tells a forked child that nothing here is its own."""

    max_waiting = 16
    max_bytes = 64 * 2**20
    global_steps: Any

    def _init_dump_executor(self):
        if getattr(self, "_pid", None) == os.getpid():
            return
        self._calls = threading.RLock()
        self._room = threading.Condition()
        self._queue: queue.Queue[Job | None] = self._make_queue()
        self._thread: threading.Thread | None = None
        self._failures: list[DumpError] = []
        self._waiting_bytes = 0
        self._serial = next(common.SERIAL)
        self._published: set[str] = getattr(self, "_published", set())
        self._pid = os.getpid()

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        self._init_dump_executor()
        columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
        job = self._job(self.global_steps, columns, reward_extra_infos_dict, dump_path)
        self._hand_over(job)

    def _hand_over(self, job):
        self._accept(job)
        self._raise(self._take_failures())

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        with self._calls:
            self._stop()
            common.OPEN.discard(self)
        self._raise(self._take_failures())

    def _job(self, step, columns, extras, dump_path):
        path = common.file_path(dump_path, step)
        try:
            return Job(step, path, self._encode(step, columns, extras))
        except Exception as error:
            raise common.refused(step, path, error) from error

    def _encode(self, step, columns, extras):
        return common.encode(step, columns, extras)

    def _make_queue(self):
        return queue.Queue(self.max_waiting)

    def _accept(self, job):
        # Held while the call waits for room, so that jobs are written in the order in which callers came.
        with self._calls:
            self._start_worker(job)
            size = len(job.data)
            with self._room:
                self._room.wait_for(
                    lambda: self._waiting_bytes == 0 or self._waiting_bytes + size <= self.max_bytes
                )
                self._waiting_bytes += size
            self._queue.put(job)
            self._mark_open()

    def _mark_open(self):
        common.OPEN.add(self)

    def _start_worker(self, job):
        if self._thread is not None:
            return
        jobs = self._make_queue()  # an interrupted drain may have left its end mark in the old one
        thread = threading.Thread(target=self._work, args=(jobs,), name="dump", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            raise common.refused(job.step, job.path, f"the writer thread cannot start: {error}") from error
        self._queue, self._thread = jobs, thread

    def _work(self, jobs):
        while (job := jobs.get()) is not None:
            try:
                self._write(job)
            except BaseException as error:
                self._note_failure(job, error)
            finally:
                self._release(job)

    def _release(self, job):
        with self._room:
            self._waiting_bytes -= len(job.data)
            self._room.notify_all()

    def _write(self, job):
        os.makedirs(os.path.dirname(job.path), exist_ok=True)
        key = os.path.realpath(job.path)
        data = self._earlier_rows(key, job.path) + job.data
        temp = self._temp_path(job)
        try:
            self._write_temp(temp, data)
            self._publish(temp, job.path)
        except BaseException:
            self._cleanup(temp, job.path)
            raise
        self._published.add(key)

    def _earlier_rows(self, key, path):
        if key not in self._published:
            return b""  # the file of an earlier run, if there is one, is replaced
        with open(path, "rb") as file:
            return file.read()

    def _temp_path(self, job):
        return f"{os.path.dirname(job.path)}/.{job.step}.jsonl.{os.getpid()}-{self._serial}.tmp"

    def _write_temp(self, temp, data):
        with open(temp, "wb") as file:
            file.write(data)

    def _publish(self, temp, path):
        os.replace(temp, path)

    def _cleanup(self, temp, path):
        for _ in range(2):
            with suppress(OSError):
                os.unlink(temp)

    def _note_failure(self, job, error):
        failure = common.failed(job.step, job.path, error)
        with self._room:
            self._failures.append(failure)

    def _take_failures(self):
        with self._room:
            failures, self._failures = self._failures, []
        return failures

    def _raise(self, failures):
        common.raise_all(failures)

    def _stop(self):
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
