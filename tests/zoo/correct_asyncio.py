"""A correct writer over `asyncio`: an event loop of its own, in whose order `asyncio.to_thread` writes."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import Any

from tests.zoo import common
from tests.zoo.common import DumpError, Job


class AsyncioWriter:
    """A loop in a thread takes jobs as coroutines; a lock, which is fair, keeps their order."""

    max_waiting = 16
    max_bytes = 64 * 2**20
    global_steps: Any

    def _init_dump_executor(self):
        if "_room" not in self.__dict__:
            self._published: set[str] = set()
            self._start_over()
            common.LIVE.add(self)

    def _start_over(self):
        self._calls = threading.Lock()
        self._room = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._failures: list[DumpError] = []
        self._waiting = self._waiting_bytes = 0
        self._serial = next(common.SERIAL)

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        self._init_dump_executor()
        step = self.global_steps
        path = common.file_path(dump_path, step)
        try:
            columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
            job = Job(step, path, common.encode(step, columns, reward_extra_infos_dict))
        except Exception as error:
            raise common.refused(step, path, error) from error
        with self._calls:
            self._start(job)
            with self._room:
                self._room.wait_for(lambda: self._fits(len(job.data)))
                self._waiting, self._waiting_bytes = self._waiting + 1, self._waiting_bytes + len(job.data)
            asyncio.run_coroutine_threadsafe(self._take(job), self._loop)
            common.OPEN.add(self)
        common.raise_all(self._told())

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        with self._calls:
            if self._thread is not None:
                with self._room:
                    self._room.wait_for(lambda: self._waiting == 0)
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop = self._thread = None
            common.OPEN.discard(self)
        common.raise_all(self._told())

    def _fits(self, size):
        return self._waiting == 0 or (
            self._waiting < self.max_waiting and self._waiting_bytes + size <= self.max_bytes
        )

    def _told(self):
        with self._room:
            failures, self._failures = self._failures, []
        return failures

    def _start(self, job):
        if self._thread is not None:
            return
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._serve, args=(loop,), name="dump-loop", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            loop.close()
            raise common.refused(job.step, job.path, f"the loop's thread cannot start: {error}") from error
        self._loop, self._thread, self._order = loop, thread, asyncio.Lock()

    def _serve(self, loop):
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    async def _take(self, job):
        async with self._order:
            once = threading.Lock()
            try:
                await asyncio.to_thread(self._run, job, once)
            except (RuntimeError, MemoryError):
                # No thread is to be had, at the end of the process say; a later one may find what was submitted.
                self._run(job, once)

    def _run(self, job, once):
        if not once.acquire(blocking=False):
            return
        failures = []
        try:
            self._write(job)
        except BaseException as error:  # SystemExit, raised in a task, would end the loop
            failures = [common.failed(job.step, job.path, error)]
        with self._room:
            self._failures += failures
            self._waiting, self._waiting_bytes = self._waiting - 1, self._waiting_bytes - len(job.data)
            self._room.notify_all()

    def _write(self, job):
        os.makedirs(os.path.dirname(job.path), exist_ok=True)
        key = os.path.realpath(job.path)
        temp = f"{job.path}.{os.getpid()}-{self._serial}.tmp"
        try:
            with open(temp, "w+", encoding="ascii", newline="\n", buffering=512) as file:
                if key in self._published:
                    with open(job.path, encoding="ascii", newline="\n") as earlier:
                        file.write(earlier.read())
                file.writelines(job.data.decode("ascii").splitlines(keepends=True))
            os.replace(temp, job.path)
        except BaseException:
            for _ in range(2):
                with suppress(OSError):
                    os.unlink(temp)
            raise
        self._published.add(key)
