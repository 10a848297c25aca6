"""Scenarios in which the process ends, or forks, while dumps are pending; each in a fresh interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from fault_injection.batches import make_batch
from fault_injection.fault import Fault
from fault_injection.forks import fork, watch_child
from fault_injection.plan import Plan
from fault_injection.scenario import Family, Menu, Scenario
from fault_injection.scenarios.writing import FIRST, dump_and_settle
from fault_injection.trial import Trial

_ASYNCHRONOUS = frozenset({"asynchronous"})


def undrained(trial: Trial, seed: int) -> None:
    """Three dumps, at rest before the process ends without a drain."""
    trial.open()
    for number in range(3):
        dump_and_settle(trial, make_batch(seed, number, FIRST + number))


def undrained_waiting(trial: Trial, seed: int) -> None:
    """Three dumps that still wait for the held disk when the main thread ends; then the disk goes on."""
    trial.open()
    with trial.held():
        for number in range(3):
            trial.dump(make_batch(seed, number, FIRST + number))


def foreign_locale(trial: Trial, seed: int) -> None:
    """Text of several scripts under a locale that knows ASCII only."""
    trial.open()
    batch = make_batch(seed, 0, FIRST, rows=2)
    batch.outputs[0] += " 答案 π ≈ 3.14 🙂"
    trial.dump(batch)
    trial.drain()


def stuck_exit(trial: Trial, seed: int) -> None:
    """Two dumps of which one is stuck for ever; the process must end all the same."""
    trial.open()
    for number in range(2):
        trial.dump(make_batch(seed, number, FIRST + number))
    trial.settle()


def _forking(in_child: Callable[[Trial, int], None]) -> Callable[[Trial, int], None]:
    def run(trial: Trial, seed: int) -> None:
        trial.open()
        with trial.held():
            for number in range(2):
                trial.dump(make_batch(seed, number, FIRST + number))
            trial.settle()
            before = trial.look()
            child = fork()
            if child == 0:
                in_child(trial, seed)
                sys.exit(0)
            # The layer is not armed in the child: the held disk holds the parent only.
            watch_child(trial, child, before)
        trial.drain()

    return run


def _exits(trial: Trial, seed: int) -> None:
    """The child ends at once, as an interpreter does."""


def _drains(trial: Trial, _: int) -> None:
    """The child drains what it inherited, then ends."""
    trial.target.drain()


def _dumps(trial: Trial, seed: int) -> None:
    """The child dumps a step of its own and drains."""
    try:
        trial.target.dump(os.path.join(trial.root, "dump"), make_batch(seed, 9, FIRST + 9))
        trial.target.drain()
    except Exception:  # noqa: BLE001, S110 - a clear refusal is allowed; hanging and writing are what is judged
        pass


_PLANS = (
    Family("write", Fault("ENOSPC")),
    Family("write", Fault("ENOSPC"), stays=True),
    Family("open", Fault("EACCES"), stays=True),
    Family("close", Fault("EIO")),
    Family("rename", Fault("EIO")),
)

SCENARIOS = (
    Scenario("undrained", frozenset({"E10", "D2"}), undrained, Menu((Plan(),), _PLANS), place="spawn"),
    Scenario(
        "undrained-waiting",
        frozenset({"E10", "D2"}),
        undrained_waiting,
        Menu((Plan(),), _PLANS),
        needs=_ASYNCHRONOUS,
        place="spawn",
    ),
    Scenario(
        "foreign-locale",
        frozenset({"S3", "D2"}),
        foreign_locale,
        place="spawn",
        # Without the last two, Python overrules the C locale by UTF-8 (PEP 538, PEP 540); other locales it obeys.
        environment=(("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")),
    ),
    Scenario(
        "stuck-exit",
        frozenset({"Q3", "D2"}),
        stuck_exit,
        Menu((), (Family("write", Fault("stuck")), Family("open", Fault("stuck")))),
        needs=frozenset({"asynchronous", "deadline"}),
        place="spawn",
        exit_deadline=0.2,
    ),
    *(
        Scenario(f"forked-{name}", frozenset({"Q7"}), _forking(in_child), needs=_ASYNCHRONOUS, place="spawn")
        for name, in_child in (("exits", _exits), ("drains", _drains), ("dumps", _dumps))
    ),
)
