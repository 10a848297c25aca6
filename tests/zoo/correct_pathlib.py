"""A correct writer over `pathlib`: a folder for each dump, and a hard link that gives the whole file its name."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.zoo import common
from tests.zoo.common import DumpError, Job


class PathlibWriter:
    """A timer that runs at once writes everything that waits and ends; the next dump starts another one."""

    max_waiting = 16
    max_bytes = 64 * 2**20
    global_steps: Any

    def _init_dump_executor(self):
        if "_changed" not in self.__dict__:
            self._published: set[Path] = set()
            self._start_over()
            common.LIVE.add(self)

    def _start_over(self):
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._timer: threading.Timer | None = None
        self._failures: list[DumpError] = []
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
        with self._changed:
            self._changed.wait_for(lambda: self._fits(len(job.data)))
            self._jobs.append(job)
            if self._timer is None:
                self._start(job)
            common.OPEN.add(self)
            failures, self._failures = self._failures, []
        common.raise_all(failures)

    def _shutdown_dump_executor(self):
        self._init_dump_executor()
        with self._changed:
            timer = self._timer
        if timer is not None:
            timer.join()
        with self._changed:
            failures, self._failures = self._failures, []
            common.OPEN.discard(self)
        common.raise_all(failures)

    def _fits(self, size):
        waiting = sum(len(job.data) for job in self._jobs)
        return len(self._jobs) < self.max_waiting and (not self._jobs or waiting + size <= self.max_bytes)

    def _start(self, job):
        timer = threading.Timer(0, self._work)
        timer.daemon = True
        try:
            timer.start()
        except (RuntimeError, MemoryError) as error:
            self._jobs.remove(job)
            raise common.refused(job.step, job.path, f"the writer thread cannot start: {error}") from error
        self._timer = timer

    def _work(self):
        while True:
            with self._changed:
                if not self._jobs:
                    self._timer = None
                    return
                job = self._jobs[0]
            failure = None
            try:
                self._write(Path(job.path), job)
            except BaseException as error:
                failure = common.failed(job.step, job.path, error)
            with self._changed:
                self._jobs.popleft()
                self._failures += [failure] if failure else []
                self._changed.notify_all()

    def _write(self, final, job):
        folder = final.parent / f".{job.step}.{os.getpid()}-{self._serial}"
        key = final.parent.resolve() / final.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            earlier = final.read_bytes() if key in self._published else b""
            staged = folder / "rows"
            staged.write_bytes(earlier + job.data)
            try:
                final.hardlink_to(staged)
            except FileExistsError:
                staged.replace(final)  # an earlier run's, or this one's with the rows it had
            self._published.add(key)
        finally:
            for name in ("rows", None):
                for _ in range(2):
                    with suppress(OSError):
                        (folder / name).unlink() if name else folder.rmdir()
