"""A correct writer without a thread: each dump is on disk, or raised, before its call returns."""

from __future__ import annotations

import io
import os
import threading
from contextlib import suppress
from typing import Any

from tests.zoo import common


class SynchronousWriter:
    """Writes within the call, through `io.FileIO`; there is nothing to start and nothing to drain."""

    global_steps: Any

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        step = self.global_steps
        path = common.file_path(dump_path, step)
        try:
            columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
            data = common.encode(step, columns, reward_extra_infos_dict)
        except Exception as error:
            raise common.refused(step, path, error) from error
        with self.__dict__.setdefault("_lock", threading.Lock()):
            try:
                self._write(path, data)
            except Exception as error:
                raise common.failed(step, path, error) from error

    def _write(self, path, data):
        published = self.__dict__.setdefault("_published", set())
        os.makedirs(os.path.dirname(path), exist_ok=True)
        key = os.path.realpath(path)
        if key in published:
            with io.FileIO(path) as file:
                data = file.readall() + data
        temp = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.tmp")
        try:
            with io.FileIO(temp, "w") as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
            os.rename(temp, path)
        except BaseException:
            for _ in range(2):
                with suppress(OSError):
                    os.unlink(temp)
            raise
        published.add(key)
