"""Writers that each break one law of group D."""

from __future__ import annotations

import copy
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.zoo import common
from tests.zoo.common import Job
from tests.zoo.os_write import OsWriteWriter
from tests.zoo.thread_queue import ThreadQueueWriter


class LosesLastRow(ThreadQueueWriter):
    broken_law = "D1"
    because = "the loop over the rows ends one too early"

    def _encode(self, step, columns, extras):
        return b"".join(super()._encode(step, columns, extras).splitlines(keepends=True)[:-1])


class DropsColumn(ThreadQueueWriter):
    broken_law = "D1"
    because = "the ground truths are not written"
    upstream = "verl #2353, repaired by #3348: overriders lagged behind the new argument"

    def _encode(self, step, columns, extras):
        return super()._encode(step, {name: columns[name] for name in columns if name != "gts"}, extras)


class ReordersRows(ThreadQueueWriter):
    broken_law = "D1"
    because = "the rows are written last to first"

    def _encode(self, step, columns, extras):
        return b"".join(reversed(super()._encode(step, columns, extras).splitlines(keepends=True)))


class IgnoresShortWrite(OsWriteWriter):
    broken_law = "D1"
    because = "os.write may take fewer bytes than it was given, and its answer is not looked at"

    def _write_bytes(self, file, data):
        os.write(file, data)


class WritesInPlace(ThreadQueueWriter):
    broken_law = "D2"
    because = "the file is written under its final name"
    upstream = "verl #6324"

    def _write_temp(self, temp, data):
        self._unpublished = data

    def _publish(self, temp, path):
        with open(path, "wb") as file:
            file.write(self._unpublished)


class RenamesBeforeClose(ThreadQueueWriter):
    broken_law = "D2"
    because = "the file is moved to its final name while its bytes are still in the buffer of the open file"

    def _write_temp(self, temp, data):
        self._open = open(temp, "wb")
        self._open.write(data)

    def _publish(self, temp, path):
        with self._open:
            super()._publish(temp, path)

    def _cleanup(self, temp, path):
        if not self._open.closed:
            self._open.close()
        super()._cleanup(temp, path)


class TempMatchesGlob(ThreadQueueWriter):
    broken_law = "D2"
    because = "the temporary file is called 1.tmp.jsonl, which readers of *.jsonl take for a dump"

    def _temp_path(self, job):
        return f"{os.path.dirname(job.path)}/{job.step}.tmp.jsonl"


class CopiesIntoPlace(ThreadQueueWriter):
    broken_law = "D2"
    because = "the complete temporary file is copied over the final name instead of moved there"

    def _publish(self, temp, path):
        with open(temp, "rb") as source, open(path, "wb") as file:
            file.write(source.read())
        os.unlink(temp)


class LeavesTempFile(ThreadQueueWriter):
    broken_law = "D3"
    because = "the temporary file of a failed dump stays"

    def _cleanup(self, temp, path):
        pass


class FailureRemovesOlderFile(ThreadQueueWriter):
    broken_law = "D3"
    because = "cleaning up after a failure removes the final name too, and with it the file of an earlier run"

    def _cleanup(self, temp, path):
        super()._cleanup(temp, path)
        with suppress(OSError):
            os.unlink(path)


class RemovesOlderFileFirst(ThreadQueueWriter):
    broken_law = "D3"
    because = "the older file is removed before the new one is moved to its name, which may fail"

    def _publish(self, temp, path):
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.rename(temp, path)


class PublishesLeftovers(ThreadQueueWriter):
    broken_law = "D3"
    because = "the temporary file of a killed process is taken for a dump that only has to be moved"

    def _write(self, job):
        folder = os.path.dirname(job.path)
        mine = os.path.basename(self._temp_path(job)).split(".jsonl.")[1]
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            match = re.fullmatch(r"\.(\d+\.jsonl)\.(\d+-\d+\.tmp)", name)
            if match and match[2] != mine:
                os.replace(os.path.join(folder, name), os.path.join(folder, match[1]))
        super()._write(job)


