"""Which mutants are made: all of what a defect would be worst in, and a sample of the rest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutation.mutants import Mutant, each_module, mutants_of

WHOLE = {
    "verl_dump": ("verl_dump",),
    "judge": ("fault_injection/judge",),
    "plans": ("fault_injection/plan.py", "fault_injection/fault.py", "fault_injection/scenario.py"),
}
"""The parts of which every mutant is tested, and what belongs to them."""

SAMPLE = 200
"""The number of mutants of the rest of `fault_injection`."""

SEED = "verl-dump"
"""Chooses the sample."""

EQUIVALENT = "benchmarks/mutation/equivalent.json"
"""The file of mutants that no test can kill, because they behave as the code does; with the reason for each."""


@dataclass(frozen=True)
class Equivalent:
    """A mutant that behaves as the code does.

    Attributes:
        change: what is replaced and by what, as `describe` gives it.
        why: no test can tell the difference.
    """

    change: str
    why: str


def everything(repository: Path, cache: Path) -> dict[str, list[Mutant]]:
    """The mutants of each part, the sample included.

    Args:
        repository: to read.
        cache: see `mutants_of`.
    """
    parts = {
        part: [
            mutant
            for path in each_module(repository, *folders)
            for mutant in mutants_of(repository, path, cache)
        ]
        for part, folders in WHOLE.items()
    }
    taken = {path for folders in WHOLE.values() for path in each_module(repository, *folders)}
    rest = [path for path in each_module(repository, "fault_injection") if path not in taken]
    others = [mutant for path in rest for mutant in mutants_of(repository, path, cache)]
    # By a hash of the name instead of a random generator: a new function changes the sample in few places.
    chosen = sorted(others, key=lambda mutant: hashlib.sha256(f"{SEED}{mutant.name}".encode()).digest())[
        :SAMPLE
    ]
    parts["sample"] = sorted(chosen, key=lambda mutant: mutant.name)
    return parts


def describe(repository: Path, mutant: Mutant) -> str:
    """What is replaced and by what, in one line."""
    source = (repository / mutant.path).read_text(encoding="utf-8")
    old = " ".join(source[mutant.start : mutant.end].split())
    return f"{old} -> {' '.join(mutant.new.split())}"


def equivalents(repository: Path, mutants: dict[str, Mutant]) -> dict[str, Equivalent]:
    """Read the list of equivalent mutants, and hold it to the code.

    Args:
        repository: to read.
        mutants: all, by name.

    Raises:
        ValueError: an entry is of no mutant, or of one that changes something else by now.
    """
    file = repository / EQUIVALENT
    found = {
        name: Equivalent(**entry) for name, entry in json.loads(file.read_text(encoding="utf-8")).items()
    }
    wrong = [
        f"{name}: {'changes ' + describe(repository, mutants[name]) if name in mutants else 'no such mutant'}"
        for name, entry in found.items()
        if name not in mutants or describe(repository, mutants[name]) != entry.change
    ]
    if wrong:
        raise ValueError(f"{EQUIVALENT} does not fit the code; correct or remove:\n" + "\n".join(wrong))
    return found
