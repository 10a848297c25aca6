"""How numbers, names and foreign text are shown."""

from __future__ import annotations

import os


def shown(text: str, limit: int = 80) -> str:
    """Return text of unknown origin as one printable line of at most `limit` characters, or a little more."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)


def shown_path(path: str) -> str:
    """Return a path as printable text; bytes that are no UTF-8 become escapes."""
    return shown(os.fsencode(path).decode("utf-8", "backslashreplace"), 4096)


def counted(number: int, noun: str) -> str:
    """Return `1 row`, `2,000 rows`, `2 directories`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def sized(number: float) -> str:
    """Return a number of bytes in decimal units."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"
