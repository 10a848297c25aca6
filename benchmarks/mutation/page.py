"""Makes the page docs/mutation.md from the figures in docs/mutation.json."""

from __future__ import annotations

import json
from collections import Counter

from benchmarks.mutation.results import KILLED

FIGURES = "docs/mutation.json"
"""What is known of every mutant, in figures."""

PAGE = "docs/mutation.md"
"""The page for readers."""

_INTRODUCTION = """\
# Mutants

<!-- Made from docs/mutation.json by `python -m benchmarks.mutation page`. -->

How many defects the tests catch. Each mutant is the code with one small defect: a comparison turned, an argument left
out, a call dropped, a handler that catches nothing, a lock not taken. It is killed when a test that passes on the code
fails on it (or hangs, or brings the process down). `tox -e mutation` runs what has not been run yet, and goes on where
it was interrupted; `tox -e mutation -- show --only NAME` shows a mutant.

The operators are mutmut's, with a few for the order of a protocol (`drop`, `negate`, `return-none`, `empty-loop`,
`uncaught`, `unguarded`). Each mutant meets the tests that reach its line, those first that have killed a neighbour,
then the fastest, and only so many as fit into a few seconds. Not changed are type annotations, docstrings and texts
with a space in them: how a message reads is no behaviour. **Equivalent** mutants behave as the code does; they stand
below with the reason, and count neither as killed nor as survived.

"""
_HEAD = (
    "| {} | mutants | killed | of these by time | survived | equivalent | not run | killed of those run |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def page(data: str) -> str:
    """The page, as Markdown.

    Args:
        data: what `figures` returned.
    """
    known = json.loads(data)
    modules = known["modules"]
    parts: dict[str, Counter[str]] = {}
    for row in modules.values():
        parts.setdefault(row["part"], Counter()).update(row["how"])
    minutes = sum(row["seconds"] for row in modules.values()) / 60
    everything = sum(parts.values(), Counter[str]())
    text = [
        _INTRODUCTION,
        _HEAD.format("part"),
        *(_row(part, counts) for part, counts in parts.items()),
        _row("**all**", everything),
        f"\nOne process took {minutes:.0f} minutes for those that were run.\n\n## By module\n\n",
        _HEAD.format("module"),
        *(_row(f"`{name}`" if "/" in name else name, Counter(row["how"])) for name, row in modules.items()),
    ]
    if known["survived"]:
        text.append("\n## Survived\n\n| mutant | change |\n|---|---|\n")
        text += [f"| {_code(name)} | {_code(change)} |\n" for name, change in known["survived"].items()]
    if known["equivalent"]:
        text.append("\n## Equivalent\n\n| mutant | change | why no test can tell |\n|---|---|---|\n")
        text += [
            f"| {_code(name)} | {_code(entry['change'])} | {entry['why']} |\n"
            for name, entry in known["equivalent"].items()
        ]
    text.append(
        f"\n## The sample\n\nThe {len(known['sample'])} mutants of the rest of `fault_injection`, chosen by a hash of their names:\n\n"
    )
    text += [f"- {_code(name)}\n" for name in known["sample"]]
    return "".join(text)


def _row(name: str, counts: Counter[str]) -> str:
    killed = sum(counts[how] for how in KILLED)
    survived = counts["survived"] + counts["unreached"]
    made = sum(counts.values())
    share = f"{100 * killed / (killed + survived):.1f} %" if killed + survived else "–"
    cells = (name, made, killed, counts["timeout"], survived, counts["equivalent"], counts["open"], share)
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    ticks = "``" if "`" in escaped else "`"
    return f"{ticks}{escaped}{ticks}"
