"""Sums up what is known of every mutant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.results import Result
from benchmarks.mutation.scope import WHOLE, Equivalent, describe


def figures(
    repository: Path,
    parts: Mapping[str, Sequence[Mutant]],
    known: Mapping[str, Result],
    same: Mapping[str, Equivalent],
) -> str:
    """Sum up what is known, as JSON.

    Args:
        repository: that the mutants are of.
        parts: the mutants of each part.
        known: the result of each mutant that has been run, by name.
        same: the equivalent ones, by name.
    """
    data: dict[str, Any] = {"modules": {}, "survived": {}, "equivalent": {}, "sample": []}
    for part, mutants in parts.items():
        for mutant in mutants:
            name = mutant.name
            where = part if part not in WHOLE else mutant.path
            row = data["modules"].setdefault(where, {"part": part, "made": 0, "seconds": 0.0, "how": {}})
            how = "equivalent" if name in same else known[name].how if name in known else "open"
            row["made"] += 1
            row["how"][how] = row["how"].get(how, 0) + 1
            if name in known:
                row["seconds"] = round(row["seconds"] + known[name].seconds, 1)
            if how in {"survived", "unreached"}:
                data["survived"][name] = describe(repository, mutant)
            if how == "equivalent":
                data["equivalent"][name] = {"change": same[name].change, "why": same[name].why}
            if part not in WHOLE:
                data["sample"].append(name)
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
