"""Recording: what a run did to the files below its root, in order and with every byte."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass

from fault_injection.mechanisms import originals

try:
    from fcntl import F_GETFL, fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ROOT = 0
"""The node of the root directory."""
_WRITE_THROUGH = getattr(os, "O_SYNC", 0) | getattr(os, "O_DSYNC", 0)


@dataclass(frozen=True)
class Step:
    """One change of the file system, or one sync. A node is one file or directory, whatever names it has.

    Args:
        kind: `create`, `mkdir`, `link`, `symlink`, `rename`, `remove` (names), `write`, `resize` (data), `sync` (of a file
            or directory), `syncall`, or `lose` (a sync failed and dropped the data).
        at: how many events the history had when it had happened.
        node: the file or directory; for `remove` the one that loses the name.
        folder: the directory that holds the name.
        name: the name in it; for `rename` the new one, empty when it lies outside the root.
        old_folder: for `rename`, the directory that held the old name; -1 when it lay outside the root.
        old_name: for `rename`, the old name.
        offset: of a write; for `resize` the size.
        data: of a write.
    """

    kind: str
    at: int
    node: int = ROOT
    folder: int = ROOT
    name: str = ""
    old_folder: int = -1
    old_name: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass(frozen=True)
class Journal:
    """A recorded run.

    Args:
        entries: the names when it began, all durable: directory, name, node.
        contents: of every file then, by node.
        folders: the nodes that are directories, also those made later.
        links: for each symbolic link the path it leads to, relative to the root (None: elsewhere).
        steps: in order.
    """

    entries: tuple[tuple[int, str, int], ...] = ()
    contents: tuple[tuple[int, bytes], ...] = ()
    folders: frozenset[int] = frozenset({ROOT})
    links: tuple[tuple[int, str | None], ...] = ()
    steps: tuple[Step, ...] = ()


class Recorder:
    """Writes down what passes through an armed layer; set it as `layer.recorder`.

    A step is noted when its call has returned, so steps that the writer orders stand in that order, and of two that run at
    the same time either may come first.

    Args:
        root: the real path of the trial's root; what is there now counts as durable.
        clock: tells how many events the history has.
    """

    def __init__(self, root: str, clock: Callable[[], int] = lambda: 0) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.RLock()
        self._steps: list[Step] = []
        self._nodes: dict[int, int] = {os.stat(root).st_ino: ROOT}
        self._tree: dict[int, dict[str, int]] = {ROOT: {}}
        self._sizes: dict[int, int] = {}
        self._links: dict[int, str | None] = {}
        self._count = 1
        self._contents: dict[int, bytes] = {}
        self._scan(root, ROOT)
        self._entries = tuple(
            (f, name, node) for f, names in self._tree.items() for name, node in names.items()
        )

    def journal(self) -> Journal:
        """What was recorded so far."""
        with self._lock:
            return Journal(
                self._entries,
                tuple(self._contents.items()),
                frozenset(self._tree),
                tuple(self._links.items()),
                tuple(self._steps),
            )

    def opened(self, path: str, status: os.stat_result, *, fresh: bool) -> None:
        """A file was opened; `fresh` when that made it."""
        with self._lock:
            node = self._nodes.get(status.st_ino)
            if stat.S_ISDIR(status.st_mode):
                return
            if fresh or node is None:
                node = self._new(status.st_ino)
                self._sizes[node] = 0
                if fresh:
                    self._enter("create", path, node)
            elif status.st_size < self._sizes.get(node, 0):
                self._resize(node, status.st_size)

    def wrote(self, inode: int, fd: int, count: int, offset: int) -> None:
        """Bytes were written; `offset` -1 means at the descriptor's position, -2 at the end."""
        with self._lock:
            node = self._nodes.get(inode)
            if node is None:
                return
            if offset == -2:
                offset = os.fstat(fd).st_size - count
            elif offset == -1:
                offset = os.lseek(fd, 0, os.SEEK_CUR) - count
            self._note(
                Step("write", self._clock(), node, offset=offset, data=self._read(node, fd, offset, count))
            )
            self._sizes[node] = max(self._sizes.get(node, 0), offset + count)
            if fcntl is not None and fcntl(fd, F_GETFL) & _WRITE_THROUGH:
                self._note(Step("sync", self._clock(), node))

    def resized(self, inode: int, size: int) -> None:
        """A file was cut or extended."""
        with self._lock:
            if (node := self._nodes.get(inode)) is not None:
                self._resize(node, size)

    def synced(self, inode: int) -> None:
        """A file or directory was forced to the disk."""
        with self._lock:
            if (node := self._nodes.get(inode)) is not None:
                self._note(Step("sync", self._clock(), node))

    def synced_all(self) -> None:
        """Everything was forced to the disk."""
        with self._lock:
            self._note(Step("syncall", self._clock()))

    def lost(self, inode: int) -> None:
        """A sync failed, and what it should have forced is gone."""
        with self._lock:
            if (node := self._nodes.get(inode)) is not None:
                self._note(Step("lose", self._clock(), node))

    def made(self, path: str) -> None:
        """A directory was made."""
        with self._lock:
            node = self._new(os.stat(self._absolute(path)).st_ino)
            self._tree[node] = {}
            self._enter("mkdir", path, node)

    def linked(self, path: str) -> None:
        """A file got a second name; where its first one was is told by its number."""
        with self._lock:
            status = os.stat(self._absolute(path), follow_symlinks=False)
            node = self._nodes.get(status.st_ino)
            self._enter("link", path, self._arrived(path, status) if node is None else node)

    def symlinked(self, path: str, target: str | None) -> None:
        """A symbolic link was made; `target` is where it leads, or None when that lies outside the root."""
        with self._lock:
            node = self._new(os.lstat(self._absolute(path)).st_ino)
            self._links[node] = target
            self._enter("symlink", path, node)

    def renamed(self, source: str | None, target: str | None) -> None:
        """A name was moved; None stands for a place outside the root."""
        with self._lock:
            old, new = self._place(source), self._place(target)
            if target is None and old is not None:
                self._leave(old)
            elif source is None and target is not None:
                status = os.lstat(self._absolute(target))
                self._enter("rename", target, self._arrived(target, status))
            elif old is not None and new is not None and old != new:
                node = self._tree[old[0]].pop(old[1], None)
                if node is None or self._tree[new[0]].get(new[1]) == node:
                    # Two names of one file: the kernel leaves both where they are.
                    if node is not None:
                        self._tree[old[0]][old[1]] = node
                    return
                self._tree[new[0]][new[1]] = node
                self._note(Step("rename", self._clock(), node, *new, *old))

    def removed(self, path: str) -> None:
        """A name was removed."""
        with self._lock:
            if (place := self._place(path)) is not None:
                self._leave(place)

    def _note(self, step: Step) -> None:
        self._steps.append(step)

    def _resize(self, node: int, size: int) -> None:
        self._sizes[node] = size
        self._note(Step("resize", self._clock(), node, offset=size))

    def _new(self, inode: int) -> int:
        # The number of a file that is gone may come again: a file that was just made is always another node.
        node = self._nodes[inode] = self._count
        self._count += 1
        return node

    def _enter(self, kind: str, path: str, node: int) -> None:
        if (place := self._place(path)) is not None:
            self._tree[place[0]][place[1]] = node
            self._note(Step(kind, self._clock(), node, *place))

    def _leave(self, place: tuple[int, str]) -> None:
        node = self._tree[place[0]].pop(place[1], None)
        if node is not None:
            self._note(Step("remove", self._clock(), node, *place))

    def _arrived(self, path: str, status: os.stat_result) -> int:
        """A file from outside the root: nobody saw how it was written, so it counts as synced there."""
        node = self._new(status.st_ino)
        with originals.open(self._absolute(path), "rb") as file:
            data = bytes(file.read())
        self._sizes[node] = len(data)
        self._note(Step("write", self._clock(), node, data=data))
        self._note(Step("sync", self._clock(), node))
        return node

    def _place(self, path: str | None) -> tuple[int, str] | None:
        """The directory of a path and the name in it, or None where the recorder does not know the directory."""
        if path is None:
            return None
        *parents, name = path.split("/")
        folder = ROOT
        for parent in parents:
            folder = self._tree.get(folder, {}).get(parent, -1)
        return (folder, name) if folder in self._tree else None

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/"))

    def _read(self, node: int, fd: int, offset: int, count: int) -> bytes:
        # Another descriptor: the writer's own may be open for writing only, and keeps its position.
        behind = f"/proc/self/fd/{fd}"
        with originals.FileIO(behind if os.path.exists(behind) else self._path(node), "r") as again:
            again.seek(offset)
            return again.read(count) or b""

    def _path(self, node: int) -> str:
        paths = {ROOT: self._root}
        for folder, names in self._tree.items():
            for name, each in names.items():
                paths[each] = os.path.join(paths.get(folder, self._root), name)
        return paths[node]

    def _scan(self, path: str, folder: int) -> None:
        for entry in sorted(os.scandir(path), key=lambda each: each.name):
            status = entry.stat(follow_symlinks=False)
            node = self._nodes.get(status.st_ino) or self._new(status.st_ino)
            self._tree[folder][entry.name] = node
            if entry.is_symlink():
                target = os.path.realpath(entry.path)
                inside = target.startswith(self._root + os.sep)
                self._links[node] = (
                    os.path.relpath(target, self._root).replace(os.sep, "/") if inside else None
                )
            elif entry.is_dir():
                self._tree[node] = {}
                self._scan(entry.path, node)
            else:
                with originals.open(entry.path, "rb") as file:
                    self._contents[node] = bytes(file.read())
                self._sizes[node] = status.st_size
