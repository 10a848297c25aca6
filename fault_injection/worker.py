"""A worker process: loads the subject once and runs units of trials until there are no more."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from fault_injection import examples
from fault_injection.crash import serve as power
from fault_injection.history import History
from fault_injection.interleave import serve as interleave
from fault_injection.judge.facts import Facts
from fault_injection.nursery import NURSERY, ChildEndsError
from fault_injection.runner import Order, run_trial
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Spec, Subject, ready_subject
from fault_injection.sweep import TrialResult, judged, kinds_of, sweep
from fault_injection.targets.errors import TargetError
from fault_injection.trial import quiet_threads
from fault_injection.wire import Job, Reply, send

CROWD = 60
"""Threads left behind by the target after which the worker asks for a fresh process."""


def main() -> None:
    """Serve jobs from standard input until it ends."""
    # What the target prints must not get between the answers, nor what it reads be taken from the jobs.
    with os.fdopen(os.dup(0), "rb") as jobs, os.fdopen(os.dup(1), "wb") as answers:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        quiet_threads()
        while True:
            try:
                job: Job = pickle.load(jobs)  # noqa: S301 - written by this package's own engine
            except EOFError:
                _close()
                return
            # torch makes a folder for what it compiles; here it goes away with the run.
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(job.scratch, "torch"))
            if hasattr(os, "fork") and _is_ready(job.spec):
                NURSERY.start((jobs, answers))
            reply = _serve(job, answers)
            send(answers, reply)
            if reply.tired:
                _close()
                return


def _is_ready(spec: Spec) -> bool:
    """Load the subject; what is wrong with it is told by the answer to the job."""
    try:
        ready_subject(spec)
    except BaseException:  # noqa: BLE001 - it is raised again there
        return False
    return True


def _close() -> None:
    """End what this process has started for its trials."""
    NURSERY.close()
    actors = sys.modules.get("fault_injection.actors")
    if actors is not None:
        actors.stop()


def _serve(job: Job, answers: BinaryIO) -> Reply:
    results: list[TrialResult] = []
    histories: list[History] = []
    try:
        subject = ready_subject(job.spec)
        if SCENARIOS[job.unit.scenario].place == "examples":
            return _by_examples(job, subject, answers)
        if SCENARIOS[job.unit.scenario].mechanism == "memory" and not _works_in_memory(job, subject, answers):
            return Reply()

        def hung(history: History) -> None:
            results.append(judged(history, job.laws))
            histories.append(history)
            sent = tuple(histories) if job.history else ()
            send(answers, Reply(tuple(results), job.unit.start + len(results) - 1, histories=sent))
            # The thread that made the call is lost in it; the process goes with it.
            os._exit(0)

        def run(plan: str) -> History:
            history = run_trial(
                Order(job.spec, job.unit.scenario, plan, job.seed), subject, job.scratch, hung
            )
            if job.history:
                histories.append(history)
            return history

        if SCENARIOS[job.unit.scenario].place == "switch":
            return interleave.reply_to(job, subject, answers)
        if SCENARIOS[job.unit.scenario].place == "power":
            return power.reply_to(job, subject, hung)
        kinds = _kinds(job, run) if job.unit.family is not None else None
        results.extend(result for _, result in sweep(job.unit, run, job.laws, kinds))
    except TargetError as error:
        return Reply(refusal=str(error))
    except BaseException:  # noqa: BLE001 - sent to the parent, which raises it
        return Reply(error=traceback.format_exc())
    tired = threading.active_count() > CROWD
    return Reply(tuple(results), tired=tired, histories=tuple(histories))


def _by_examples(job: Job, subject: Subject, answers: BinaryIO) -> Reply:
    """Search for an example that breaks the law of the job's scenario, or dump the one that its plan names."""
    (law,) = SCENARIOS[job.unit.scenario].laws
    depth = job.depth

    def hung() -> None:
        history = examples.hung_history(job.unit.scenario, job.seed)
        send(answers, Reply((judged(history, frozenset({law})),), 1, histories=(history,)))
        os._exit(0)

    bench = examples.Bench(subject, job.scratch, hung, readers=depth.readers)
    try:
        if job.history:
            result, history = examples.replay(
                bench, law, job.unit.plan or "", torch=depth.torch, scenario=job.unit.scenario, seed=job.seed
            )
            return Reply((result,), histories=(history,))
        return Reply(examples.search(bench, law, job.seed, depth.examples, torch=depth.torch))
    except examples.BadExampleError as error:
        return Reply(refusal=str(error))
    finally:
        bench.close()


def _works_in_memory(job: Job, subject: Subject, answers: BinaryIO) -> bool:
    """Whether the writer's calls exist in the fake file system, which lacks some (`os.pwrite`, `mmap`, `io.FileIO`).

    Where they do not, nothing can be said of the writer there; the disk mechanism judges it all the same.
    """

    def hung(_: History) -> None:
        send(answers, Reply(tired=True))
        os._exit(0)

    key = (job.spec, job.unit.scenario, job.seed)
    if key not in _IN_MEMORY:
        order = Order(job.spec, job.unit.scenario, "none", job.seed)
        facts = Facts(run_trial(order, subject, job.scratch, hung))
        _IN_MEMORY[key] = not facts.raised and not facts.lost
    return _IN_MEMORY[key]


_IN_MEMORY: dict[tuple[Spec, str, int], bool] = {}


def _kinds(job: Job, run: Callable[[str], History]) -> frozenset[str] | None:
    """The kinds of operations of the job's scenario, by one run without faults; None where the target hangs in it."""
    key = (job.spec, job.unit.scenario, job.seed)
    scenario = SCENARIOS[job.unit.scenario]
    # A trial in memory shows refused operations only.
    if key not in _KINDS and scenario.place == "here" and scenario.mechanism == "disk":
        _KINDS[key] = kinds_of(run("none"))
    return _KINDS.get(key)


_KINDS: dict[tuple[Spec, str, int], frozenset[str]] = {}


if __name__ == "__main__":
    with suppress(ChildEndsError):
        main()
