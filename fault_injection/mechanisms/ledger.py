"""What is known of the files below the root: who made them, how large they are, what a sync made durable."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from fault_injection.mechanisms.originals import FileIO

_WITHOUT_BOUND = float("inf")


def files_below(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every name below a directory that is no directory, with its own status (symbolic links are not followed)."""
    folders = [(root, "")]
    while folders:
        folder, prefix = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, f"{prefix}{entry.name}/"))
                continue
            try:
                yield prefix + entry.name, os.lstat(entry.path)
            except FileNotFoundError:
                continue


class Ledger:
    """Keeps book of what passed through the layer, so that what did not can be told afterwards.

    Args:
        root: the real path of the trial's root.
        keep_synced: whether the content that a sync made durable is kept (for the fault `lost`).
    """

    def __init__(self, root: str, *, keep_synced: bool = False) -> None:
        self.root = root
        self.keep_synced = keep_synced
        self._inodes: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        # The most bytes a file can hold if the layer saw every write to it.
        self._bounds: dict[int, float] = {}
        self._stamps: dict[int, int] = {}
        self._synced: dict[int, bytes] = {}
        for path, status in files_below(root):
            self._enter(path, status)
            self._stamps[status.st_ino] = status.st_mtime_ns

    def total(self, inode: int, end: int) -> int:
        """The bytes in all files if one of them comes to reach at least to `end`."""
        mine = self._sizes.get(inode, 0)
        return sum(self._sizes.values()) - mine + max(mine, end)

    def size(self, inode: int) -> int:
        """The size of a file as of its last operation."""
        return self._sizes.get(inode, 0)

    def absent(self, path: str) -> bool:
        """Whether opening the path now would make a new file."""
        return path not in self._inodes and not os.path.lexists(os.path.join(self.root, path))

    def opened(self, path: str, status: os.stat_result, fd: int, *, fresh: bool, writes: bool) -> None:
        """A file was opened through the layer; `fresh` when that made it."""
        if fresh:
            # The final component may be a link to elsewhere: the name's own inode is what the directory holds.
            self._enter(path, status if stat.S_ISREG(status.st_mode) else self._status(path))
        elif status.st_ino in self._sizes and status.st_size < self._sizes[status.st_ino]:
            self._sizes[status.st_ino] = self._bounds[status.st_ino] = status.st_size
        if writes:
            self._stamps.pop(status.st_ino, None)
            if self.keep_synced and stat.S_ISREG(status.st_mode) and status.st_ino not in self._synced:
                self._synced[status.st_ino] = self._content(status.st_ino, fd)

    def wrote(self, inode: int, fd: int, count: int, *, anywhere: bool = False) -> None:
        """Bytes were written through the layer; `anywhere` when they may leave a hole before them."""
        if inode in self._sizes:
            self._sizes[inode] = os.fstat(fd).st_size
            self._bounds[inode] += _WITHOUT_BOUND if anywhere else count
            self._stamps.pop(inode, None)

    def resized(self, inode: int, size: int) -> None:
        """A file was cut or extended through the layer."""
        if inode in self._sizes:
            self._sizes[inode] = self._bounds[inode] = size
            self._stamps.pop(inode, None)

    def resized_name(self, path: str) -> None:
        """A file was cut or extended by its name."""
        status = os.stat(os.path.join(self.root, path))
        self.resized(status.st_ino, status.st_size)

    def removed(self, path: str) -> None:
        """A name was removed through the layer; the bytes are free with the last one."""
        inode = self._inodes.pop(path, None)
        if inode is not None and inode not in self._inodes.values():
            for book in (self._sizes, self._bounds, self._stamps, self._synced):
                book.pop(inode, None)

    def renamed(self, source: str | None, target: str | None) -> None:
        """A name was moved through the layer; None stands for a place outside the root."""
        if source == target:
            return
        if target is not None:
            self.removed(target)
        if source is None and target is not None:
            self._enter(target, self._status(target))
        elif target is None and source is not None:
            self.removed(source)
        elif source is not None and target is not None:
            if source in self._inodes:
                self._inodes[target] = self._inodes.pop(source)
                return
            for path in [p for p in self._inodes if p.startswith(f"{source}/")]:
                self._inodes[target + path[len(source) :]] = self._inodes.pop(path)

    def linked(self, source: str | None, target: str) -> None:
        """A second name or a symbolic link was made through the layer."""
        if source is None or source in self._inodes:
            self._enter(target, self._status(target))

    def vanished(self, folder: str) -> None:
        """A directory and all below it is gone."""
        prefix = "" if folder == "." else f"{folder}/"
        for path in [p for p in self._inodes if p.startswith(prefix)]:
            self.removed(path)

    def synced(self, inode: int, fd: int) -> None:
        """A sync succeeded: what the file holds now is durable."""
        if self.keep_synced and inode in self._sizes:
            self._synced[inode] = self._content(inode, fd)

    def lose(self, inode: int, fd: int) -> None:
        """Bring a file back to what the last successful sync made durable."""
        content = self._synced.get(inode, b"")
        # Another descriptor: the writer's own may be in append mode or open for reading only, and keeps its position.
        with FileIO(self._name(inode, fd), "r+") as again:
            again.truncate(0)
            while content:
                content = content[again.write(content) :]
        if inode in self._sizes:
            self._sizes[inode] = os.fstat(fd).st_size
            # The writer goes on at its old position, which may leave a hole.
            self._bounds[inode] = _WITHOUT_BOUND

    def unseen(self) -> tuple[str, ...]:
        """The files on disk that were made or changed past the layer, sorted."""
        return tuple(
            sorted(path for path, status in files_below(self.root) if not self._explained(path, status))
        )

    def _explained(self, path: str, status: os.stat_result) -> bool:
        inode = self._inodes.get(path)
        if inode != status.st_ino:
            return False
        if not stat.S_ISREG(status.st_mode):
            return True
        if self._stamps.get(inode, status.st_mtime_ns) != status.st_mtime_ns:
            return False
        return self._sizes[inode] == status.st_size and status.st_size <= self._bounds[inode]

    def _enter(self, path: str, status: os.stat_result) -> None:
        self._inodes[path] = status.st_ino
        if stat.S_ISREG(status.st_mode):
            self._sizes[status.st_ino] = status.st_size
            self._bounds.setdefault(status.st_ino, status.st_size)

    def _status(self, path: str) -> os.stat_result:
        return os.lstat(os.path.join(self.root, path))

    def _content(self, inode: int, fd: int) -> bytes:
        with FileIO(self._name(inode, fd), "r") as again:
            return again.readall()

    def _name(self, inode: int, fd: int) -> str:
        behind = f"/proc/self/fd/{fd}"
        if os.path.exists(behind):
            return behind
        return os.path.join(self.root, next(path for path, mine in self._inodes.items() if mine == inode))
