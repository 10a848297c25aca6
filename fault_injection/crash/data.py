"""What a power loss may leave of one file: every variant of its unsynced bytes, with a text that names it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fault_injection.crash.model import File

SMALL = 6
"""Changes or blocks of which every subset is built; of more: each alone, all but each, and every prefix and suffix."""
EVERY_BYTE = 8192
"""Bytes of a write that is torn at each byte; a longer one is torn at blocks, at rows and next to both."""
MOST_CUTS = 400
"""Places at which one write is torn at most."""
BLOCKS = (512, 4096)
"""Bytes that reach a disk together: a sector, a page."""


@dataclass(frozen=True)
class Variant:
    """What may be left of a file.

    Args:
        text: names it; empty when every byte written is kept.
        content: the bytes.
        missing: the step of the first change that is not wholly kept and was not dropped by a failed sync; 0: none.
        lacks: the properties that would exclude it.
    """

    text: str
    content: bytes
    missing: int = 0
    lacks: frozenset[str] = frozenset()


class BadVariantError(ValueError):
    """A variant's text that names none of the file."""


@dataclass(frozen=True)
class Variants:
    """The variants of one file, whether they were sought closely, and how many places to tear a write at were left out."""

    found: tuple[Variant, ...]
    fine: bool = True
    left_out: int = 0


