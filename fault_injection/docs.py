"""Writes the documentation pages that are made from the code: `python -m fault_injection.docs NAME [FILE]`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fault_injection.docs_exits import exits_page
from fault_injection.docs_mechanisms import mechanisms_page
from fault_injection.docs_values import values_page
from fault_injection.laws import GROUPS, LAWS, Law

_NEEDS = {
    "": "",
    "asynchronous": "asynchronous: a writer that works in the background",
    "fit": "fit: a `fit()` of the reference trainer's shape",
}
_INTRODUCTION = """\
# The laws

<!-- Made from fault_injection/laws.py by `python -m fault_injection.docs laws`; edit that file and run it again. -->

What a dump promises, one sentence each. `verl-dump check --law D2` judges a writer by one of them, `--law D` by a group.
A law that needs something the writer does not have is reported as *not claimed*; a writer says what it has besides by
`dump_capabilities`, and what it does not promise by `dump_disclaims`.
"""
_HEAD = "| law | what holds | why | seen upstream | needs |\n|---|---|---|---|---|\n"


def laws_page() -> str:
    """The page of the laws, as Markdown: a table for each group."""
    parts = [_INTRODUCTION]
    for letter, name in GROUPS.items():
        rows = "".join(map(_row, (law for law in LAWS.values() if law.id.startswith(letter))))
        parts.append(f"## {letter}. {name}\n\n{_HEAD}{rows}")
    return "\n".join(parts)


def _row(law: Law) -> str:
    cells = (law.id, law.sentence, law.why, law.seen, _NEEDS.get(law.needs, f"the capability `{law.needs}`"))
    return "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |\n"


def main(arguments: Sequence[str]) -> int:
    """Write a page.

    Args:
        arguments: the name of the page, and the file to write (by default `docs/NAME.md` below the current directory).

    Returns:
        The exit code.
    """
    if len(arguments) not in {1, 2} or arguments[0] not in PAGES:
        print(f"usage: python -m fault_injection.docs {{{','.join(PAGES)}}} [FILE]", file=sys.stderr)
        return 2
    file = Path(arguments[1] if len(arguments) == 2 else f"docs/{arguments[0]}.md")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PAGES[arguments[0]](), encoding="utf-8", newline="\n")
    return 0


PAGES: dict[str, Callable[[], str]] = {
    "exits": exits_page,
    "laws": laws_page,
    "mechanisms": mechanisms_page,
    "values": values_page,
}
"""What makes each page, by its name."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
