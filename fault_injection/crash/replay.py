"""The text of a crash state: what a report prints, and what builds the same state again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fault_injection.crash.data import BadVariantError, parse_variant
from fault_injection.crash.model import Disk
from fault_injection.crash.record import Journal
from fault_injection.crash.states import Choice, State, allowed, data_lacks, names_lack, reached
from fault_injection.plan import Plan, PlanError

PREFIX = "power:"
"""What the text of a crash state begins with."""
_FORM = f"{PREFIX}after=17|names=3.9|2=cut(0+512)|plan=fsync#1:lost"


@dataclass(frozen=True)
class PowerPlan:
    """A crash state and the faults of the run that it is one of.

    Args:
        choice: what the power loss does.
        plan: what fails in the run before.
    """

    choice: Choice
    plan: Plan = field(default_factory=Plan)

    def __str__(self) -> str:
        parts = [f"after={self.choice.step}"]
        if self.choice.names is not None:
            parts.append(f"names={'.'.join(map(str, self.choice.names))}")
        parts += [f"{node}={text}" for node, text in self.choice.files]
        if self.plan:
            parts.append(f"plan={self.plan}")
        return PREFIX + "|".join(parts)

    @classmethod
    def parse(cls, text: str) -> PowerPlan:
        """Read it from its text.

        Args:
            text: `power:after=17`, the number of steps that the run had taken; then, each after a `|`, `names=3.9` (the
                unsynced changes of names that are kept; without it all are), `2=cut(0+512)` (what is kept of file 2), and
                last `plan=` with the faults of the run.

        Raises:
            PlanError: it is no such text.
        """
        head, _, plan = text.strip().removeprefix(PREFIX).partition("|plan=")
        parts = [part.partition("=") for part in head.split("|")]
        step, names, files = -1, None, []
        for key, _, value in parts:
            if key == "after" and value.isascii() and value.isdigit():
                step = int(value)
            elif key == "names" and re.fullmatch(r"(-?\d+(\.-?\d+)*)?", value, re.ASCII):
                names = tuple(int(number) for number in value.split(".") if number)
            elif key.isascii() and key.isdigit() and value:
                files.append((int(key), value))
            else:
                raise PlanError(f"{text!r} names no crash state; write {_FORM}, as a report does")
        if step < 0:
            raise PlanError(f"{text!r} does not say after which step the power is lost; write {_FORM}")
        return cls(Choice(step, names, tuple(files)), Plan.parse(plan))


def build(journal: Journal, choice: Choice) -> State:
    """The state that a choice names in a recorded run.

    Raises:
        PlanError: the run has no such step, change of names, or file.
    """
    if choice.step > len(journal.steps):
        raise PlanError(
            f"there is no step {choice.step}: in this run there are {len(journal.steps)}; replay with the same target and seed"
        )
    disk = Disk(journal)
    while disk.step < choice.step:
        disk.advance()
    wanted = {op.step for op in disk.names} if choice.names is None else set(choice.names)
    kept = [op for op in disk.names if op.step in wanted]
    if len(kept) != len(wanted) or not allowed(disk.names, kept):
        raise PlanError(
            f"of the names {sorted(wanted)} not all can be lost or kept after step {choice.step}; "
            "replay with the same target and seed"
        )
    found, texts = sorted(reached(disk, kept).items()), dict(choice.files)
    nodes = {entry.node for _, entry in found}
    if strange := texts.keys() - nodes:
        raise PlanError(f"file {min(strange)} cannot be reached there; replay with the same target and seed")
    try:
        each = {node: parse_variant(texts.get(node, ""), disk.files[node]) for node in nodes}
    except BadVariantError as error:
        raise PlanError(str(error)) from None
    files = tuple((path, each[entry.node].content) for path, entry in found)
    return State(choice, files, names_lack(disk, kept) | data_lacks(found, each))


def told(journal: Journal, choice: Choice) -> str:
    """What a power loss does, in words."""
    last = journal.steps[choice.step - 1].kind if choice.step else "nothing"
    words = [f"after step {choice.step} ({last})"]
    if choice.names is not None:
        disk = Disk(journal)
        while disk.step < choice.step:
            disk.advance()
        lost = [op for op in disk.names if op.step not in choice.names]
        words += [f"without the {journal.steps[abs(op.step) - 1].kind} of step {abs(op.step)}" for op in lost]
    words += [f"file {node} as {text}" for node, text in choice.files]
    return ", ".join(words)
