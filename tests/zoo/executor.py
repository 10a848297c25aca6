"""A correct writer over `concurrent.futures`."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tests.zoo import common
from tests.zoo.common import DumpError, Job


class ExecutorWriter:
    """One worker of a `ThreadPoolExecutor`, and the futures of what is not yet looked at."""

    max_waiting = 16
    max_bytes = 64 * 2**20
    max_workers = 1
    global_steps: Any

    def _init_dump_executor(self):
        if "_calls" not in self.__dict__:
            self._published: set[str] = set()
            self._start_over()
            common.LIVE.add(self)

    def _start_over(self):
        self._calls = threading.RLock()
        self._room = threading.Condition()
        self._executor: ThreadPoolExecutor | None = None
        self._pending: list[tuple[Any, str, Future[None]]] = []
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
        with self._calls:
            self._accept(Job(step, path, data))
            failures = self._collect(wait=False)
        self._raise(failures)

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        with self._calls:
            self._stop()
            failures = self._collect(wait=True)
            common.OPEN.discard(self)
        self._raise(failures)

    def _accept(self, job):
        with self._room:
            self._room.wait_for(lambda: self._fits(len(job.data)))
            self._waiting += 1
            self._waiting_bytes += len(job.data)
        fresh = self._executor is None
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.max_workers, thread_name_prefix="dump")
        try:
            future = self._executor.submit(self._run, job)
        except (RuntimeError, MemoryError) as error:
            self._release(job)
            if fresh:
                # submit() queues before it starts the thread: a later thread would write what is refused here.
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = None
            raise common.refused(job.step, job.path, f"the writer cannot take it: {error}") from error
        self._pending.append((job.step, job.path, future))
        self._mark_open()

    def _mark_open(self):
        common.OPEN.add(self)

    def _fits(self, size):
        return self._waiting < self.max_waiting and (
            self._waiting == 0 or self._waiting_bytes + size <= self.max_bytes
        )

    def _release(self, job):
        with self._room:
            self._waiting -= 1
            self._waiting_bytes -= len(job.data)
            self._room.notify_all()

    def _run(self, job):
        try:
            self._write(job)
        finally:
            self._release(job)

    def _write(self, job):
        os.makedirs(os.path.dirname(job.path), exist_ok=True)
        key = os.path.realpath(job.path)
        text = self._earlier_rows(key, job.path) + job.data.decode("ascii")
        temp = f"{os.path.dirname(job.path)}/.{job.step}.jsonl.{os.getpid()}-{self._serial}.tmp"
        try:
            with open(temp, "w", encoding="ascii", newline="\n") as file:
                file.write(text)
            os.replace(temp, job.path)
        except BaseException:
            self._cleanup(temp)
            raise
        self._published.add(key)

    def _earlier_rows(self, key, path):
        if key not in self._published:
            return ""  # the file of an earlier run, if there is one, is replaced
        with open(path, encoding="ascii", newline="\n") as file:
            return file.read()

    def _cleanup(self, temp):
        for _ in range(2):
            with suppress(OSError):
                os.unlink(temp)

    def _stop(self):
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    def _collect(self, *, wait):
        failures: list[DumpError] = []
        later = []
        for step, path, future in self._pending:
            if not wait and not future.done():
                later.append((step, path, future))
            elif (error := future.exception()) is not None:
                failures.append(common.failed(step, path, error))
        self._pending = later
        return failures

    def _raise(self, failures):
        common.raise_all(failures)
