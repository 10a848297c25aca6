"""Writers whose files are written by the C library behind Python's back, as pyarrow, polars and the like do."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess

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


class ClibDurable(ClibWriter):
    """A correct writer that claims `durable`: the file is synced, then renamed, then its directory is synced."""

    dump_capabilities = frozenset({"durable"})

    def _write(self, job):
        directory = os.path.dirname(job.path)
        if not os.path.isdir(directory):
            clib("mkdir", directory, 0o777)
            sync(os.path.dirname(directory))
        temp = os.path.join(directory, f".{job.step}.jsonl.{os.getpid()}-{self._serial}.tmp")
        try:
            self._fill(temp, job.data)
            self._publish(temp, job.path)
        except BaseException:
            LIBRARY.unlink(os.fsencode(temp))
            raise

    def _fill(self, temp, data):
        fill(temp, data)

    def _publish(self, temp, path):
        clib("rename", temp, path)
        sync(os.path.dirname(path))


class ClibNoFsync(ClibDurable):
    broken_law = "D7"
    because = "the file is never synced: its name survives a power loss, and its bytes do not"
    needs = "data persists without fsync"

    def _fill(self, temp, data):
        fill(temp, data, synced=False)


class ClibRenamesBeforeFsync(ClibDurable):
    broken_law = "D2"
    because = "the file has its final name before its bytes are synced"
    needs = "rename persists after data"

    def _fill(self, temp, data):
        fill(temp, data, synced=False)

    def _publish(self, temp, path):
        clib("rename", temp, path)
        sync(path)
        sync(os.path.dirname(path))


class ClibNoDirectoryFsync(ClibDurable):
    broken_law = "D7"
    because = "the rename is not synced, and a power loss takes the final name away"
    needs = "directory entry persists without a directory fsync"

    def _publish(self, temp, path):
        clib("rename", temp, path)


class CommandDurable(ClibDurable):
    """A correct writer whose files are written, synced and renamed by other programs."""

    def _fill(self, temp, data):
        script = f"cat > {shlex.quote(temp)} && sync {shlex.quote(temp)}"
        subprocess.run(["sh", "-c", script], input=data, check=True)

    def _publish(self, temp, path):
        subprocess.run(["mv", temp, path], check=True)
        subprocess.run(["sync", os.path.dirname(path)], check=True)


class ByMemory(ClibDurable):
    """A writer that fills its file through memory, which no system call shows."""

    def _fill(self, temp, data):
        import mmap

        with open(temp, "wb+") as file:
            file.truncate(len(data))
            with mmap.mmap(file.fileno(), len(data)) as memory:
                memory[:] = data
                memory.flush()
            os.fsync(file.fileno())


class ClibInPlace(OsWriteWriter):
    """A broken one: it writes under the final name, and does not look at what write answered."""

    def _write(self, job):
        os.makedirs(os.path.dirname(job.path), exist_ok=True)
        file = clib("open", job.path, FLAGS, 0o666)
        LIBRARY.write(file, job.data, ctypes.c_size_t(len(job.data)))
        LIBRARY.close(file)


LIBRARY = ctypes.CDLL(None, use_errno=True)


def fill(path, data, *, synced=True):
    """Write all of the bytes to a new file and sync it."""
    file = clib("open", path, FLAGS, 0o666)
    try:
        while data:
            data = data[clib("write", file, data, ctypes.c_size_t(len(data))) :]
        if synced:
            clib("fsync", file)
    except BaseException:
        LIBRARY.close(file)
        raise
    clib("close", file)


def sync(path):
    """Sync a file or a directory by a descriptor of its own."""
    file = clib("open", path, os.O_RDONLY, 0)
    try:
        clib("fsync", file)
    finally:
        LIBRARY.close(file)


def clib(name, *arguments):
    """Call a function of the C library; its error is raised as Python would."""
    paths = [os.fsencode(each) if isinstance(each, str) else each for each in arguments]
    result = getattr(LIBRARY, name)(*paths)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), *(each for each in arguments[:1] if isinstance(each, str)))
    return result
