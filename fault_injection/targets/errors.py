"""The errors of a target that cannot be loaded or driven."""

from __future__ import annotations


class TargetError(ValueError):
    """A target that cannot be loaded or driven; its message is one line: what, where, what to do."""


class UnavailableError(TargetError):
    """A source target used a package that is absent, or too heavy to import for a check."""


def one_line(error: BaseException) -> str:
    """The type and text of an exception, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the class is the user's and may do anything
        text = "<its text cannot be shown>"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