def variants(file: File, *, fine: bool) -> Variants:
    """Every variant of a file that is built, without those of equal bytes that more properties exclude.

    Args:
        file: the file.
        fine: tear writes at each byte where they are small, not only at blocks and rows.
    """
    optional = [i for i, op in enumerate(file.ops) if not op.forced]
    if not optional:
        return Variants((Variant("", file.content),), fine)
    left_out = 0
    texts: list[str] = [""]
    for position, i in enumerate(optional):
        texts.append(f"cut({position}+0)")
        cuts, left = _cuts(file, i, fine=fine)
        left_out += left
        texts += [f"cut({position}+{count})" for count in cuts]
    texts += [f"ops({'.'.join(map(str, chosen))})" for chosen in subsets(len(optional))]
    texts += _block_texts(file, fine=fine)
    best: dict[tuple[bytes, int, frozenset[str]], Variant] = {}
    for text in texts:
        each = parse_variant(text, file)
        best.setdefault((each.content, each.missing, each.lacks), each)
    return Variants(tuple(best.values()), fine, left_out)


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Subsets of 0 .. count - 1 but the full one: all of them where there are few."""
    everything = tuple(range(count))
    if count <= SMALL:
        for size in range(count):
            yield from itertools.combinations(everything, size)
        return
    yield ()
    for i in everything:
        yield (i,)
        yield everything[:i] + everything[i + 1 :]
        if i:
            yield everything[:i]
            yield everything[i:]


def is_exhaustive(count: int) -> bool:
    """Whether `subsets` yields all."""
    return count <= SMALL


def parse_variant(text: str, file: File) -> Variant:
    """Build a variant from its text.

    Args:
        text: empty (all is kept), `cut(2+512)` (two changes and 512 bytes of the next), `ops(0.2)` (those changes),
            `blocks(512:0.3:2048)` (those blocks of 512 bytes, and a size).
        file: the file.

    Raises:
        BadVariantError: the text names no variant of this file.
    """
    optional = [i for i, op in enumerate(file.ops) if not op.forced]
    if not text:
        return _by_parts(text, file, dict.fromkeys(optional, -1))
    if match := re.fullmatch(r"cut\((\d+)\+(\d+)\)", text):
        whole, count = int(match[1]), int(match[2])
        if whole < len(optional):
            parts = {i: -1 if n < whole else count if n == whole else 0 for n, i in enumerate(optional)}
            return _by_parts(text, file, parts)
    elif match := re.fullmatch(r"ops\(([\d.]*)\)", text):
        chosen = _numbers(match[1])
        if all(n < len(optional) for n in chosen):
            return _by_parts(text, file, {i: -1 if n in chosen else 0 for n, i in enumerate(optional)})
    elif match := re.fullmatch(r"blocks\((512|4096):([\d.]*):(\d+)\)", text):
        return _by_blocks(text, file, int(match[1]), _numbers(match[2]), int(match[3]))
    raise BadVariantError(f"{text!r} is nothing that a power loss leaves of that file")


def _numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, filter(None, text.split("."))))


def _by_parts(text: str, file: File, parts: dict[int, int]) -> Variant:
    """A variant that keeps of each change that is not durable all (-1), nothing (0) or some bytes."""
    content, kept = bytearray(file.base), {}
    for i, op in enumerate(file.ops):
        part = parts.get(i, -1)
        if part < 0 or (op.data is not None and part >= len(op.data)):
            op.on(content)
            kept[i] = 2
        elif part and op.data is not None:
            op.on(content, part)
            kept[i] = 1
        else:
            kept[i] = 0
    return Variant(text, bytes(content), *_what_excludes(file, kept, bigger=False))


def _by_blocks(text: str, file: File, unit: int, blocks: frozenset[int], size: int) -> Variant:
    """A variant that keeps some blocks of the new content over the old one, and a size."""
    full, base = file.content, _durable(file)
    content = bytearray(base)
    for block in sorted(blocks):
        piece = full[block * unit : (block + 1) * unit]
        content.extend(bytes(max(block * unit - len(content), 0)))
        content[block * unit : block * unit + len(piece)] = piece
    bigger = size > len(content)
    del content[size:]
    content.extend(bytes(size - len(content)))
    kept = {
        i: 2 if op.forced else _covered(op.offset, op.data, unit, blocks) for i, op in enumerate(file.ops)
    }
    return Variant(text, bytes(content), *_what_excludes(file, kept, bigger=bigger))


def _durable(file: File) -> bytes:
    content = bytearray(file.base)
    for op in file.ops:
        if op.forced:
            op.on(content)
    return bytes(content)


def _covered(offset: int, data: bytes | None, unit: int, blocks: frozenset[int]) -> int:
    """How much of a write lies in the blocks: 0 nothing, 1 some, 2 all."""
    if not data:
        return 0
    touched = range(offset // unit, (offset + len(data) - 1) // unit + 1)
    count = sum(block in blocks for block in touched)
    return 2 if count == len(touched) else int(count > 0)


def _what_excludes(file: File, kept: dict[int, int], *, bigger: bool) -> tuple[int, frozenset[str]]:
    missing, lacks, gap = 0, set(), False
    for i, op in enumerate(file.ops):
        if op.forced:
            continue
        if kept[i] and gap:
            lacks.add("ordered-data")
        if kept[i] == 1:
            lacks.add("whole-writes")
        if kept[i] == 2:
            continue
        if op.doomed:
            lacks.add("retry")
        else:
            lacks.add("data")
            missing, gap = missing or op.step, True
    if bigger:
        lacks.add("size")
    return missing, frozenset(lacks)


def _cuts(file: File, i: int, *, fine: bool) -> tuple[list[int], int]:
    """The numbers of bytes after which a write is torn, and how many were left out."""
    op = file.ops[i]
    if op.data is None or len(op.data) < 2:
        return [], 0
    length = len(op.data)
    if fine and length <= EVERY_BYTE:
        return list(range(1, length)), 0
    marks = {0, length, length // 2}
    marks |= {n - op.offset for unit in BLOCKS for n in range(0, op.offset + length, unit)}
    rows = [match.end() for match in itertools.islice(re.finditer(b"\n", op.data), MOST_CUTS)]
    near = (-1, 0, 1) if fine else (0,)
    places = sorted({m + d for m in (*marks, *rows) for d in near if 0 < m + d < length})
    most = MOST_CUTS if fine else 24
    chosen = places[:: -(-len(places) // most)] if places else []
    return chosen, length - 1 - len(chosen)


def _block_texts(file: File, *, fine: bool) -> Iterable[str]:
    full, base = file.content, _durable(file)
    longest = max(len(full), len(base))
    for unit in BLOCKS if fine else BLOCKS[1:]:
        count = -(-longest // unit)
        changed = [
            b for b in range(count) if full[b * unit : (b + 1) * unit] != base[b * unit : (b + 1) * unit]
        ]
        if unit != BLOCKS[0] and count < 2:
            # One page: nothing of it can be missing before or after another.
            continue
        for chosen in subsets(len(changed)):
            blocks = [changed[n] for n in chosen]
            natural = max(len(base), min(len(full), (blocks[-1] + 1) * unit) if blocks else 0)
            for size in dict.fromkeys((natural, max(natural, len(full)))):
                yield f"blocks({unit}:{'.'.join(map(str, blocks))}:{size})"
    # The size alone, as of each change.
    content = bytearray(base)
    for op in file.ops:
        op.on(content)
        if len(content) > len(base):
            yield f"blocks(512::{len(content)})"
