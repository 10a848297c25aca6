"""Correct writers that do one thing in an unusual way, for which none of them may be accused."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress

from tests.zoo.thread_queue import ThreadQueueWriter


class PwriteWriter(ThreadQueueWriter):
    """Writes at offsets, by a call that the fake file system lacks."""

    def _write_temp(self, temp, data):
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data[done : done + 4096], done)
        finally:
            os.close(descriptor)


class RefusingWriter(ThreadQueueWriter):
    """Refuses the second dump of a step in one run, by an error that names it."""

    def _accept(self, job):
        seen = self.__dict__.setdefault("_seen", set())
        if job.path in seen:
            raise FileExistsError(errno.EEXIST, f"duplicate dump of step {job.step}", job.path)
        seen.add(job.path)
        super()._accept(job)


class IndexingWriter(ThreadQueueWriter):
    """Keeps an index beside the dumps, atomically, and goes on without it where it cannot be written."""

    def _publish(self, temp, path):
        super()._publish(temp, path)
        directory = os.path.dirname(path)
        index = f"{directory}/.index.tmp"
        try:
            with open(index, "w", encoding="utf-8") as file:
                json.dump(sorted(name for name in os.listdir(directory) if name.endswith(".jsonl")), file)
            os.replace(index, f"{directory}/index.json")
        except OSError:
            for _ in range(2):
                with suppress(OSError):
                    os.unlink(index)


UNUSUAL: tuple[type, ...] = (PwriteWriter, RefusingWriter, IndexingWriter)
