"""What a file holds of a dump, by prompts and answers alone; what became of the other values is for other laws."""

from __future__ import annotations

import json

from fault_injection.batches import read_rows


def holds_texts(content: bytes | None, rows: tuple[str, ...]) -> bool:
    """Whether a file holds the prompts and answers of a dump, in order and without a gap.

    Args:
        content: the bytes of the file, or None where there is none.
        rows: the canonical text of each row that was handed over.
    """
    found = None if content is None else read_rows(content)
    if found is None:
        return False
    mine, theirs = _texts(rows), _texts(found)
    return any(theirs[i : i + len(mine)] == mine for i in range(len(theirs) - len(mine) + 1))


def _texts(rows: tuple[str, ...]) -> list[tuple[object, object]]:
    parsed = map(json.loads, rows)
    return [(row.get("input"), row.get("output")) for row in parsed]
