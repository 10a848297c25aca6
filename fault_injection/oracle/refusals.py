"""The judge of an error: whether it had to come, and whether it names column, row and type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Protocol

from fault_injection.errors import reachable
from fault_injection.oracle.batch import Column, Expectation
from fault_injection.oracle.compare import show
from fault_injection.oracle.lengths import tells_lengths
from fault_injection.oracle.outcome import Refusal, walk

LAW_ORDER = ("C3", "C4", "C1", "C2", "S7", "S6", "S5", "S3", "S2", "S8", "S1", "S4", "S9")
"""The laws judged here, the most telling first."""
_SHOWN = 160


class ErrorView(Protocol):
    """What is known of a raised exception; `fault_injection.history.Failure` is one."""

    @property
    def words(self) -> str:
        """Everything that the exception and those it was raised from say."""


def words_of(error: BaseException) -> str:
    """The class, message and notes of an exception and of all that can be reached from it, a line each."""
    return "\n".join(line for each in reachable(error) for line in _lines(each))


def _lines(error: BaseException) -> Iterator[str]:
    try:
        yield f"{type(error).__name__}: {error}"
    except Exception as broken:  # noqa: BLE001 - the user's class may do anything
        yield f"{type(error).__name__}: <its text cannot be shown: {type(broken).__name__}>"
    yield from map(str, getattr(error, "__notes__", ()))


def judge_error(
    expectation: Expectation, error: ErrorView | BaseException, *, at_call: bool = True
) -> Iterator[tuple[str, str]]:
    """Say what the laws have against an error that came for a batch.

    Args:
        expectation: what must come of the batch.
        error: what was raised.
        at_call: whether the call that handed the batch over raised it.

    Yields:
        (law, message).
    """
    words = words_of(error) if isinstance(error, BaseException) else error.words
    first = words.strip().splitlines()[0][:_SHOWN] if words.strip() else "an error without words"
    if not expectation.refusals:
        for law in _suspects(expectation, words):
            yield law, f"a batch that can be written is refused: {first}"
        return
    told = [refusal for refusal in expectation.refusals if _tells(refusal, words)]
    for refusal in told:
        if at_call or not refusal.at_call:
            return
    refusal = (told or sorted(expectation.refusals, key=_weight))[0]
    for law in refusal.laws:
        if told:
            yield (
                law,
                f"the error comes after the call has returned, though the caller could mend it: {first}",
            )
        else:
            yield law, f"{place(refusal)}: the error does not name {_wanted(refusal)}: {first}"


def _weight(refusal: Refusal) -> tuple[bool, int]:
    return not refusal.must, LAW_ORDER.index(refusal.laws[0])


def _tells(refusal: Refusal, words: str) -> bool:
    """Whether an error names column, row and type, or of lengths what is wrong; rows may be counted from 0 or from 1."""
    if refusal.lengths:
        return tells_lengths(words, refusal.lengths)
    if refusal.column is not None:
        names = (refusal.column, *refusal.others)
        if not any(
            shown in words for name in names for shown in (name, repr(name), ascii(name), json.dumps(name))
        ):
            return False
    if refusal.row is not None:
        numbers = f"{refusal.row}|{refusal.row + 1}"
        if not re.search(rf"\brows?\b\D{{0,12}}\b(?:{numbers})\b", words):
            return False
    low = words.casefold()
    return not refusal.types or any(name.casefold() in low for name in refusal.types)


def place(refusal: Refusal) -> str:
    """The column and row of a refusal, as messages name them."""
    column = "the batch" if refusal.column is None else f"column {show(refusal.column)}"
    return column if refusal.row is None else f"{column}, row {refusal.row}"


def _wanted(refusal: Refusal) -> str:
    if refusal.lengths:
        return "the column that is of another length"
    wanted = [] if refusal.column is None else ["column"]
    wanted += [] if refusal.row is None else ["row"]
    wanted += [f"type ({refusal.types[0]})"] if refusal.types else []
    return " and ".join([", ".join(wanted[:-1]), wanted[-1]] if len(wanted) > 1 else wanted) or "the reason"


def _suspects(expectation: Expectation, words: str) -> tuple[str, ...]:
    """The law for whose sake a batch may have been refused wrongly, judged by the cell that the error names, or by all."""
    if "Unicode" in words or "surrogate" in words:
        return ("S3",)
    cells = [
        (column, row, {law for each in walk(outcome.node) for law in each.laws} | _by_name(column))
        for column in expectation.columns
        for row, outcome in enumerate(column.outcomes)
    ]
    named = [
        laws
        for column, row, laws in cells
        if _tells(Refusal("", (), (), column=column.name, row=row, others=column.others), words)
    ]
    # The step of each row is at stake for C2, which is about names and not about values.
    laws: set[str] = set().union(*(named or [laws for _, _, laws in cells])) - {"C2"}
    if "key" in words and "S5" in laws:
        return ("S5",)
    return next(((law,) for law in LAW_ORDER if law in laws), ("S9",))


def _by_name(column: Column) -> set[str]:
    return {"S5"} if "S5" in column.laws else set()
