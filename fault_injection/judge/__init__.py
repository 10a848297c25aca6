"""The judge: a history goes in, violations come out; nothing else is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fault_injection.history import History, Hung
from fault_injection.judge import data, errors, exits, queue
from fault_injection.judge.facts import Facts
from fault_injection.ways import WAYS

Rule = Callable[[Facts], "Iterator[str]"]


@dataclass(frozen=True)
class Violation:
    """One law broken in one trial.

    Args:
        law: its identifier.
        message: one plain sentence of what happened.
    """

    law: str
    message: str


RULES: dict[str, Rule] = {
    "D1": data.complete,
    "D2": data.whole_at_every_instant,
    "D3": data.nothing_left_behind,
    "D4": data.others_written,
    "D5": data.as_handed_over,
    "D6": data.both_of_one_step,
    "E1": errors.raised,
    "E2": errors.raised_once,
    "E3": errors.all_raised,
    "E4": errors.telling,
    "E5": errors.own_batch,
    "E6": errors.primary,
    "E7": errors.ended,
    "E8": errors.death_reported,
    "E9": errors.warned,
    "E10": errors.not_silent,
    **{way.law: exits.left_well for way in WAYS},
    "Q1": queue.returns,
    "Q2": queue.bounded,
    "Q3": queue.deadline,
    "Q4": queue.ordered,
    "Q5": queue.after_drain,
    "Q6": queue.from_threads,
    "Q7": queue.forked,
    "S3": data.in_utf8,
}
"""The rule of every law that is judged by a history; the others are judged by examples."""


def judge(history: History, laws: frozenset[str]) -> tuple[Violation, ...]:
    """Judge a history.

    Args:
        history: what happened.
        laws: the identifiers of the laws it is judged by.

    Returns:
        What was violated, in the order of the laws.
    """
    facts = Facts(history)
    return tuple(
        Violation(law, message)
        for law, rule in RULES.items()
        if law in laws
        for message in dict.fromkeys(rule(facts))
    )


_FAILING = frozenset({"D4", "E1", "E3", "E4"})
"""Laws about failures: a trial in which nothing can fail says nothing about them."""


_EXITS = frozenset(way.law for way in WAYS)
_HANGING = frozenset({"D2", "Q1", "Q3", "Q5"}) | _EXITS
"""Laws that a trial which hung still says something about; the others ask what happened after the last call."""


def relevant(history: History, laws: frozenset[str]) -> frozenset[str]:
    """The laws that a history can say something about.

    Args:
        history: what happened.
        laws: the laws to choose from.
    """
    if any(True for _ in history.of(Hung)):
        return laws & _HANGING | {"E8"}
    facts = Facts(history)
    out: set[str] = set()
    if facts.shaped:
        out |= _FAILING
    elif not facts.killed:
        out.add("D1")
    if facts.deadly:
        out |= {"E1", "E3", "E4"}
    else:
        out.add("E8")
    return laws - out
