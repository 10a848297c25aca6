"""An independent look at the files below a directory, behind the fault layer's back."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fault_injection.mechanisms import originals


class DiskLook:
    """Reads the files below a directory of the real disk.

    Args:
        root: the directory.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def __call__(self) -> dict[str, bytes]:
        """The content of every file, by its path relative to the root."""
        names = (os.path.relpath(path, self._root).replace(os.sep, "/") for path in _files(self._root))
        return {name: content for name in names if (content := self.read(name)) is not None}

    def read(self, name: str) -> bytes | None:
        """The content of one file, or None where there is none."""
        try:
            with originals.open(os.path.join(self._root, name), "rb") as file:
                return bytes(file.read())
        except OSError:
            return None


def _files(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
                else:
                    yield entry.path
    except FileNotFoundError:
        return
