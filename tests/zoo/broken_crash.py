"""A writer that survives a power loss, and writers that differ from it in one way each, so that a power loss shows."""

from __future__ import annotations

import os
from contextlib import suppress

from tests.zoo.thread_queue import ThreadQueueWriter


class DurableWriter(ThreadQueueWriter):
    """A correct writer that claims `durable`: the file is synced, then renamed, then its directory is synced."""

    dump_capabilities = frozenset({"durable"})

    def _write(self, job):
        self._make_directory(os.path.dirname(job.path))
        super()._write(job)

    def _make_directory(self, directory):
        unsynced = self.__dict__.setdefault("_unsynced", [])
        missing = directory
        while not os.path.isdir(missing):
            missing = os.path.dirname(missing)
            # What was made is an entry of the directory above it; where a sync fails, it is due at the next dump.
            unsynced.append(missing)
        os.makedirs(directory, exist_ok=True)
        while unsynced:
            self._sync_directory(unsynced[0])
            unsynced.pop(0)

    def _write_temp(self, temp, data):
        with open(temp, "wb") as file:
            file.write(data)
            file.flush()
            self._sync_file(file)

    def _sync_file(self, file):
        os.fsync(file.fileno())

    def _publish(self, temp, path):
        os.replace(temp, path)
        self._sync_entries(os.path.dirname(path))

    def _sync_entries(self, directory):
        self._sync_directory(directory)

    def _sync_directory(self, directory):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class NoFsync(DurableWriter):
    broken_law = "D7"
    because = "the file is never synced: its name survives a power loss, and its bytes do not"
    needs = "data persists without fsync"
    upstream = "verl #6324"

    def _sync_file(self, file):
        pass


class RenamesBeforeFsync(DurableWriter):
    broken_law = "D2"
    because = "the file has its final name before its bytes are synced"
    needs = "rename persists after data"

    def _sync_file(self, file):
        pass

    def _publish(self, temp, path):
        os.replace(temp, path)
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        self._sync_entries(os.path.dirname(path))


class NoDirectoryFsync(DurableWriter):
    broken_law = "D7"
    because = "the rename is not synced, and a power loss takes the final name away"
    needs = "directory entry persists without a directory fsync"
    upstream = "verl #6324"

    def _sync_entries(self, directory):
        pass


class NoFsyncOfTheDirectoryAbove(DurableWriter):
    broken_law = "D7"
    because = "the dump directory is an entry of the one above it, which is not synced"
    needs = "a new directory persists without an fsync of the directory above it"

    def _make_directory(self, directory):
        os.makedirs(directory, exist_ok=True)


class SyncsAnotherDescriptor(DurableWriter):
    broken_law = "D7"
    because = "the descriptor that is synced is that of the directory, not of the file"
    needs = "data persists without fsync"

    def _sync_file(self, file):
        self._sync_directory(os.path.dirname(file.name))


class SyncsBeforeFlush(DurableWriter):
    broken_law = "D7"
    because = "the file is synced while its bytes still wait in Python's buffer"
    needs = "data persists without fsync"

    def _write_temp(self, temp, data):
        with open(temp, "wb", buffering=len(data) + 1) as file:
            file.write(data)
            self._sync_file(file)


class TemporaryNameMatches(DurableWriter):
    broken_law = "D2"
    because = "the temporary file matches *.jsonl, so that a crash leaves a dump that nobody made"

    def _temp_path(self, job):
        return f"{os.path.dirname(job.path)}/tmp-{job.step}-{os.getpid()}-{self._serial}.jsonl"


class RetriesFailedFsync(DurableWriter):
    broken_law = "D7"
    because = "a failed fsync is tried again, and the second one succeeds although the bytes are gone"
    needs = "a failed fsync loses nothing"
    upstream = "PostgreSQL, the fsync study of ATC 2020"

    def _sync_file(self, file):
        with suppress(OSError):
            os.fsync(file.fileno())
            return
        os.fsync(file.fileno())


class RemovesOlderFirst(DurableWriter):
    broken_law = "D3"
    because = "the file of an earlier run is removed before the new one takes its name"

    def _publish(self, temp, path):
        with suppress(FileNotFoundError):
            os.unlink(path)
        super()._publish(temp, path)
