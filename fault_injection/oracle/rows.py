"""The judge of one dump: what was handed over against the bytes of its file, or against the error that came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fault_injection.oracle.batch import BASE, BatchLike, Column, Expectation, expect
from fault_injection.oracle.compare import differences, show
from fault_injection.oracle.names import assigned
from fault_injection.oracle.policies import DEFAULTS, Policies
from fault_injection.oracle.refusals import LAW_ORDER, ErrorView, judge_error, place
from fault_injection.oracle.strict import StrictError, parse

Finding = tuple[str, str]
"""The identifier of a law, and one sentence of how it is violated."""


SILENTLY_LOST = "nothing was raised, and there is no file"
"""What is said of a batch that has vanished: to the law whose batch it was, whatever that law is about."""


def judge_rows(
    batch: BatchLike,
    policies: Policies = DEFAULTS,
    content: bytes | None = None,
    error: ErrorView | BaseException | None = None,
    *,
    at_call: bool = True,
    gts: bool = True,
) -> tuple[Finding, ...]:
    """List what the laws S1 to S9 and C1 to C4 have against one dump.

    Args:
        batch: what was handed over, unchanged since; where the writer may have changed it, use `expect` before and
            `judge_expectation` after.
        policies: what the writer declares.
        content: the bytes of the file; None where there is none.
        error: what was raised for the dump, by the call or by a later one; None: nothing.
        at_call: whether it was the call that raised it.
        gts: whether the writer takes ground truths.
    """
    return judge_expectation(expect(batch, policies, gts=gts), content, error, at_call=at_call)


def judge_expectation(
    expectation: Expectation,
    content: bytes | None,
    error: ErrorView | BaseException | None,
    *,
    at_call: bool = True,
) -> tuple[Finding, ...]:
    """List what the laws have against one dump of which it is known what must come; see `judge_rows`."""
    if error is not None:
        found = list(judge_error(expectation, error, at_call=at_call))
        if content is not None and expectation.refusals:
            found.append(("S7", "the batch is refused, and there is a file all the same"))
    elif content is None:
        found = [("S7", SILENTLY_LOST)]
    else:
        found = [*_not_refused(expectation), *_written(expectation, content)]
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: LAW_ORDER.index(finding[0])))


def _not_refused(expectation: Expectation) -> Iterator[Finding]:
    for refusal in expectation.refusals:
        if refusal.must:
            yield from (
                (law, f"{place(refusal)}: nothing is raised, though {refusal.reason}") for law in refusal.laws
            )


def _written(expectation: Expectation, content: bytes) -> Iterator[Finding]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        yield "S3", f"the file is not UTF-8: {error.reason} at byte {error.start}"
        return
    if text.startswith("\ufeff"):
        yield "S3", "the file starts with a byte order mark"
        text = text[1:]
    if text and not text.endswith("\n"):
        yield "S8", "the last line has no end"
        text += "\n"
    lines = text.split("\n")[:-1]
    if expectation.rows is None:
        return
    if len(lines) != expectation.rows:
        yield "S8", f"there are {len(lines)} lines for {expectation.rows} rows"
    elif len(text.splitlines()) != expectation.rows:
        others = len(text.splitlines())
        char = next(char for char in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r" if char in text)
        yield "S8", f"{expectation.rows} rows are {others} lines for str.splitlines: U+{ord(char):04X} is raw"
    spelled: dict[str, str] = {}
    for row, line in enumerate(lines[: expectation.rows]):
        yield from _line(expectation, row, line, spelled)


def _line(expectation: Expectation, row: int, line: str, spelled: dict[str, str]) -> Iterator[Finding]:
    """List what the laws have against one line; `spelled` holds the names of the columns in the lines before it."""
    try:
        got = parse(line)
    except StrictError as error:
        yield (
            error.law,
            f"row {row}: {error}: {show(line[max(0, error.position - 20) : error.position + 20])}",
        )
        try:
            got = json.loads(line)
        except (ValueError, RecursionError):
            return
    else:
        yield from _by_python(row, line)
    if not isinstance(got, dict):
        yield "S2", f"row {row}: the line is no JSON object"
        return
    names = assigned([(column.name, *column.others) for column in expectation.columns], got)
    named = dict(zip((column.name for column in expectation.columns), names, strict=True))
    contested = {each.column: each.laws for each in expectation.refusals if each.row is None and each.must}
    # A renamed extra that is not there has taken the place of the column whose name it had.
    contested |= {
        column.name.removeprefix("extra_"): column.laws
        for column in expectation.columns
        if column.laws == ("C2",) and named[column.name] is None
    }
    for column in expectation.columns:
        name = named[column.name]
        if name is not None and spelled.setdefault(column.name, name) != name:
            yield (
                "S5",
                f"row {row}, key {show(name)}: the column is {show(spelled[column.name])} in the rows before",
            )
        for law, message in _cell(column, name, row, got):
            # What replaced a column is reported for the law about names, whatever else it breaks.
            for about in contested.get(column.name, (law,)) if not column.refused else (law,):
                yield about, message
    known = set(names)
    # A column under another name is reported where it is missing.
    if not expectation.refused and len(got) > len(names):
        yield from (
            ("S9", f"row {row} has a key {show(name)} that was not handed over")
            for name in got
            if name not in known
        )


def _by_python(row: int, line: str) -> Iterator[Finding]:
    try:
        json.loads(line)
    except (ValueError, RecursionError) as error:
        yield "S9", f"row {row}: Python's json cannot read the line: {type(error).__name__}: {error}"


def _cell(column: Column, name: str | None, row: int, got: dict[str, Any]) -> Iterator[Finding]:
    if name is None:
        laws = ("C1",) if column.refused or column.name in BASE else column.laws
        yield from (
            (law, f"row {row} has no key {show(column.name)}: the {column.kind} column is gone")
            for law in laws
            if law != "D1"
        )
    elif column.refused:
        what = f"the {column.kind} became {show(got[name])}"
        yield from ((law, f"row {row}, key {show(name)}: {what}") for law in column.laws)
    elif not column.outcomes[row].refused:
        for law, message in differences(column.outcomes[row].node, got[name]):
            yield law, f"row {row}, key {show(name)}: {message}"
