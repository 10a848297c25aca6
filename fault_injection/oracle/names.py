"""The names under which keys that are one as text must be read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def distinct(keys: Sequence[Any], texts: Sequence[str], reserved: Sequence[str] = ()) -> list[str]:
    """Name keys apart by the policy `rename`.

    An extra named like a base column is `extra_<name>`. Of keys that are one as text, the one that is that very text
    keeps it, or else the first; another is `<text> (<type>)`. Where such a name is taken, `_2`, `_3`, … follow.

    Args:
        keys: the keys of one dict.
        texts: what each is as text.
        reserved: names that no key may have.

    Returns:
        A name for each key.
    """
    keepers: dict[str, int] = {}
    for position, (key, text) in enumerate(zip(keys, texts, strict=True)):
        if text in reserved:
            continue
        if text not in keepers or (_is_it(key, text) and not _is_it(keys[keepers[text]], text)):
            keepers[text] = position
    taken = {*texts, *reserved}
    names = []
    for position, (key, text) in enumerate(zip(keys, texts, strict=True)):
        if keepers.get(text) == position:
            names.append(text)
            continue
        stem = f"extra_{text}" if text in reserved else f"{text} ({type(key).__name__})"
        candidates = (stem, *(f"{stem}_{n}" for n in range(2, len(texts) + len(reserved) + 3)))
        name = next(candidate for candidate in candidates if candidate not in taken)
        taken.add(name)
        names.append(name)
    return names


def _is_it(key: Any, text: str) -> bool:
    return isinstance(key, str) and str.__str__(key) == text
