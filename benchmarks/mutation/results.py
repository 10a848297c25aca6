"""What is known of each mutant so far: one line of JSON each, the last one counts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

KILLED = frozenset({"failed", "timeout", "died"})
"""The outcomes of a mutant that the tests have noticed."""


@dataclass(frozen=True)
class Result:
    """What became of one mutant.

    Attributes:
        name: of the mutant.
        digest: of what it changes; another one makes the result void.
        how: "failed", "timeout" or "died" (killed); "survived"; "unreached", where no test runs the line.
        test: that killed it, or "".
        ran: the number of tests that were run.
        of: the number of tests that reach it.
        seconds: that it took.
        suite: a digest of the tests that there were.
        budget: seconds of tests that it was given at most.
    """

    name: str
    digest: str
    how: str
    test: str
    ran: int
    of: int
    seconds: float
    suite: str = ""
    budget: float = 0.0

    @property
    def killed(self) -> bool:
        """Whether the tests have noticed it."""
        return self.how in KILLED


def append(file: Path, result: Result) -> None:
    """Add a result in one operation, so that several processes may, and an interrupt leaves whole lines."""
    line = json.dumps(asdict(result)) + "\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(files: Iterable[Path]) -> dict[str, Result]:
    """The last result of each mutant, by its name."""
    found: dict[str, Result] = {}
    for file in files:
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                result = Result(**json.loads(line))
                found[result.name] = result
    return found
