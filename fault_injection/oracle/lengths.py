"""Whether an error tells that base columns are of different lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SAY_SO = re.compile(
    r"length|unequal|uneven|ragged|shorter|longer|sizes"
    r"|number of (?:rows|values|items|entries|elements|samples|columns|inputs|outputs|scores)",
    re.IGNORECASE,
)
"""Words of which each alone tells it."""
_COMPARE = re.compile(
    r"\b(?:mis)?match|\b(?:dis)?agree|\bdiffer|\b(?:same|equal|few|fewer|less|more|many|missing|lacks?|per)\b",
    re.IGNORECASE,
)
"""Words of which one tells it beside the name of a column, or beside what all columns have."""
_AT_ALL = re.compile(r"\b(?:columns|size|shapes?)\b", re.IGNORECASE)
_NAMES = {
    "input": "inputs?|prompts?",
    "output": "outputs?|responses?|completions?",
    "gts": "gts?|ground[ _]truths?",
    "score": "scores?|rewards?",
}
"""How the base columns are called, in the file, as arguments and in speech."""
_COLUMN = "(?:column|argument|parameter|field)s?"
_ELSEWHERE = re.compile(
    rf"(?<!\S)(?!(?:(?:{'|'.join(_NAMES.values())}|\d+)[/,:;.]*)+(?:\s|$))\S*[/\\]\S*|\S+\.jsonl\S*|0x[0-9a-f]+"
    r"|\b(?:global_)?steps?\b\W{0,3}\d+|\b(?:row|item|index|line|errno|dump|batch|worker|attempt)\b\W{0,3}\d+",
    re.IGNORECASE,
)
"""What holds names and numbers, but none of the columns: paths, steps, places."""
_OF_A_CALL = re.compile(r"\b(?:unpack|positional)\b", re.IGNORECASE)
"""Messages of Python about a call or an assignment, which may name an argument and two numbers."""
_OF_AN_INDEX = re.compile(r"\bout[ -]of[ -](?:range|bounds)\b", re.IGNORECASE)
"""Messages of which the numbers may be those of the columns by chance."""


def tells_lengths(words: str, lengths: Sequence[tuple[str, int]]) -> bool:
    """Whether an error tells that columns are of different lengths.

    It does in so many words, by two of the lengths, or by a column that does not fit. A name may stand there for anything
    ("bad input"): it counts in quotes, as that of a column, with the length of the column, or with a word that compares.

    Args:
        words: what the exception and those it was raised from say, a line each.
        lengths: the base columns with their lengths.
    """
    lines = (_ELSEWHERE.sub(" ", line) for line in words.splitlines())
    return any(_tells(line, lengths) for line in lines)


def _tells(line: str, lengths: Sequence[tuple[str, int]]) -> bool:
    if _SAY_SO.search(line):
        return True
    if _OF_A_CALL.search(line):
        return False
    by_chance = _OF_AN_INDEX.search(line) is not None
    numbers = set() if by_chance else {int(n) for n in re.findall(r"(?<![\w.])\d+(?!\w|\.\d)", line)}
    compares = _COMPARE.search(line) is not None
    sizes = [size for _, size in lengths]
    if len(numbers & set(sizes)) > 1 or (compares and _AT_ALL.search(line)):
        return True
    # A column may be held against the first, or against what most are.
    most = max(map(sizes.count, sizes))
    wanted = {sizes[0], *(size for size in sizes if sizes.count(size) == most)}
    return any(
        _names(line, _NAMES[name], plainly=compares or size in numbers)
        for name, size in lengths
        if wanted - {size}
    )


def _names(line: str, name: str, *, plainly: bool) -> bool:
    """Whether a line names a column; `plainly`: the bare word is enough."""
    ways = [
        rf"(['\"`])(?:{name})\1",
        rf"\b{_COLUMN}\W{{0,3}}(?:{name})\b",
        rf"\b(?:{name})\W{{0,2}}{_COLUMN}\b",
    ]
    ways += [rf"\b(?:{name})\b"] if plainly else []
    return any(re.search(way, line, re.IGNORECASE) for way in ways)
