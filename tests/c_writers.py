"""Writers whose files are written by the C library behind Python's back, as pyarrow, polars and the like do."""

from __future__ import annotations

import ctypes
import os

from tests.zoo.os_write import FLAGS, OsWriteWriter


class ClibWriter(OsWriteWriter):
    """A correct writer: each call of the operating system is made by the C library, and every answer is looked at."""

    def _write(self, job):
        directory = os.path.dirname(job.path)
        if not os.path.isdir(directory):
            clib("mkdir", directory, 0o777)
        temp = os.path.join(directory, f".{job.step}.jsonl.{os.getpid()}-{self._serial}.tmp")
        try:
            fill(temp, job.data)
            clib("rename", temp, job.path)
        except BaseException:
            LIBRARY.unlink(os.fsencode(temp))
            raise


class ClibInPlace(OsWriteWriter):
    """A broken one: it writes under the final name, and does not look at what write answered."""

    def _write(self, job):
        os.makedirs(os.path.dirname(job.path), exist_ok=True)
        file = clib("open", job.path, FLAGS, 0o666)
        LIBRARY.write(file, job.data, ctypes.c_size_t(len(job.data)))
        LIBRARY.close(file)


LIBRARY = ctypes.CDLL(None, use_errno=True)


def fill(path, data):
    """Write all of the bytes to a new file and sync it."""
    file = clib("open", path, FLAGS, 0o666)
    try:
        while data:
            data = data[clib("write", file, data, ctypes.c_size_t(len(data))) :]
        clib("fsync", file)
    except BaseException:
        LIBRARY.close(file)
        raise
    clib("close", file)


def clib(name, *arguments):
    """Call a function of the C library; its error is raised as Python would."""
    paths = [os.fsencode(each) if isinstance(each, str) else each for each in arguments]
    result = getattr(LIBRARY, name)(*paths)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), *(each for each in arguments[:1] if isinstance(each, str)))
    return result
