"""An independent look at the files below a directory, behind the fault layer's back."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fault_injection.mechanisms import originals

Stamp = tuple[int, int, int]


class DiskLook:
    """Reads every file below a directory; a file that has not changed since the last look is not read again.

    Args:
        root: the directory.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[Stamp, bytes]] = {}

    def __call__(self) -> dict[str, bytes]:
        """The content of every file by its path relative to the root."""
        found: dict[str, tuple[Stamp, bytes]] = {}
        for path in _files(self._root):
            name = os.path.relpath(path, self._root).replace(os.sep, "/")
            try:
                status = os.lstat(path)
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                known = self._known.get(name)
                # Within one tick of the file system's clock a change of the same size would go unseen: small files
                # are read each time.
                if known is not None and known[0] == stamp and status.st_size > 1 << 20:
                    found[name] = known
                else:
                    found[name] = (stamp, _read(path))
            except FileNotFoundError:
                continue
        self._known = found
        return {name: content for name, (_, content) in found.items()}


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


def _read(path: str) -> bytes:
    with originals.open(path, "rb") as file:
        content = file.read()
    return bytes(content)
