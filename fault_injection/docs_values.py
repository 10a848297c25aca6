"""The page of what the reference writer makes of every kind of value, made by dumping one of each."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from fault_injection.showcase import COLUMNS, VALUES

_INTRODUCTION = """\
# What is written

<!-- Made by `python -m fault_injection.docs values`, which dumps one of each; edit the code and run it again. -->

What the reference writer makes of every kind of value by its default policies. An error comes from the call, names column,
row and type, and nothing of that batch is written; the other dumps go on.
"""
_LONGEST = 110


def values_page() -> str:
    """The page, as Markdown; what needs a package that is not installed is left out."""
    values = "".join(_rows([(each.label, each.code, _value(each.make)) for each in VALUES]))
    columns = "".join(_rows([(each.label, each.code, _columns(each.make)) for each in COLUMNS]))
    return (
        f"{_INTRODUCTION}\n## A value in a row\n\n| kind | handed over | written |\n|---|---|---|\n{values}\n"
        f"## A column of two rows\n\n| kind | extras handed over | extras written |\n|---|---|---|\n{columns}"
    )


def _rows(rows: list[tuple[str, str, Callable[[], str]]]) -> Iterator[str]:
    for label, code, write in rows:
        try:
            written = write()
        except ImportError:
            continue
        yield f"| {_cell(label)} | {_code(code)} | {written} |\n"


def _value(make: Callable[[], Any]) -> Callable[[], str]:
    return lambda: _dumped({"x": [make()]}, 1, lambda rows: rows[0]["x"])


def _columns(make: Callable[[], dict[Any, Any]]) -> Callable[[], str]:
    base = {"input", "output", "gts", "score", "step"}
    return lambda: _dumped(
        make(), 2, lambda rows: [{k: v for k, v in row.items() if k not in base} for row in rows]
    )


def _dumped(extras: dict[Any, Any], rows: int, show: Callable[[list[dict[str, Any]]], Any]) -> str:
    from verl_dump import GenerationDumper

    texts = ["a"] * rows
    with tempfile.TemporaryDirectory() as place:
        try:
            with GenerationDumper(fsync=False) as dumper:
                dumper.dump(
                    place, 1, inputs=texts, outputs=texts, gts=texts, scores=[0.0] * rows, extras=extras
                )
        except (TypeError, ValueError) as error:
            return f"error: {_cell(str(error).splitlines()[0])}"
        with open(os.path.join(place, "1.jsonl"), encoding="utf-8") as file:
            return _code(json.dumps(show([json.loads(line) for line in file])))


def _code(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "`" + shown.replace("|", "\\|").replace("`", "'") + "`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
