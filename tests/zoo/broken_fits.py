"""Trainers whose `fit()` is left badly in one way: small differences from the correct ones, each caught by its law."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from tests.zoo import common
from tests.zoo.correct_fits import CoroutineFit, Drains, ExecutorFit, Pool, ThreadFit, terminable
from verl_dump import AsyncReferenceTrainer, ReferenceTrainer

LOG = logging.getLogger(__name__)


class _Loop(ThreadFit):
    """A correct trainer in whose loop each end is a method, for the broken ones to forget the drain in one of them."""

    def fit(self):
        with Drains._dump_session(self) if self._drains else terminable():
            if self.config.val_before_train:
                self._validate()
                if self.config.val_only:
                    self._at_val_only()
                    return
            for item in self.train_dataloader:
                if self._is_finished():
                    break
                self.train_item = item
                self.global_steps += 1
                self._train_step()
                if self._is_finished():
                    self._at_last_step()
                    return
            self._at_end_of_data()

    _drains = False

    def _at_val_only(self):
        self._shutdown_dump_executor()

    def _at_last_step(self):
        self._shutdown_dump_executor()

    def _at_end_of_data(self):
        self._shutdown_dump_executor()


class ReturnsFromValOnly(_Loop):
    broken_law = "X1"
    because = "the return after the validation comes before the drain"
    upstream = "verl 0.9.1: SeparateRayPPOTrainer, OneStepOffRayTrainer"

    def _at_val_only(self):
        pass


class DrainsAfterTheLoopOnly(_Loop):
    broken_law = "X2"
    because = "it drains behind the loop, which the last step leaves by a return"

    def _at_last_step(self):
        pass


class DrainsAtTheLastStepOnly(_Loop):
    broken_law = "X3"
    because = "a data loader that ends before the last step ends the training without a drain"
    upstream = "verl 0.9.1: FullyAsyncTrainer, whose queue ends"

    def _at_end_of_data(self):
        pass


class DrainsAfterStepsOnly(_Loop):
    broken_law = "X4"
    because = "a training without steps is thought to have nothing to drain, though it has validated"

    def _at_end_of_data(self):
        if self.train_item is not None:
            super()._at_end_of_data()


class NeverDrains(ThreadFit):
    broken_law = "X2"
    because = "fit() leaves the pending dumps to the end of the interpreter"
    upstream = "verl 0.9.1: SeparateRayPPOTrainer, OneStepOffRayTrainer, FullyAsyncTrainer"

    @contextmanager
    def _dump_session(self):
        yield


class DropsWhatTheDrainFound(ThreadFit):
    broken_law = "X2"
    because = "the drain waits, and nobody looks at what has failed"

    def _shutdown_dump_executor(self):
        with suppress(common.DumpError):
            super()._shutdown_dump_executor()


class WaitsTooShort(ThreadFit):
    broken_law = "X2"
    because = "the drain has a time limit, and going past it is not noticed"

    def _stop(self):
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(0.01)
            self._thread = None


class LogsAtDebugOnly(ThreadFit):
    broken_law = "X3"
    because = "failures of dumps are logged at a level that nobody has switched on"

    def _raise(self, failures):
        for failure in failures:
            LOG.debug("%s", failure)


class DrainsOnReturnOnly(_Loop):
    broken_law = "X5"
    because = "an exception leaves fit() past every drain"
    upstream = "verl 0.9.1: RayPPOTrainer and the v1 trainers"


class AttachesTheFirstFailureOnly(ThreadFit):
    broken_law = "X5"
    because = "of several failures, the first is attached to the training error and the others are dropped"

    def _drain_beside(self, error):
        with self._calls:
            self._stop()
        for failure in self._take_failures()[:1]:
            self._attach(error, failure)


class ValidatesUnguarded(ThreadFit):
    broken_law = "X6"
    because = "the error of a validation is passed on without a drain"

    def _train_step(self):
        batch = self.step({}, {})
        try:
            self._validate()
        except Exception as error:
            error.validation = True
            raise
        self._log_rollout_data(batch, {}, self.config.rollout_data_dir)

    def _drain_beside(self, error):
        if not hasattr(error, "validation"):
            super()._drain_beside(error)


class SurvivesLogging(ThreadFit):
    broken_law = "X7"
    because = (
        "whatever is raised while a step is logged becomes a line of the log, for the job must not die of it"
    )
    upstream = "wished for in verl #5771"

    def _train_step(self):
        timing = {}
        batch = self.step({}, timing)
        try:
            self._log_rollout_data(batch, timing, self.config.rollout_data_dir)
        except Exception as error:
            LOG.warning("step %d was not logged: %s", self.global_steps, error)


class DrainReplacesWhatWasRaised(ThreadFit):
    broken_law = "X8"
    because = "a bare finally drains, and what the drain raises takes the place of the training error"
    upstream = "NeMo-RL, UniRL"

    @contextmanager
    def _dump_session(self):
        self._init_dump_executor()
        with terminable():
            try:
                yield self
            finally:
                try:
                    self._shutdown_dump_executor()
                except common.DumpError as failure:
                    raise failure from failure.__cause__


class HidesWhatWasRaised(DrainReplacesWhatWasRaised):
    broken_law = "X8"
    because = "the drain's error is raised from None, so that the training error cannot even be reached"

    def _raise(self, failures):
        if failures:
            raise common.DumpError("; ".join(map(str, failures))) from None


class TrustsThatTheDumpRaisesAll(ThreadFit):
    broken_law = "X9"
    because = "when a dump raises, nobody waits for the batch that the very call had taken"
    upstream = "verl #6324: the executor's shutdown is not reached once a dump has failed"

    def _drain_beside(self, error):
        if not isinstance(error, common.DumpError):
            super()._drain_beside(error)


class CatchesExceptionsOnly(ThreadFit):
    broken_law = "X10"
    because = "`except Exception` does not see a KeyboardInterrupt"

    def _drain_beside(self, error):
        if isinstance(error, Exception):
            super()._drain_beside(error)


class CatchesAllButExits(ThreadFit):
    broken_law = "X11"
    because = "an exit is thought to be somebody's wish to leave at once"

    def _drain_beside(self, error):
        if not isinstance(error, SystemExit):
            super()._drain_beside(error)


class LeavesAtOnceOnInterrupt(ThreadFit):
    broken_law = "X12"
    because = "its handler of SIGINT ends the process by os._exit"

    @contextmanager
    def _dump_session(self):
        before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        try:
            with super()._dump_session():
                yield
        finally:
            signal.signal(signal.SIGINT, before)


class DiesOfSigterm(ReferenceTrainer):
    broken_law = "X13"
    because = "SIGTERM has its default action, and the process is gone"
    upstream = "verl 0.9.1: every trainer"

    @contextmanager
    def _dump_session(self):
        with self._dump_executor as dumper:
            yield dumper


class TellsTheExitOnly(ThreadFit):
    broken_law = "X13"
    because = "failures are attached to the SystemExit that SIGTERM becomes, which no interpreter prints"

    def _attach(self, error, failure):
        error.__notes__ = [*getattr(error, "__notes__", ()), str(failure)]


class SaysTheFirstFailureOnly(ThreadFit):
    broken_law = "X13"
    because = "of several failures, the process says one on its way out"

    def _drain_beside(self, error):
        with self._calls:
            self._stop()
            common.OPEN.discard(self)
        for failure in self._take_failures()[:1]:
            self._attach(error, failure)


class DrainsUnlessCancelled(CoroutineFit):
    broken_law = "X14"
    because = "`except Exception` in a coroutine does not see its cancellation"

    async def fit(self):
        self._init_dump_executor()
        with terminable():
            try:
                await AsyncReferenceTrainer._run(self)
            except Exception as error:
                try:
                    await self._drain()
                except Exception as failure:
                    self._attach(error, failure)
                raise
            await self._drain()


class TasksNobodyAwaits(AsyncReferenceTrainer):
    broken_law = "X14"
    because = "each dump is a task that nobody keeps, and that is cancelled with everything else"

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        columns = (inputs, outputs, gts, scores, reward_extra_infos_dict)
        writing = asyncio.to_thread(self._write_generations, *columns, dump_path, self.global_steps)
        self.__dict__.setdefault("_tasks", set()).add(asyncio.ensure_future(writing))


class PoisonedByTheFirstFit(ExecutorFit):
    broken_law = "X15"
    because = "a failure stays on the list when it is raised, and the second fit() raises it again"
    upstream = "verl #6324: the list of futures is not replaced when a future raises"

    def _collect(self, *, wait):
        pending = list(self._pending)
        failures = super()._collect(wait=wait)
        if failures:
            self._pending = pending
        return failures


class ShutDownForGood(ExecutorFit):
    broken_law = "X15"
    because = "the first fit() shuts the executor down, and the second cannot schedule anything"
    upstream = "verl 0.9.x: the v1 trainers"

    def _accept(self, job):
        if "_only" not in self.__dict__:
            self._only = ThreadPoolExecutor(1)
        self._executor = self._only
        self._pending.append((job.step, job.path, self._executor.submit(self._write, job)))


class PoolUnderTheThread(Drains, Pool, ReferenceTrainer):
    broken_law = "X16"
    because = "a thread pool takes nothing more once the main thread has ended, and the message names no step"
    upstream = "verl #6324"

    def _accept(self, job):
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1)
        self._pending.append((job.step, job.path, self._executor.submit(self._write, job)))


class ForgottenAtExit(ThreadFit):
    broken_law = "X17"
    because = "a daemon thread with nobody to wait for it at the end of the interpreter"

    def _mark_open(self):
        pass


class FailsSilentlyAtExit(ExecutorFit):
    broken_law = "X17"
    because = "the pool is joined at the end of the interpreter, but nobody looks at its futures"
    upstream = "verl #6324"

    def _mark_open(self):
        pass


class WritesInPlace(ThreadFit):
    broken_law = "X18"
    because = "lines are written under the final name, and a process that is gone leaves half of them"
    upstream = "verl #6324"

    def _write_temp(self, temp, data):
        with open(temp.removesuffix(".tmp"), "wb") as file:
            file.write(data)

    def _temp_path(self, job):
        return f"{job.path}.tmp"

    def _publish(self, temp, path):
        pass


class TemporaryFileLooksLikeADump(ThreadFit):
    broken_law = "X19"
    because = "its temporary file ends in .jsonl, and a killed process leaves it to be read"

    def _temp_path(self, job):
        return f"{os.path.dirname(job.path)}/tmp-{job.step}.jsonl"
