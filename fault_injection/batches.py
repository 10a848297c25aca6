"""Batches for trials, and what an independent encoder makes of them."""

from __future__ import annotations

import json
import random
from typing import Any

from fault_injection.targets.base import Batch

WORDS = (
    "sum",
    "π ≈ 3.14",
    "答案",
    "naïve",
    "line\nbreak",
    'quote "x"',
    "tab\tstop",
    "emoji 🙂",
    "\\boxed{42}",
    "",
)


def make_batch(seed: int, number: int, step: int, *, rows: int | None = None, wide: int = 0) -> Batch:
    """Make one batch of plain values, always the same for the same arguments.

    Args:
        seed: the seed of the run.
        number: the position of the dump in the trial; batches of one trial differ in every row.
        step: the global step.
        rows: the number of rows, by default 1 to 4.
        wide: characters that are added to every output, to fill buffers.

    Returns:
        The batch; its extras hold a flat and a nested column.
    """
    rng = random.Random(f"{seed}/{number}/{step}")  # noqa: S311 - reproducible, not secret
    n = rows or rng.randint(1, 4)

    def text(kind: str, row: int) -> str:
        return f"{kind} {number}.{row} of seed {seed}: {rng.choice(WORDS)}"

    return Batch(
        step=step,
        inputs=[text("prompt", i) for i in range(n)],
        outputs=[text("answer", i) + "x" * wide for i in range(n)],
        gts=[text("truth", i) for i in range(n)],
        scores=[rng.choice((0.0, 1.0, 0.1, -2.5)) for _ in range(n)],
        extras={
            "acc": [rng.random() < 0.5 for _ in range(n)],
            "info": [{"turn": i, "tags": [text("tag", i), None, 2**40 + i]} for i in range(n)],
        },
    )


def expected_rows(batch: Batch, *, gts: bool = True) -> tuple[str, ...]:
    """What a reader must get back, a canonical JSON text for each row.

    Args:
        batch: of plain JSON values and arrays of such.
        gts: whether the writer takes ground truths.

    Returns:
        One text for each row, keys sorted.
    """
    columns: dict[str, list[Any]] = {"input": batch.inputs, "output": batch.outputs, "score": batch.scores}
    if gts:
        columns["gts"] = batch.gts
    columns["step"] = [batch.step] * len(batch.inputs)
    columns.update(batch.extras)
    return tuple(
        canonical({name: column[i] for name, column in columns.items()}) for i in range(len(batch.inputs))
    )


def canonical(row: Any) -> str:
    """The canonical JSON text of a row; equal texts mean equal values of equal JSON types."""
    return json.dumps(row, sort_keys=True, ensure_ascii=True, default=lambda array: array.tolist())


def read_rows(content: bytes) -> tuple[str, ...] | None:
    """Read a dump file independently of any writer.

    Args:
        content: the bytes of the file.

    Returns:
        The canonical text of each row, or None when the file is torn: no newline at its end, a line that is not one
        JSON object, or bytes that are not UTF-8.
    """
    if not content:
        return ()
    if not content.endswith(b"\n"):
        return None
    rows = []
    for line in content[:-1].split(b"\n"):
        try:
            value = json.loads(line.decode("utf-8"))
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        rows.append(canonical(value))
    return tuple(rows)
