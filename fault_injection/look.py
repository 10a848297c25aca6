"""An independent look at the files below a directory, behind the fault layer's back."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fault_injection.mechanisms import originals
from fault_injection.mechanisms.paths import path_of_descriptor

_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")
"""Folders that list the descriptors of the process that looks, on Linux and on macOS."""


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


def left_open(root: str) -> int:
    """How many descriptors of this process are of files and folders below a directory, as far as the system says.

    Args:
        root: the directory.
    """
    above = os.path.join(os.path.realpath(root), "")
    numbers = next((os.listdir(each) for each in _DESCRIPTORS if os.path.isdir(each)), [])
    paths = (path_of_descriptor(int(number)) for number in numbers)
    return sum(path is not None and path.startswith(above) for path in paths)


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
