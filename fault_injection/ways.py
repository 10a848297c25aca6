"""The exit matrix as data: every way out of `fit()`, what is pending there, and what must be true afterwards."""

from __future__ import annotations

from dataclasses import dataclass

RETURN = "on disk when fit() ends"
END = "on disk when the process has ended"
WHOLE = "whole files only"
RAISED = "raised by fit()"
ATTACHED = "attached to what ends fit()"
TOLD = "told by the process"
NOBODY = "nobody can tell"
"""What a cell demands: the first three of the data, the others of the errors."""

DEMANDS = {
    RETURN: "every dump is on disk by then",
    END: "every dump is on disk when the process has ended",
    WHOLE: "every file that is there is whole",
    RAISED: "fit() raises every failure of a dump",
    ATTACHED: "what ends it stays the primary error, and every failure of a dump is attached to it",
    TOLD: "every failure of a dump is on stderr, at the latest in the traceback that the process ends with",
    NOBODY: "the failures of dumps may be lost",
}
"""The demands in words."""

PENDING = {"none": 1, "one": 1, "several": 3}
"""How many dumps the training hands over before the way out; with `none` they are at rest by then."""

PLANS = {
    "healthy": "none",
    "failing": "open#1:EACCES",
    "slow": "write#1+:slow(20ms)",
    "stuck": "write#1:stuck",
    "failing twice": "write#2+:ENOSPC",
}
"""What becomes of the pending write, with the plan that makes it so; the last needs several dumps.

A write that fails once is tried again when Python closes the file, and may be made good so; an open is not.
"""

_FULL = "write#1+:ENOSPC"
"""What fails one pending dump for certain; of several it would fail all."""

_AFTER_A_FAILURE = {
    "healthy": "open#1:EACCES",
    "failing": "open#1+:EACCES",
    "slow": "open#1:EACCES;write#1+:slow(20ms)",
    "stuck": "open#1:EACCES;write#1:stuck",
}
"""The same where a dump that failed before is what ends the loop."""


