"""A correct writer over `pathlib`, with a folder in which files wait until they are whole."""

from __future__ import annotations

import builtins
import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.zoo import common
from tests.zoo.common import Job


class StagingWriter:
    """A daemon thread fills `.staging-*/` and moves what is whole; between a drain and the next start it refuses dumps."""

    max_waiting = 16
    max_bytes = 64 * 2**20
    global_steps: Any

    def _init_dump_executor(self):
        if "_changed" not in self.__dict__:
            self._published: set[str] = set()
            self._start_over()
            common.LIVE.add(self)
        self._accepting = True

    def _start_over(self):
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._thread: threading.Thread | None = None
        self._failures: list[Exception] = []
        self._folder = f".staging-{os.getpid()}-{next(common.SERIAL)}"

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        step = self.global_steps
        path = common.file_path(dump_path, step)
        if not getattr(self, "_accepting", False):
            raise common.refused(step, path, "the writer is not running; call _init_dump_executor() first")
        try:
            columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
            data = common.encode(step, columns, reward_extra_infos_dict)
        except Exception as error:
            raise common.refused(step, path, error) from error
        self._accept(Job(step, path, data))
        self._raise_failures()

    def _shutdown_dump_executor(self):
        if "_changed" not in self.__dict__:
            return
        with self._changed:
            self._accepting = False
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        with self._changed:
            self._thread = None
            common.OPEN.discard(self)
        self._raise_failures()

    def _accept(self, job):
        with self._changed:
            self._changed.wait_for(lambda: not self._accepting or self._fits(len(job.data)))
            if not self._accepting:
                raise common.refused(
                    job.step, job.path, "the writer was drained while the call waited for room"
                )
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="dump", daemon=True)
                try:
                    thread.start()
                except (RuntimeError, MemoryError) as error:
                    reason = f"the writer thread cannot start: {error}"
                    raise common.refused(job.step, job.path, reason) from error
                self._thread = thread
            self._jobs.append(job)
            common.OPEN.add(self)
            self._changed.notify_all()

    def _fits(self, size):
        waiting = sum(len(job.data) for job in self._jobs)
        return len(self._jobs) < self.max_waiting and (not self._jobs or waiting + size <= self.max_bytes)

    def _work(self):
        folders: set[Path] = set()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or not self._accepting)
                if not self._jobs:
                    break
                job = self._jobs[0]
            failure = None
            try:
                self._write(job, folders)
            except BaseException as error:
                failure = common.failed(job.step, job.path, error)
            with self._changed:
                self._jobs.popleft()
                self._failures += [failure] if failure else []
                self._changed.notify_all()
        for folder in folders:
            for _ in range(2):
                with suppress(BaseException):  # an empty hidden folder is no failed dump
                    folder.rmdir()

    def _write(self, job, folders):
        final = Path(job.path)
        folder = final.parent / self._folder
        folders.add(folder)
        folder.mkdir(parents=True, exist_ok=True)
        key = os.path.realpath(final)
        earlier = final.read_bytes() if key in self._published else b""
        staged = folder / f"{job.step}.part"
        try:
            staged.write_bytes(earlier + job.data)
            staged.replace(final)
        except BaseException:
            for _ in range(2):
                with suppress(OSError):
                    staged.unlink()
            raise
        self._published.add(key)

    def _raise_failures(self):
        with self._changed:
            failures, self._failures = self._failures, []
        group = getattr(builtins, "ExceptionGroup", None)
        if group is None or len(failures) < 2:
            common.raise_all(failures)
        else:
            raise group("; ".join(map(str, failures)), failures)
