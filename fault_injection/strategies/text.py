"""Texts as language models make them, with every trouble that Unicode has."""

from __future__ import annotations

from hypothesis import strategies as st

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The characters at which `str.splitlines` splits."""
SURROGATES = "\ud800\udbff\udc00\udfff"
"""Halves of surrogate pairs, which no UTF-8 can hold."""
CONTROLS = "\0\x01\b\t\x1b\x1f\x7f\x80\x9f"
"""Control characters that break terminals and parsers."""
INVISIBLES = "\ufeff\u200b\u200d\u202e\u2066\ufffd\ufffe\uffff\U000e0001\U0010ffff"
"""Byte order mark, joiners, marks of direction, the replacement character, and code points that are no characters."""

_PLAIN = (
    "",
    "a",
    "x = 1",
    'say "no"',
    "back\\slash",
    "</s>",
    "<|im_end|>",
    "\\boxed{42}",
    "\\u0041",
    "NaN",
    "null",
    # What is stripped, or split off, is at an end.
    " ",
    "a ",
    "\ta",
    "a\n\n",
)
_WRITTEN = (
    "naïve",
    "答案是四十二",
    "π ≈ 3.14",
    "🙂",
    "👩‍👩‍👧‍👦",
    "e\u0301",
    "\u0301" * 30,
    "עברית",
    "ﷺ",
    "\U00020000",
    "İ",
)


def texts(*, max_size: int = 8, surrogates: bool = True) -> st.SearchStrategy[str]:
    """Texts of prompts and answers; they shrink to a single character or none.

    Args:
        max_size: characters in a text of random ones.
        surrogates: whether lone surrogates are among them.
    """
    trouble = LINE_BREAKS + CONTROLS + INVISIBLES + (SURROGATES if surrogates else "")
    categories = {} if surrogates else {"exclude_categories": ("Cs",)}
    characters = st.one_of(
        st.sampled_from("ab0"),
        st.sampled_from(trouble),
        st.characters(**categories),  # type: ignore[arg-type]
    )
    return st.one_of(
        st.text(characters, max_size=max_size),
        st.sampled_from(_PLAIN),
        st.sampled_from(_WRITTEN),
        st.builds(_around, st.sampled_from(trouble)),
    )


def line_break_texts() -> st.SearchStrategy[str]:
    """Texts that hold a character at which some reader ends the line."""
    return st.builds(_around, st.sampled_from(LINE_BREAKS))


def surrogate_texts() -> st.SearchStrategy[str]:
    """Texts with half of a surrogate pair: alone, doubled, in the wrong order, or beside a whole character."""
    return st.one_of(
        st.sampled_from(SURROGATES),
        st.builds(_around, st.sampled_from(SURROGATES)),
        st.sampled_from(("\udc00\ud800", "\ud83d\ud83d\ude00", "🙂\udfff", "\ud800\u2028")),
    )


def long_texts(size: int = 100_000) -> st.SearchStrategy[str]:
    """Texts longer than the buffers of files and parsers.

    Args:
        size: characters, about.
    """
    pieces = st.sampled_from(("x", "答", "🙂", '"\\', "e\u0301"))
    return st.builds(lambda piece, extra: piece * (size // len(piece) + extra), pieces, st.integers(0, 2))


def _around(char: str) -> str:
    return f"a{char}b"
