"""Scenarios: what is done to a target in a trial, which laws it is judged by, and which faults are swept over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fault_injection.fault import CATALOGUE, ERRNO_FAULTS, Fault
from fault_injection.op import OPS
from fault_injection.plan import Plan, Rule, Span, once, persistent
from fault_injection.trial import Trial

MOST_K = 10_000
"""A sweep that has not ended by then never will: the writer does more at every trial."""


@dataclass(frozen=True)
class Family:
    """Plans that differ only in k, counted from 1: the fault at the k-th operation of a kind.

    Args:
        op: the kind of operation, `any` for all of them, or `bytes` for a disk that is full after k - 1 times `stride` bytes.
        fault: what strikes.
        stays: from the k-th operation on, not only once.
        stride: bytes from one k to the next, for `bytes`.
    """

    op: str
    fault: Fault
    stays: bool = False
    stride: int = 0

    def plan(self, k: int) -> Plan:
        """The plan for one k, from 1."""
        if self.op == "bytes":
            span = Span(1) if self.stays else Span(1, 1)
            return Plan((Rule("bytes", span, self.fault, limit=(k - 1) * self.stride),))
        return (persistent if self.stays else once)(self.op, k, self.fault)

    def __str__(self) -> str:
        return f"{str(self.fault).lower()}-{'persistent' if self.stays else 'once'}-{self.op}"


@dataclass(frozen=True)
class Menu:
    """The plans of a scenario.

    Args:
        plans: plans that are run as they stand.
        families: plans that are swept until nothing fires.
    """

    plans: tuple[Plan, ...] = (Plan(),)
    families: tuple[Family, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """One course of events.

    Args:
        name: in words, joined by hyphens.
        laws: identifiers of the laws that its histories are judged by.
        run: does it; gets the trial and the seed.
        menu: the faults.
        prepare: lays down what is there before the faults are armed.
        after: for `fork`, what the next run does over the directory that the killed process left.
        needs: what the target must have: `asynchronous`, `fit`, or a capability.
        prior: for `fork`, the plan that kills a process before the one of the trial, in the same directory.
        place: `here` (in the worker process), `fork` (in a forked child, for plans that kill), or `spawn` (in a fresh
            interpreter, whose exit is part of the history),
            `examples` (no course of events but batches that Hypothesis makes), `power` (here, and then every state
            that a power loss may leave is built and judged), or `switch` (here, in every order in which its threads
            may take turns).
        mechanism: `disk`, `memory` or `kernel`.
        warn: whether the target is opened in its `warn` mode.
        exit_deadline: seconds given to targets that claim `deadline`, in trials in which something is stuck.
        environment: variables of the fresh interpreter, for `spawn`.
        counts_open: whether the descriptors that are still open below the root are counted at the end, for `here`.
    """

    name: str
    laws: frozenset[str]
    run: Callable[[Trial, int], None]
    menu: Menu = Menu()
    prepare: Callable[[Trial, int], None] | None = None
    after: Callable[[Trial, int], None] | None = None
    prior: str = ""
    needs: frozenset[str] = frozenset()
    place: str = "here"
    mechanism: str = "disk"
    warn: bool = False
    exit_deadline: float | None = None
    environment: tuple[tuple[str, str], ...] = ()
    counts_open: bool = False


@dataclass(frozen=True)
class Unit:
    """One piece of work for a worker: a scenario under one plan, or under all plans of a family.

    Args:
        scenario: the name of the scenario.
        plan: the text of a plan, or None for a family.
        family: the family, or None for a plan.
        start: the first k.
        most: how many of a family, where it does not end before; 0 for all.
    """

    scenario: str
    plan: str | None = None
    family: Family | None = None
    start: int = 1
    most: int = 0

    @property
    def ks(self) -> range:
        """The k of a family that are tried, until nothing fires."""
        return range(self.start, min(self.start + self.most, MOST_K) if self.most else MOST_K)

    def __str__(self) -> str:
        return f"{self.scenario}-{self.family or self.plan}"


def prepared(trial: Trial, scenario: Scenario, seed: int, plan: Plan | None = None) -> None:
    """Set the target's options and lay down what the scenario wants to find.

    Args:
        trial: has not begun.
        scenario: what is to be run in it.
        seed: chooses the batches.
        plan: what fails.
    """
    trial.target.warn = scenario.warn
    # A disk that is merely slow, or a busy machine, must not race against a deadline made for what is stuck.
    stuck = plan is not None and any(rule.fault.name == "stuck" for rule in plan.rules)
    trial.target.exit_deadline = scenario.exit_deadline if stuck else None
    if scenario.prepare is not None:
        scenario.prepare(trial, seed)


def every_errno(
    ops: tuple[str, ...] | None = None, names: tuple[str, ...] = ERRNO_FAULTS
) -> tuple[Family, ...]:
    """Each errno at each operation, once and from then on.

    Args:
        ops: the kinds of operations, by default all on files.
        names: the faults, by default every errno of the catalogue.
    """
    return tuple(
        Family(op, Fault(name), stays)
        for op in (ops or tuple(OPS))
        for name in names
        if op in CATALOGUE[name].ops
        for stays in (False, True)
    )


def at_every(
    name: str, amount: float = 0, ops: tuple[str, ...] | None = None, *, both: bool = False
) -> tuple[Family, ...]:
    """One fault at each operation it applies to, once (and from then on, if `both`)."""
    return tuple(
        Family(op, Fault(name, amount), stays)
        for op in (ops or tuple(OPS))
        if op in CATALOGUE[name].ops
        for stays in ((False, True) if both else (False,))
    )
