"""The rules of verl's rollout viewer, the one program that reads the directory as a whole (#2469)."""

from __future__ import annotations

import glob
import os
from typing import Any

from fault_injection.oracle.strict import StrictError, parse

Rows = list[dict[str, Any]]


def read_directory(directory: str) -> dict[int, Rows]:
    """Read a directory of dumps as verl's rollout viewer does (#2469).

    Args:
        directory: where the dumps are; what does not match `*.jsonl` is not looked at.

    Returns:
        The rows of each step.

    Raises:
        ValueError: a file's stem is no integer, or it is not UTF-8 with one JSON object a line.
    """
    steps: dict[int, Rows] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*.jsonl"))):
        name = os.path.basename(path)
        try:
            step = int(name.removesuffix(".jsonl"))
        except ValueError:
            raise ValueError(f"{name}: the name before .jsonl is no step number") from None
        with open(path, "rb") as file:
            content = file.read()
        try:
            lines = content.decode("utf-8").removesuffix("\n").split("\n") if content else []
            rows = [parse(line) for line in lines]
        except (StrictError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}: {error}") from error
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{name}: a line is no JSON object")
        steps[step] = rows
    return steps
