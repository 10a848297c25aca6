"""The table of the zoo: what each run of it found, told at the end of the run, and written to the docs on demand."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "VERL_DUMP_ZOO"
"""The environment variable that names the folder to which a complete run writes `zoo.json` and `zoo.md`."""
STABLE = ("defect", "law", "because", "upstream")
"""The columns that no run changes."""


@dataclass(frozen=True)
class Caught:
    """What a run says of one broken writer.

    Args:
        defect: the name of the class.
        law: the law that must catch it.
        because: what is broken, in one line.
        upstream: where the defect was met, or the empty text.
        fired: every law that the same trials broke.
        found: the scenario and the plan of the first trial that broke the expected law; empty where none did.
        trials: up to and with that trial.
        seconds: of the whole search.
    """

    defect: str
    law: str
    because: str
    upstream: str
    fired: tuple[str, ...]
    found: str
    trials: int
    seconds: float


@dataclass(frozen=True)
class Cleared:
    """What a run says of one correct writer.

    Args:
        writer: the name of the class.
        built: its description.
        through: the mechanisms that it was judged through.
        laws: how many laws judged it.
        trials: in how many trials.
        accused: the laws that were broken; there must be none.
        seconds: of the run.
    """

    writer: str
    built: str
    through: tuple[str, ...]
    laws: int
    trials: int
    accused: tuple[str, ...]
    seconds: float


def stable(cls: type) -> dict[str, str]:
    """The columns of a broken writer that no run changes."""
    values = (cls.__name__, cls.broken_law, cls.because, getattr(cls, "upstream", ""))  # type: ignore[attr-defined]
    return dict(zip(STABLE, values, strict=True))


class Table:
    """A plugin of one pytest run that collects rows.

    Args:
        broken: the name and the law of each broken writer, in order.
        correct: the name of each correct one, in order.
    """

    def __init__(self, broken: Iterable[tuple[str, str]], correct: Iterable[str]) -> None:
        self._broken, self._correct = list(broken), list(correct)
        self.caught: list[Caught] = []
        self.cleared: list[Cleared] = []

    def value(self) -> dict[str, Any]:
        """The table as JSON values."""
        caught = sorted(self.caught, key=lambda row: self._broken.index((row.defect, row.law)))
        cleared = sorted(self.cleared, key=lambda row: self._correct.index(row.writer))
        return {
            "format": 1,
            "run": {
                "python": platform.python_version(),
                "system": platform.system(),
                "cores": os.cpu_count(),
            },
            "broken": [asdict(row) for row in caught],
            "correct": [asdict(row) for row in cleared],
        }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table, and write it where the environment says."""
        value = self.value()
        terminalreporter.section("zoo")
        for line in lines(value):
            terminalreporter.write_line(line)
        folder = os.environ.get(VARIABLE)
        whole = len(self.caught) == len(self._broken) and len(self.cleared) == len(self._correct)
        if folder and whole:
            for name, text in {"zoo.json": as_json(value), "zoo.md": page(value)}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
                    file.write(text)


def lines(value: dict[str, Any]) -> list[str]:
    """The table as it is printed."""
    out = [f"{'defect':30}{'law':5}{'laws that fired':26}{'trials':>8}{'seconds':>9}"]
    for row in value["broken"]:
        fired = " ".join(row["fired"]) or "NOT CAUGHT"
        out.append(
            f"{row['defect']:30}{row['law']:5}{fired:26}{row['trials']:8,}{row['seconds']:9.1f}  {row['because']}"
        )
    out += ["", f"{'correct writer':30}{'laws':5}{'accused by':26}{'trials':>8}{'seconds':>9}"]
    for row in value["correct"]:
        accused = " ".join(row["accused"]) or "none"
        out.append(
            f"{row['writer']:30}{row['laws']:<5}{accused:26}{row['trials']:8,}{row['seconds']:9.1f}  {row['built']}"
        )
    return [*out, "", summary(value)]


def summary(value: dict[str, Any]) -> str:
    """The table in one line."""
    broken, correct = value["broken"], value["correct"]
    caught = sum(row["law"] in row["fired"] for row in broken)
    accused = sum(bool(row["accused"]) for row in correct)
    return (
        f"{caught} of {len(broken)} broken writers caught by the law that each breaks; "
        f"{accused} of {len(correct)} correct ones accused"
    )


def as_json(value: dict[str, Any]) -> str:
    """The text of docs/zoo.json: a row a line, so that a difference shows the rows that differ."""
    parts = []
    for key, part in value.items():
        rows = ",\n".join(f"  {_text(row)}" for row in part) if isinstance(part, list) else ""
        parts.append(f' "{key}": ' + (f"[\n{rows}\n ]" if rows else _text(part)))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(part: object) -> str:
    return json.dumps(part, ensure_ascii=False)


_HEAD = """# The zoo

Writers and trainers that are each broken in one way, and the law that must catch each; correct ones of different
construction, which no law may accuse. `tox -e zoo` runs the contract on all of them, and fails for a defect that its law
does not catch as for a correct writer that any law accuses. Made by `python -m benchmarks.zoo`; the sources are in
`tests/zoo/`.

"""
_BROKEN = """
## Broken writers

*Laws that fired*: every law that the trials broke which led to the first trial that broke the expected one, all of them
judged by every law that the writer claims. *Trials*: up to and with that one; a power loss counts each state that was
judged. *Seconds*: of the search.

| defect | what is broken | upstream | law | laws that fired | found by | trials | seconds |
|---|---|---|---|---|---|---:|---:|
"""
_CORRECT = """
## Correct writers

They are judged by the laws of data, errors and the queue (D, E, Q) that they claim, the last three by D1, D3 and D6, which
what is unusual in them could touch; how values become JSON (S, C) is not what they are there for. Of the long sweeps and
schedules each has its share, so that together they have them all (`VERL_DUMP_FULL=1`: each has everything).

*Through*: the mechanisms that judged it. Where the layers within Python cannot see what a writer writes, the kernel alone
judges it, by the laws that its scenarios bear on.

| writer | how it is built | through | laws | accused by | trials | seconds |
|---|---|---|---:|---|---:|---:|
"""


def page(value: dict[str, Any]) -> str:
    """The text of docs/zoo.md."""
    run = value["run"]
    ran = f"Python {run['python']}, {run['system']}, {run['cores']} cores; times depend on the machine."
    broken = "".join(
        f"| `{row['defect']}` | {_cell(row['because'])} | {row['upstream']} | {row['law']} | {' '.join(row['fired'])} | "
        f"`{_cell(row['found'])}` | {row['trials']:,} | {row['seconds']:.1f} |\n"
        for row in value["broken"]
    )
    correct = "".join(
        f"| `{row['writer']}` | {_cell(row['built'])} | {', '.join(row['through'])} | {row['laws']} | "
        f"{' '.join(row['accused']) or 'none'} | {row['trials']:,} | {row['seconds']:.1f} |\n"
        for row in value["correct"]
    )
    return f"{_HEAD}**{summary(value)}.** {ran}\n{_BROKEN}{broken}{_CORRECT}{correct}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
