"""The page of the exits of `fit()`, made from the JSON reports of a run (`benchmarks/exits.py`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from fault_injection.matrix import COLUMNS
from fault_injection.ways import NOBODY, WAYS, cells, cells_of

SOURCE = Path("docs/exits.json")
"""The reports that the page is made from, relative to the checkout."""

_INTRODUCTION = """\
# The exits of `fit()`

<!-- Made from docs/exits.json by `python -m fault_injection.docs exits`; `python benchmarks/exits.py` runs everything anew. -->

For each way out of `fit()`, with dumps pending there and with whatever becomes of their write: are all data on disk, and
has every failure of a dump come out? The two are judged apart. `verl-dump check TARGET --law X` drives a trainer through
the {cells} cells; `verl-dump check TARGET --law X5 --scenario exit-step-raises-one --plan write#1:ENOSPC` shows one of them.
"""
_SIGNS = "Two signs a cell, of the data and of the errors: `+` came through, `L` lost, `.` not demanded; empty: no such way."


def exits_page() -> str:
    """The page of the exits, as Markdown."""
    stored = json.loads(SOURCE.read_text(encoding="utf-8"))
    reports = stored.get("reports", [stored])
    parts = [_INTRODUCTION.format(cells=len(cells())), _summary(reports), _demands()]
    parts += [f"## {report['target']}\n\n{_SIGNS}\n\n{_matrix(report)}" for report in reports]
    return "\n".join(parts)


def _summary(reports: list[dict[str, Any]]) -> str:
    """Trainer by way out: in how many of the cells data came through, and in how many errors did."""
    head = "| way out | " + " | ".join(_short(report["target"]) for report in reports) + " |\n"
    head += "|---" * (len(reports) + 1) + "|\n"
    tables = [_counted(report) for report in reports]
    rows = []
    for way in WAYS:
        texts = [_count(table, way.name) for table in tables]
        if any(texts):
            rows.append(f"| {way.name} | " + " | ".join(text or "–" for text in texts) + " |\n")
    return (
        "## Trainers and their ways out\n\nData / errors: **held**, or the number of cells in which they were lost; "
        "–: the trainer has no such way.\n\n" + head + "".join(rows)
    )


def _short(target: str) -> str:
    return target.rpartition(":")[2]


def _counted(report: dict[str, Any]) -> dict[str, Counter[str]]:
    table: dict[str, Counter[str]] = {}
    for each in report.get("exits", ()):
        counter = table.setdefault(each["way"], Counter())
        counter["cells"] += 1
        counter["data"] += each["data"] != "held"
        counter["demanded"] += each["errors"] != "not demanded"
        counter["errors"] += each["errors"] not in {"held", "not demanded"}
    return table


def _count(table: dict[str, Counter[str]], way: str) -> str:
    if way not in table:
        return ""
    counter = table[way]
    data = f"lost in {counter['data']} of {counter['cells']}" if counter["data"] else "held"
    errors = f"lost in {counter['errors']} of {counter['demanded']}" if counter["errors"] else "held"
    return f"{data} / {errors if counter['demanded'] else 'not demanded'}"


def _demands() -> str:
    rows = "".join(
        f"| {way.law} | {way.name} | {way.data} | {way.errors if way.errors != NOBODY else '–'} | "
        f"{len(cells_of(way))} | {way.why} |\n"
        for way in WAYS
    )
    return (
        "## What is demanded\n\n| law | way out | data | failures of dumps | cells | why |\n"
        "|---|---|---|---|---|---|\n" + rows
    )


def _matrix(report: dict[str, Any]) -> str:
    marks = {(e["way"], e["pending"], e["write"]): _mark(e) for e in report.get("exits", ())}
    names = [f"{pending}: {write}" for pending, write in COLUMNS]
    lines = ["| way out | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for way in WAYS:
        found = [marks.get((way.name, *column), "") for column in COLUMNS]
        if any(found):
            lines.append(f"| {way.name} | " + " | ".join(found) + " |")
    return "\n".join(lines) + "\n"


def _mark(exit_: dict[str, str]) -> str:
    data = "+" if exit_["data"] == "held" else "L"
    return f"`{data}{ {'held': '+', 'not demanded': '.'}.get(exit_['errors'], 'L') }`"
