"""A correct writer whose bound is that of `queue.Queue(maxsize)` alone: whoever is too early waits in `put`."""

from __future__ import annotations

import os
import queue
import tempfile
import threading
from contextlib import suppress
from typing import Any

from tests.zoo import common
from tests.zoo.common import DumpError, Job


class BoundedQueueWriter:
    """A worker between two queues: jobs come in by a short one, failures go out by another; large batches are refused."""

    most_waiting = 4
    most_bytes = 64 * 2**20
    """Of one batch; what waits is at most one batch more than the queue holds."""
    global_steps: Any

    def _init_dump_executor(self):
        if "_calls" not in self.__dict__:
            self._published: set[str] = set()
            self._start_over()
            common.LIVE.add(self)

    def _start_over(self):
        self._calls = threading.Lock()
        self._worker: threading.Thread | None = None
        self._jobs: queue.Queue[Job | None] = queue.Queue(maxsize=self.most_waiting)
        self._failures: queue.SimpleQueue[DumpError] = queue.SimpleQueue()

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        self._init_dump_executor()
        step = self.global_steps
        path = common.file_path(dump_path, step)
        try:
            columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
            data = common.encode(step, columns, reward_extra_infos_dict)
        except Exception as error:
            raise common.refused(step, path, error) from error
        if len(data) > self.most_bytes:
            raise common.refused(step, path, f"{len(data):,} bytes are more than {self.most_bytes:,}")
        with self._calls:
            self._start(step, path)
            # Blocks at the bound; the worker takes no lock that is held here.
            self._jobs.put(Job(step, path, data))
            common.OPEN.add(self)
            failures = self._told()
        common.raise_all(failures)

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        with self._calls:
            if self._worker is not None:
                self._jobs.join()
                self._jobs.put(None)
                self._worker.join()
                self._worker = None
            common.OPEN.discard(self)
            failures = self._told()
        common.raise_all(failures)

    def _start(self, step, path):
        if self._worker is not None:
            return
        jobs = queue.Queue(maxsize=self.most_waiting)
        worker = threading.Thread(target=self._work, args=(jobs,), name="dump", daemon=True)
        try:
            worker.start()
        except (RuntimeError, MemoryError) as error:
            raise common.refused(step, path, f"the writer thread cannot start: {error}") from error
        self._worker, self._jobs = worker, jobs

    def _work(self, jobs):
        while True:
            job = jobs.get()
            try:
                if job is None:
                    return
                self._write(job)
            except BaseException as error:
                self._failures.put(common.failed(job.step, job.path, error))
            finally:
                jobs.task_done()

    def _told(self):
        failures = []
        with suppress(queue.Empty):
            while True:
                failures.append(self._failures.get_nowait())
        return failures

    def _write(self, job):
        folder, name = os.path.split(job.path)
        os.makedirs(folder, exist_ok=True)
        key = os.path.realpath(job.path)
        descriptor, temp = tempfile.mkstemp(suffix=".tmp", prefix=f".{name}-", dir=folder)
        try:
            with open(descriptor, "wb") as file:
                if key in self._published:
                    with open(job.path, "rb") as earlier:
                        file.write(earlier.read())
                file.write(job.data)
            os.replace(temp, job.path)
        except BaseException:
            for _ in range(2):
                with suppress(OSError):
                    os.unlink(temp)
            raise
        self._published.add(key)
