"""What the engine and its worker processes say to each other."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import IO

from fault_injection.history import History
from fault_injection.scenario import Unit
from fault_injection.subject import Spec
from fault_injection.sweep import TrialResult


@dataclass(frozen=True)
class Depth:
    """How far a run goes beyond the plans of faults.

    Args:
        examples: how many examples are tried for each law of serialization and columns.
        torch: whether tensors are among them, for which torch is imported.
        readers: whether pandas, pyarrow, datasets, polars and duckdb read the files too, where they are installed.
        ray: whether `fit()` runs in Ray actors too, for which Ray is started on this machine.
        preemptions: how often a thread that could go on is made to wait for another one, at most.
        schedules: schedules of one scenario beyond which none with two preemptions are run.
    """

    examples: int = 200
    torch: bool = False
    readers: bool = False
    ray: bool = False
    preemptions: int = 2
    schedules: int = 250

    @property
    def features(self) -> frozenset[str]:
        """What scenarios may need of the run."""
        return frozenset(({"torch"} if self.torch else set()) | ({"ray"} if self.ray else set()))


DEPTH = Depth()
"""How far a run goes by default."""


@dataclass(frozen=True)
class Job:
    """What the parent sends.

    Args:
        spec: the subject.
        seed: the seed.
        scratch: a directory for files.
        unit: what to run.
        laws: the laws to judge by.
        depth: how far examples go.
        history: send the histories back too.
    """

    spec: Spec
    seed: int
    scratch: str
    unit: Unit
    laws: frozenset[str]
    depth: Depth = DEPTH
    history: bool = False


@dataclass(frozen=True)
class Reply:
    """What the worker answers.

    Args:
        results: of every trial, in order.
        hung_at: the k at which a call never ended; the worker is gone then.
        tired: the worker ends after this answer, though all is well.
        error: the traceback of a defect of the harness.
        refusal: the one line of a target that cannot be loaded or driven.
        histories: if asked for.
    """

    results: tuple[TrialResult, ...] = ()
    hung_at: int = 0
    tired: bool = False
    error: str = ""
    refusal: str = ""
    histories: tuple[History, ...] = field(default=())


def send(stream: IO[bytes], message: object) -> None:
    """Write one message and push it out."""
    pickle.dump(message, stream)
    stream.flush()
