"""What is said of a run: lines for people, JSON for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from verl_dump.verify.directory import Place
from verl_dump.verify.kinds import KINDS
from verl_dump.verify.rows import PARSER
from verl_dump.verify.tally import GROUPS, Example, Group, Outcome
from verl_dump.verify.words import counted, shown_path, sized

FORMAT = 1
"""Grows when a field of the JSON report changes its meaning."""


def is_whole(outcomes: Sequence[Outcome], *, strict: bool) -> bool:
    """Say whether there is no error and, with `strict`, no warning."""
    return not any(each.count("error") or (strict and each.count("warning")) for each in outcomes)


def as_lines(place: Place, group: Group) -> Iterator[str]:
    """Yield a line for each example, as compilers write them, and one for those that are not shown.

    Args:
        place: the directory or file that was named.
        group: of one kind in one file.
    """
    path = place.path if place.is_file or not group.file else os.path.join(place.path, group.file)
    where = shown_path(path)
    for example in group.examples:
        line = f":{example.line}" if example.line is not None else ""
        byte = f" (byte {example.byte:,})" if example.byte is not None else ""
        yield f"{where}{line}: {group.level}: {example.message}{byte} [{group.kind}]"
    if (more := group.count - len(group.examples)) and group.examples:
        yield f"{where}: … and {counted(more, 'more line')} [{group.kind}]"


def hidden_lines(outcome: Outcome) -> Iterator[str]:
    """Yield a line for each kind of which more files have findings than are shown."""
    for kind, total in outcome.totals.items():
        if total.files > GROUPS:
            more = counted(total.files - GROUPS, "more file")
            yield f"{shown_path(outcome.path)}: … and {more}, {total.count:,} findings in all [{kind}]"


def summary(outcomes: Sequence[Outcome], *, strict: bool) -> str:
    """Return the last line of a report."""
    errors, warnings = (sum(each.count(level) for each in outcomes) for level in ("error", "warning"))
    if not is_whole(outcomes, strict=strict):
        verdict = "NOT WHOLE" if errors else "NOT WHOLE (--strict)"
    else:
        verdict = "whole"
    name = shown_path(outcomes[0].path) if len(outcomes) == 1 else counted(len(outcomes), "directory")
    return (
        f"{name}: {verdict}; {counted(sum(o.files for o in outcomes), 'file')}, "
        f"{counted(sum(o.rows for o in outcomes), 'row')}, {sized(sum(o.bytes for o in outcomes))}: "
        f"{counted(errors, 'error')}, {counted(warnings, 'warning')} "
        f"in {sum(o.seconds for o in outcomes):.1f} s"
    )


def as_json(outcomes: Sequence[Outcome], *, strict: bool) -> str:
    """Return the report for programs."""
    report = {
        "format": FORMAT,
        "whole": is_whole(outcomes, strict=strict),
        "strict": strict,
        "parser": PARSER,
        **_sums(outcomes),
        "directories": [_directory(each) for each in outcomes],
    }
    return json.dumps(report, indent=1) + "\n"


def _sums(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "files": sum(each.files for each in outcomes),
        "rows": sum(each.rows for each in outcomes),
        "bytes": sum(each.bytes for each in outcomes),
        "errors": sum(each.count("error") for each in outcomes),
        "warnings": sum(each.count("warning") for each in outcomes),
        "seconds": round(sum(each.seconds for each in outcomes), 3),
    }


def _directory(outcome: Outcome) -> dict[str, Any]:
    steps = {
        "first": outcome.first,
        "last": outcome.last,
        "stride": outcome.stride,
        "missing": outcome.missing,
    }
    return {
        "path": shown_path(outcome.path),
        **_sums([outcome]),
        "steps": steps,
        "kinds": {
            kind: {"level": KINDS[kind].level, "count": total.count, "files": total.files}
            for kind, total in outcome.totals.items()
        },
        "findings": [
            {
                "kind": group.kind,
                "level": group.level,
                "file": shown_path(group.file) or None,
                "count": group.count,
                "examples": [_example(each) for each in group.examples],
            }
            for group in outcome.groups
        ],
    }


def _example(example: Example) -> dict[str, Any]:
    return {"message": example.message, "line": example.line, "byte": example.byte}
