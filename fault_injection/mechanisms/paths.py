"""Finds out whether a path that a call was given lies below the root of a trial, and where."""

from __future__ import annotations

import os
import sys
from typing import Any

_SEPARATORS = tuple({os.sep, os.altsep or os.sep})


class Root:
    """The directory below which operations count.

    Args:
        path: the directory; symbolic links in it are resolved, and it is recognised under both names.
    """

    def __init__(self, path: str) -> None:
        self.given = os.path.abspath(path)
        self.real = os.path.realpath(path)
        self._parents: dict[str, str | None] = {}

    def locate(self, path: Any, base: str | None = None, *, follow: bool = False) -> str | None:
        """Where a path lies.

        Args:
            path: what the call was given: text, bytes or an `os.PathLike`.
            base: the absolute directory that a relative path starts from; None for the working directory.
            follow: whether a symbolic link elsewhere counts as what it points to, since the call opens that.

        Returns:
            The path relative to the root with forward slashes (`.` for the root itself), or None when it lies elsewhere. A
            symbolic link below the root is not followed: the operation is one on that name.
        """
        try:
            text = os.fsdecode(path)
            if not text:
                return None
            if not os.path.isabs(text):
                text = os.path.join(os.getcwd() if base is None else base, text)
            if text in {self.given, self.real}:
                return "."
            parent, name = os.path.split(text)
            if name in {"", ".", ".."}:
                stripped = text.rstrip("".join(_SEPARATORS))
                return (
                    self._below(os.path.realpath(text))
                    if name or not stripped or stripped == text
                    else self.locate(stripped, follow=follow)
                )
            if parent in self._parents:
                above = self._parents[parent]
            else:
                above = self._parents[parent] = self._below(os.path.realpath(parent))
        except (TypeError, ValueError, OSError):
            # No path, or one with a null byte, or no working directory: the real call says so better.
            return None
        if above is None:
            if os.path.join(os.path.realpath(parent), name) == self.real:
                return "."
            return self._below(os.path.realpath(text)) if follow and os.path.islink(text) else None
        return name if above == "." else f"{above}/{name}"

    def outside(self, path: Any) -> str:
        """A path that lies elsewhere, still written relative to the root."""
        return os.path.relpath(os.fsdecode(path), self.real).replace(os.sep, "/")

    def absolute(self, path: str) -> str:
        """The absolute form of a path that `locate` returned."""
        return self.real if path == "." else os.path.join(self.real, *path.split("/"))

    def forget(self) -> None:
        """Directories may have changed places: resolve them anew."""
        self._parents.clear()

    def _below(self, real: str) -> str | None:
        if real == self.real:
            return "."
        if real.startswith(self.real.rstrip(os.sep) + os.sep):
            return os.path.relpath(real, self.real).replace(os.sep, "/")
        return None


def path_of_descriptor(fd: int) -> str | None:
    """The absolute path behind a descriptor that was opened before the trial, where the platform can tell."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
        path = os.readlink(f"/proc/self/fd/{fd}")
    except (OSError, OverflowError, TypeError, ValueError):
        return None
    return path if path.startswith("/") else None
