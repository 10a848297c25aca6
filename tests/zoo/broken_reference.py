"""Writers and trainers that claim more than the bare surface, and break E6, E9 or Q3."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress

from tests.zoo.common import DumpError
from tests.zoo.thread_queue import ThreadQueueWriter
from verl_dump import DrainTimeout, DumpMixin, ReferenceTrainer

LOG = logging.getLogger(__name__)


class DrainReplacesTrainingError(ReferenceTrainer):
    broken_law = "E6"
    because = "a bare finally drains, and what the drain raises takes the place of the training error"
    upstream = "NeMo-RL, UniRL"

    @contextmanager
    def _dump_session(self):
        try:
            yield self._dump_executor
        finally:
            self._shutdown_dump_executor()


class ForgetsFailuresOnTheWayOut(ReferenceTrainer):
    broken_law = "E6"
    because = "on the way out with a training error the failures of dumps are dropped"

    @contextmanager
    def _dump_session(self):
        try:
            yield self._dump_executor
        except BaseException:
            with suppress(Exception):
                self._shutdown_dump_executor()
            raise
        self._shutdown_dump_executor()


class SwallowsTrainingError(ReferenceTrainer):
    broken_law = "E6"
    because = "the drain on the way out returns from a finally, and the training error is gone"

    def fit(self):
        with suppress(Exception):
            super().fit()
        self._shutdown_dump_executor()


class WarnWriter(ThreadQueueWriter):
    """A correct writer with a `warn` mode, for the broken ones to differ from."""

    dump_capabilities = frozenset({"warn"})
    dump_on_error = "raise"
    _failed = 0

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        try:
            super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)
        except DumpError as error:
            if self.dump_on_error != "warn":
                raise
            self._warn(error)

    def _raise(self, failures):
        if self.dump_on_error != "warn":
            super()._raise(failures)
        for failure in failures:
            self._warn(failure)

    def _warn(self, failure):
        self._failed += 1
        LOG.error("%s", failure)

    def _shutdown_dump_executor(self):
        super()._shutdown_dump_executor()
        if self._failed:
            self._sum_up()
        self._failed = 0

    def _sum_up(self):
        LOG.error("dumps that failed since the last drain: %d", self._failed)


class WarnsWithoutStep(WarnWriter):
    broken_law = "E9"
    because = "the log tells what failed but not which dump"

    def _warn(self, failure):
        self._failed += 1
        LOG.error("a dump failed: %s", type(failure.__cause__).__name__)


class WarnsWithoutSummary(WarnWriter):
    broken_law = "E9"
    because = "drain does not tell how many dumps failed"

    def _sum_up(self):
        pass


class WarnsOnlyOnce(WarnWriter):
    broken_law = "E9"
    because = "only the first failure is logged"

    def _warn(self, failure):
        self._failed += 1
        if self._failed == 1:
            LOG.error("%s", failure)


class DeadlineNamesNothing(DumpMixin):
    broken_law = "Q3"
    because = "the error of a drain past its deadline does not tell which steps are not on disk"

    def _shutdown_dump_executor(self, timeout=None):
        try:
            super()._shutdown_dump_executor(timeout)
        except DrainTimeout as error:
            raise TimeoutError(f"drain took longer than {error.timeout} s") from None


class DeadlinePassesQuietly(DumpMixin):
    broken_law = "Q3"
    because = "a drain past its deadline returns as if everything were on disk"

    def _shutdown_dump_executor(self, timeout=None):
        with suppress(DrainTimeout):
            super()._shutdown_dump_executor(timeout)


class DeadlineIgnored(DumpMixin):
    broken_law = "Q3"
    because = "drain takes a timeout and waits for the disk all the same"

    def _shutdown_dump_executor(self, timeout=None):
        super()._shutdown_dump_executor()


class StuckWriteHoldsExit(DumpMixin):
    broken_law = "Q3"
    because = "at the end of the process a stuck write is waited for, whatever deadline was asked for"

    def _init_dump_executor(self):
        self.dump_exit_timeout = 1e6
        super()._init_dump_executor()
