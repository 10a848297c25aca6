"""Writers that lose rows or values of one shape only, and one that talks of everything but the loss."""

from __future__ import annotations

import json
import sys

from tests.zoo.executor import ExecutorWriter
from tests.zoo.thread_queue import ThreadQueueWriter

__all__ = ["CutsLongText", "CutsRows", "DropsNone", "DropsStepZero", "RoundsScores", "TalksOfDumps"]


class DropsStepZero(ThreadQueueWriter):
    broken_law = "D1"
    because = "step 0 is taken for no step"

    def _accept(self, job):
        if job.step:
            super()._accept(job)


class CutsRows(ThreadQueueWriter):
    broken_law = "D1"
    because = "at most 1,024 rows are written"

    def _encode(self, step, columns, extras):
        return b"".join(super()._encode(step, columns, extras).splitlines(keepends=True)[:1024])


class CutsLongText(ThreadQueueWriter):
    broken_law = "D1"
    because = "texts are cut at 64 Ki characters"

    def _encode(self, step, columns, extras):
        cut = {k: [v[: 1 << 16] if isinstance(v, str) else v for v in c] for k, c in columns.items()}
        return super()._encode(step, cut, extras)


class RoundsScores(ThreadQueueWriter):
    broken_law = "D1"
    because = "floats are rounded to six places"

    def _encode(self, step, columns, extras):
        scores = [round(score, 6) for score in columns["score"]]
        return super()._encode(step, {**columns, "score": scores}, extras)


class DropsNone(ThreadQueueWriter):
    broken_law = "D1"
    because = "a key whose value is None is left out"

    def _encode(self, step, columns, extras):
        rows = [json.loads(line) for line in super()._encode(step, columns, extras).splitlines()]
        kept = [{key: value for key, value in row.items() if value is not None} for row in rows]
        return "".join(json.dumps(row) + "\n" for row in kept).encode()


class TalksOfDumps(ExecutorWriter):
    broken_law = "E10"
    because = "it says at every start that it dumps, and nothing of what is lost at the end"

    def _mark_open(self):
        print("dump worker ready", file=sys.stderr)