@dataclass(frozen=True)
class Way:
    """One way out of `fit()`.

    Args:
        name: in words, joined by hyphens.
        law: the identifier of its law.
        what: what happens, to follow the word "When".
        data: what is demanded of the data.
        errors: what is demanded of the failures of dumps.
        why: why no more, or no less, is demanded, where that is not obvious.
        phase: where in the training the way out is taken: `step`, `validation`, `logging`, `checkpoint`, or empty.
        raises: the type that is raised there, or empty.
        place: `here` in the process of the trial, `spawn` in a process of its own whose end is part of the way,
            `ray` in an actor.
        needs: what the trainer must have besides `fit()`.
        pending: the columns of the matrix.
        seen: where the defect was seen upstream, or empty.
        like: the way whose training it shares, where that is another one.
    """

    name: str
    law: str
    what: str
    data: str = RETURN
    errors: str = RAISED
    why: str = ""
    phase: str = ""
    raises: str = ""
    place: str = "here"
    needs: str = ""
    pending: tuple[str, ...] = ("none", "one", "several")
    seen: str = ""
    like: str = ""

    @property
    def training(self) -> str:
        """The name of the way whose training it shares."""
        return self.like or self.name


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix: a way out, with so many dumps pending, and what becomes of their write.

    Args:
        way: the way out.
        pending: `none`, `one` or `several`.
        write: a key of `PLANS`.
        plan: the text of the plan.
        data: what is demanded of the data.
        errors: what is demanded of the failures of dumps.
        why: why, where it is not obvious.
    """

    way: Way
    pending: str
    write: str
    plan: str
    data: str
    errors: str
    why: str

    @property
    def scenario(self) -> str:
        """The scenario that makes the way out with so many dumps pending."""
        return scenario_name(self.way, self.pending)

    def __str__(self) -> str:
        return f"{self.way.name}, {self.pending} pending, {self.write}"


_LATE = "the process goes on after fit(), so what counts is what is there when it has ended"
_KILLED = "no code of the process runs any more: only what was published counts (D2, D3)"
_ACTOR = "Ray lets the process of such an actor come to its end: its threads are joined and atexit runs"
_VALIDATES = "validates-several"

WAYS: tuple[Way, ...] = (
    Way("val-only", "X1", "fit() ends after the validation that it was asked for"),
    Way("last-step", "X2", "fit() ends with its last step"),
    Way("exhausted", "X3", "fit() ends because the data is exhausted"),
    Way("zero-steps", "X4", "fit() ends without a step, after a validation"),
    Way(
        "step-raises",
        "X5",
        "fit() ends by an exception in a step",
        errors=ATTACHED,
        phase="step",
        raises="TrainingError",
    ),
    Way(
        "validation-raises",
        "X6",
        "fit() ends by an exception in a validation",
        errors=ATTACHED,
        phase="validation",
        raises="TrainingError",
    ),
    Way(
        "logging-raises",
        "X7",
        "fit() ends by an exception while a step is logged",
        errors=ATTACHED,
        phase="logging",
        raises="TrainingError",
    ),
    Way(
        "checkpoint-raises",
        "X8",
        "fit() ends by an exception in a checkpoint",
        errors=ATTACHED,
        phase="checkpoint",
        raises="TrainingError",
    ),
    Way(
        "dump-raises",
        "X9",
        "fit() ends by the failure of a dump",
        why="the next dump raises it, and hands over one batch more: never are several pending",
        pending=("one",),
    ),
    Way(
        "keyboard-interrupt",
        "X10",
        "fit() ends by a KeyboardInterrupt",
        errors=ATTACHED,
        phase="step",
        raises="KeyboardInterrupt",
    ),
    Way("system-exit", "X11", "fit() ends by sys.exit", errors=ATTACHED, phase="step", raises="SystemExit"),
    Way("sigint", "X12", "fit() ends by SIGINT", END, TOLD, _LATE, "step", place="spawn"),
    Way(
        "sigterm",
        "X13",
        "fit() ends by SIGTERM",
        END,
        TOLD,
        "schedulers end a job by SIGTERM and wait before they kill it: there is time to drain",
        "step",
        place="spawn",
    ),
    Way(
        "cancelled",
        "X14",
        "fit() ends because its task is cancelled",
        errors=ATTACHED,
        phase="step",
        raises="CancelledError",
        needs="coroutine",
    ),
    Way(
        "second-fit",
        "X15",
        "fit() ends a second time on the same trainer",
        why="each fit() answers for its own dumps: what the first has raised is not raised again",
    ),
    Way(
        "thread",
        "X16",
        "fit() ends in a thread, after the main thread",
        END,
        TOLD,
        _LATE,
        "step",
        place="spawn",
    ),
    Way(
        "undrained",
        "X17",
        "the interpreter ends with dumps that no fit() drained",
        END,
        TOLD,
        "nobody is left to catch an exception, but stderr and the exit code are",
        place="spawn",
    ),
    Way("os-exit", "X18", "fit() ends by os._exit", WHOLE, NOBODY, _KILLED, "step", place="spawn"),
    Way("sigkill", "X19", "fit() ends by SIGKILL", WHOLE, NOBODY, _KILLED, "step", place="spawn"),
    Way("ray-return", "X20", "a fit() in a Ray actor returns", place="ray", needs="ray", like="last-step"),
    Way(
        "ray-raises",
        "X21",
        "a fit() in a Ray actor ends by an exception",
        errors=ATTACHED,
        phase="step",
        raises="TrainingError",
        place="ray",
        needs="ray",
        like="step-raises",
    ),
    Way(
        "ray-kill",
        "X22",
        "a Ray actor is killed in the midst of fit()",
        WHOLE,
        NOBODY,
        _KILLED,
        "step",
        place="ray",
        needs="ray",
        like="sigkill",
    ),
    Way(
        "ray-scope",
        "X23",
        "a Ray actor goes out of scope with dumps that no fit() drained",
        END,
        TOLD,
        _ACTOR,
        place="ray",
        needs="ray",
        like="undrained",
    ),
    Way(
        "ray-terminate",
        "X24",
        "a Ray actor is terminated with dumps that no fit() drained",
        END,
        TOLD,
        _ACTOR,
        place="ray",
        needs="ray",
        like="undrained",
    ),
)
"""Every way out, in the order of the report."""

_BY_NAME = {way.name: way for way in WAYS}
_ONE_VALIDATION = frozenset({"val-only", "zero-steps", "undrained"})
"""Ways on which only validations dump: several are pending only where one validation dumps several batches."""


def scenario_name(way: Way, pending: str) -> str:
    """The name of the scenario that makes a way out."""
    return f"exit-{way.name}-{pending}"


def needs_of(way: Way, pending: str) -> frozenset[str]:
    """What a trainer must have for a way out with so many dumps pending, besides `fit`."""
    needs = {f"way-{way.name}", f"way-{way.training}"}
    if way.needs:
        needs.add(way.needs)
    if pending == "several" and way.training in _ONE_VALIDATION:
        needs.add(_VALIDATES)
    return frozenset(needs)


def writes_of(way: Way, pending: str) -> dict[str, str]:
    """What may become of the pending write on a way out, with its plans."""
    if pending == "none":
        return {"healthy": "none"}
    if way.name == "dump-raises":
        return dict(_AFTER_A_FAILURE)
    if pending == "several":
        return dict(PLANS)
    return {write: plan for write, plan in PLANS.items() if write != "failing twice"} | {"failing": _FULL}


def cells_of(way: Way) -> tuple[Cell, ...]:
    """The cells of one way out."""
    return tuple(
        _cell(way, pending, write, plan)
        for pending in way.pending
        for write, plan in writes_of(way, pending).items()
    )


def cell_of(scenario: str, plan: str) -> Cell | None:
    """The cell of a trial, or None where its scenario is none of the matrix.

    Args:
        scenario: the name of a scenario.
        plan: the text of its plan; one that is no column of the matrix stands for a failing write.
    """
    head, _, pending = scenario.removeprefix("exit-").rpartition("-")
    way = _BY_NAME.get(head)
    if way is None or pending not in way.pending or scenario != scenario_name(way, pending):
        return None
    names = {text: write for write, text in writes_of(way, pending).items()}
    return _cell(way, pending, names.get(plan, "failing"), plan)


def _cell(way: Way, pending: str, write: str, plan: str) -> Cell:
    data, errors, why = way.data, way.errors, way.why
    if write == "stuck" and data == END:
        why = (
            f"{why}; a stuck write may be given up at a deadline, if the steps that are not on disk are named"
        )
    return Cell(way, pending, write, plan, data, errors, why)


_FEW = frozenset({("none", "healthy"), ("one", "healthy"), ("one", "failing"), ("several", "failing twice")})


def is_few(cell: Cell) -> bool:
    """Whether a run of few cells has this one: of each way out there are some, healthy and failing."""
    return (cell.pending, cell.write) in _FEW


def cells() -> tuple[Cell, ...]:
    """Every cell of the matrix."""
    return tuple(cell for way in WAYS for cell in cells_of(way))
