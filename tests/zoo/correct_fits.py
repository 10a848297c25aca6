"""Three correct trainers, built differently: drained futures, writes within the call, and a coroutine with futures."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from contextlib import contextmanager

from tests.zoo import common
from tests.zoo.common import DumpError
from tests.zoo.executor import ExecutorWriter
from tests.zoo.thread_queue import ThreadQueueWriter
from verl_dump import AsyncReferenceTrainer, ReferenceTrainer
from verl_dump.encoding import encode, snapshot
from verl_dump.files import Publisher, locate


@contextmanager
def terminable():
    """Make SIGTERM a `SystemExit` while this lasts; nested, or in another thread, it changes nothing."""

    def leave(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Drains:
    """Drains a writer with verl's surface on every way out of `fit()`; the error that ends it stays what propagates."""

    @contextmanager
    def _dump_session(self):
        self._init_dump_executor()
        with terminable():
            try:
                yield self
            except BaseException as error:
                self._drain_beside(error)
                raise
            self._shutdown_dump_executor()

    def _drain_beside(self, error):
        try:
            self._shutdown_dump_executor()
        except Exception as failure:
            self._attach(error, failure)

    def _attach(self, error, failure):
        error.__notes__ = [*getattr(error, "__notes__", ()), str(failure)]
        if not isinstance(error, (Exception, KeyboardInterrupt)):
            # Neither the interpreter nor asyncio shows these.
            print(failure, file=sys.stderr)


class ThreadFit(Drains, ThreadQueueWriter, ReferenceTrainer):
    """A thread and a queue under the loop of the reference trainer."""


class Pool(ExecutorWriter):
    """A thread pool; where it takes no more, since the main thread has ended, the call itself writes."""

    def _accept(self, job):
        try:
            super()._accept(job)
        except DumpError:
            try:
                self._write(job)
            except Exception as error:
                raise common.failed(job.step, job.path, error) from error


class ExecutorFit(Drains, Pool, ReferenceTrainer):
    """A thread pool whose futures are all looked at."""


class SynchronousFit(ReferenceTrainer):
    """Each dump is on disk, or raised, before its call returns: there is nothing to drain."""

    _init_dump_executor = _shutdown_dump_executor = None

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        # Unlike `_write_generations`, one publisher knows which of the step's rows are its own.
        publisher = self.__dict__.setdefault("_publisher", Publisher())
        step, path = locate(dump_path, self.global_steps)
        columns = {"inputs": inputs, "outputs": outputs, "gts": gts, "scores": scores}
        rows = encode(snapshot(step, **columns, extras=reward_extra_infos_dict))
        try:
            publisher.publish(path, rows)
        except Exception as error:
            raise common.failed(step, path, error) from error

    @contextmanager
    def _dump_session(self):
        yield


class CoroutineFit(Drains, Pool, AsyncReferenceTrainer):
    """A coroutine that waits for its futures without stopping the event loop."""

    async def fit(self):
        self._init_dump_executor()
        with terminable():
            try:
                await AsyncReferenceTrainer._run(self)  # the executor has one of that name
            except BaseException as error:
                try:
                    await self._drain()
                except Exception as failure:
                    self._attach(error, failure)
                raise
            await self._drain()

    async def _drain(self):
        try:
            await asyncio.to_thread(self._shutdown_dump_executor)
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
            # No new thread is to be had when the main one has ended.
            self._shutdown_dump_executor()


CORRECT_FITS: tuple[type, ...] = (ThreadFit, ExecutorFit, SynchronousFit, CoroutineFit)