class StopsAtFirstFailure(ThreadQueueWriter):
    broken_law = "D4"
    because = "after the first failure every later dump is taken and thrown away"
    _stopped = False

    def _note_failure(self, job, error):
        self._stopped = True
        super()._note_failure(job, error)

    def _write(self, job):
        if not self._stopped:
            super()._write(job)


class FailureEmptiesQueue(ThreadQueueWriter):
    broken_law = "D4"
    because = "a failure throws away what waits behind the dump that failed"

    def _work(self, jobs):
        self._behind = jobs
        super()._work(jobs)

    def _note_failure(self, job, error):
        super()._note_failure(job, error)
        while not self._behind.empty():
            thrown = self._behind.get()
            if thrown is None:
                self._behind.put(None)  # the drain's end mark: the worker must still end
                return
            self._release(thrown)


@dataclass(frozen=True)
class LateJob(Job):
    """A job that is encoded again when it is written; `data` serves the bound in bytes."""

    columns: dict[str, Any]
    extras: Any


class EncodesLate(ThreadQueueWriter):
    """A correct writer that copies at the call and encodes in the worker, for the broken ones to differ from."""

    def _job(self, step, columns, extras, dump_path):
        job = super()._job(step, columns, extras, dump_path)
        return LateJob(job.step, job.path, job.data, *self._keep(columns, extras))

    def _keep(self, columns, extras):
        return copy.deepcopy((columns, extras))

    def _write(self, job):
        super()._write(Job(job.step, job.path, self._encode(job.step, job.columns, job.extras)))


class AliasesBatch(EncodesLate):
    broken_law = "D5"
    because = "the caller's own lists wait in the queue and are read by the worker"
    upstream = "verl #6324"

    def _keep(self, columns, extras):
        return columns, extras


class CopiesOnlyOuterLists(EncodesLate):
    broken_law = "D5"
    because = "the columns are copied, but the dicts and lists inside them are still the caller's"

    def _keep(self, columns, extras):
        return tuple(
            {name: list(column) for name, column in part.items()} for part in (columns, extras or {})
        )


class ReadsStepLate(EncodesLate):
    broken_law = "D5"
    because = "the worker reads global_steps for the rows when it writes, and the trainer has gone on by then"

    def _write(self, job):
        super()._write(LateJob(self.global_steps, job.path, job.data, job.columns, job.extras))


class NamesFileLate(EncodesLate):
    broken_law = "D5"
    because = "the worker reads global_steps for the file's name when it writes, and the trainer has gone on by then"

    def _write(self, job):
        path = common.file_path(os.path.dirname(job.path), self.global_steps)
        super()._write(LateJob(job.step, path, job.data, job.columns, job.extras))


class ReplacesSameStep(ThreadQueueWriter):
    broken_law = "D6"
    because = "the second dump of a step in one run replaces the first"
    upstream = "verl #6324"

    def _earlier_rows(self, key, path):
        return b""


class TakesLinkForAnother(ThreadQueueWriter):
    broken_law = "D6"
    because = "a directory is known by its absolute path, and through a link to it, it is another one"

    def _earlier_rows(self, key, path):
        paths = self.__dict__.setdefault("_paths", set())
        known = path in paths
        paths.add(path)
        return super()._earlier_rows(key, path) if known else b""


class MakesPathAbsoluteLate(ThreadQueueWriter):
    broken_law = "D1"
    because = (
        "a relative directory is looked up when the worker writes, and the program may work elsewhere by then"
    )

    def _job(self, step, columns, extras, dump_path):
        job = super()._job(step, columns, extras, dump_path)
        return Job(job.step, os.path.join(dump_path, f"{step}.jsonl"), job.data)


class ClearsTheFolder(ThreadQueueWriter):
    broken_law = "D3"
    because = "what lies beside the dumps and is none is cleared away, whoever has put it there"

    def _write(self, job):
        folder = os.path.dirname(job.path)
        if os.path.isdir(folder):
            for name in os.listdir(folder):
                if not name.endswith(".jsonl"):
                    os.unlink(f"{folder}/{name}")
        super()._write(job)
