"""A correct writer whose files are written by a process of its own, which acknowledges each dump through a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress

from tests.zoo.thread_queue import ThreadQueueWriter

HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "correct_process_helper.py")


class RemoteWriteError(Exception):
    """What the process told of a failed write: the text of its traceback."""


class ProcessWriter(ThreadQueueWriter):
    """The thread hands each dump to the process and waits for its answer; a process that has died is replaced."""

    _helper: subprocess.Popen[bytes] | None = None

    def _init_dump_executor(self):
        if getattr(self, "_pid", os.getpid()) != os.getpid():
            self._helper = None  # the parent's, whose pipes a forked child must not use
        super()._init_dump_executor()

    def _work(self, jobs):
        try:
            super()._work(jobs)
        finally:
            self._end()

    def _write(self, job):
        key = os.path.realpath(job.path)
        temp = self._temp_path(job)
        helper = self._running()
        head = {"path": job.path, "temp": temp, "adds": key in self._published, "size": len(job.data)}
        try:
            helper.stdin.write(json.dumps(head).encode() + b"\n" + job.data)
            helper.stdin.flush()
            answer = helper.stdout.readline()
        except OSError:
            answer = b""
        if not answer:
            code = self._end()
            self._cleanup(temp, job.path)
            raise ChildProcessError(f"the process that writes ended with {code}")
        told = json.loads(answer)
        if told["error"]:
            number, text, trace = told["error"]
            error = OSError(number, text) if number else RuntimeError(text)
            raise error from RemoteWriteError(trace)
        self._published.add(key)

    def _running(self):
        if self._helper is None:
            # Neither the environment nor the site is asked: it needs the standard library alone.
            command = [sys.executable, "-I", "-S", "-B", HELPER]
            self._helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._helper

    def _end(self):
        helper, self._helper = self._helper, None
        if helper is None:
            return None
        with suppress(OSError):
            # A child that was forked meanwhile holds the pipe too: its end says nothing, a word does.
            helper.stdin.write(b"null\n")
            helper.stdin.flush()
        for stream in (helper.stdin, helper.stdout):
            with suppress(OSError):
                stream.close()
        return helper.wait()
