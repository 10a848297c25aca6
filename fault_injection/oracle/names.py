"""The names under which keys must be read back, those too that are one as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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


def allowed(
    keys: Sequence[Any], spellings: Sequence[Sequence[str]], reserved: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """The names that each key may have by the policy `rename`, that of the reference writer first.

    Args:
        keys: the keys of one dict.
        spellings: the texts that each may have; one that is text has one.
        reserved: names that no key may have.
    """
    times = Counter(text for texts in spellings for text in texts)
    found = []
    for key, texts, name in zip(
        keys, spellings, distinct(keys, [each[0] for each in spellings], reserved), strict=True
    ):
        names = [name]
        for text in texts if type(key) is not str else ():
            if text not in reserved:
                names.append(text)
            if text in reserved or times[text] > 1:
                stem = f"extra_{text}" if text in reserved else f"{text} ({type(key).__name__})"
                names += [stem, *(f"{stem}_{n}" for n in range(2, times[text] + 2))]
        found.append(tuple(dict.fromkeys(names)))
    return found


def assigned(names: Sequence[Sequence[str]], there: Iterable[str]) -> list[str | None]:
    """Which of the names that are there is that of each key, none that of two; None for a key that has none.

    As many keys as possible have one. Of several, a key has the first of its own; where that is not there, the one that
    comes first there, since keys are written in their order.

    Args:
        names: the names that each key may have, the best first.
        there: what was read.
    """
    places = {name: place for place, name in enumerate(there)}
    first = [own[0] for own in names if own and own[0] in places]
    if len(set(first)) == len(names):
        return [*first]
    candidates = []
    for own in names:
        here = sorted((name for name in own if name in places), key=places.__getitem__)
        candidates.append([*(name for name in own[:1] if name in here), *here])
    owners: dict[str, int] = {}

    def take(key: int, tried: set[str]) -> bool:
        # None is moved to another name while there is one that is free.
        for name in sorted(candidates[key], key=owners.__contains__):
            if name not in tried:
                tried.add(name)
                if name not in owners or take(owners[name], tried):
                    owners[name] = key
                    return True
        return False

    # A key that can have one name only has the first claim to it.
    for key in sorted(range(len(names)), key=lambda key: len(names[key])):
        take(key, set())
    found: list[str | None] = [None] * len(names)
    for name, key in owners.items():
        found[key] = name
    return found


def clashing(spellings: Sequence[Sequence[str]], reserved: Sequence[str] = ()) -> list[int | None]:
    """For each key the first that it may be one with as text, -1 for a reserved name, None for none of those before it."""
    owners: dict[str, int] = dict.fromkeys(reserved, -1)
    found: list[int | None] = []
    for key, texts in enumerate(spellings):
        found.append(min((owners[text] for text in texts if text in owners), default=None))
        for text in texts:
            owners.setdefault(text, key)
    return found


def _is_it(key: Any, text: str) -> bool:
    return isinstance(key, str) and str.__str__(key) == text
