"""A worker process: loads the subject once and runs units of trials until there are no more."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from typing import BinaryIO

from fault_injection.history import History
from fault_injection.runner import Order, run_trial
from fault_injection.subject import load_subject
from fault_injection.sweep import TrialResult, judged, sweep
from fault_injection.targets.errors import TargetError
from fault_injection.trial import quiet_threads
from fault_injection.wire import Job, Reply, send

CROWD = 60
"""Threads left behind by the target after which the worker asks for a fresh process."""


def main() -> None:
    """Serve jobs from standard input until it ends."""
    jobs = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as answers:
        # Whatever the target prints must not get between the answers.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        quiet_threads()
        while True:
            try:
                job: Job = pickle.load(jobs)  # noqa: S301 - written by this package's own engine
            except EOFError:
                return
            reply = _serve(job, answers)
            send(answers, reply)
            if reply.tired:
                return


def _serve(job: Job, answers: BinaryIO) -> Reply:
    results: list[TrialResult] = []
    histories: list[History] = []
    try:
        subject = load_subject(job.spec)

        def hung(history: History) -> None:
            results.append(judged(history, job.laws))
            histories.append(history)
            sent = tuple(histories) if job.history else ()
            send(answers, Reply(tuple(results), job.unit.start + len(results) - 1, histories=sent))
            # The thread that made the call is lost in it; the process goes with it.
            os._exit(0)

        def run(plan: str) -> History:
            history = run_trial(Order(job.spec, job.unit.scenario, plan, job.seed), subject, job.scratch, hung)
            if job.history:
                histories.append(history)
            return history

        results.extend(result for _, result in sweep(job.unit, run, job.laws))
    except TargetError as error:
        return Reply(refusal=str(error))
    except BaseException:  # noqa: BLE001 - sent to the parent, which raises it
        return Reply(error=traceback.format_exc())
    tired = threading.active_count() > CROWD
    return Reply(tuple(results), tired=tired, histories=tuple(histories))


if __name__ == "__main__":
    main()
