"""Turns system calls into the steps of a journal, by following descriptors, positions and names."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from fault_injection.crash.record import ROOT, Journal, Step
from fault_injection.crash.strace_lines import Call, Reference, data, reference

TRACED = (
    "?open", "openat", "?openat2", "?creat", "close", "read", "readv", "write", "writev", "pwrite64", "pwritev",
    "?pwritev2", "lseek", "?dup", "?dup2", "dup3", "fcntl", "truncate", "ftruncate", "fallocate", "fsync", "fdatasync",
    "sync", "syncfs", "?rename", "?renameat", "renameat2", "?link", "linkat", "?symlink", "symlinkat", "?unlink",
    "unlinkat", "?rmdir", "?mkdir", "mkdirat", "clone", "?clone3", "?fork", "?vfork",
)  # fmt: skip
"""The system calls that must be traced; a `?` lets strace pass over one that this machine does not have."""
_OPENS = {"open": 1, "openat": 2, "openat2": 2}
_WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2"}
_BIRTHS = {"clone", "clone3", "fork", "vfork"}
_THROUGH = re.compile(r"\bO_D?SYNC\b|\bRWF_D?SYNC\b")
_BEHIND = re.compile(r"/proc/(?:self|\d+)/fd/(\d+)")


class NotFollowedError(ValueError):
    """The run did something that its system calls do not tell enough of."""


@dataclass
class _Open:
    """An open file: what descriptors share that were copied of each other.

    Args:
        node: the file or directory.
        appends: whether each write goes to the end.
        through: whether each write is synced.
        position: where the next read or write without an offset goes.
    """

    node: int
    appends: bool = False
    through: bool = False
    position: int = 0


class Follower:
    """Follows the calls of one run.

    Args:
        root: the real path of the trial's root.
        start: the names and contents when the run began.
        made: every call of the run.
        pipe: the number of the pipe through which the run tells its events.
        ends: for each event, how many bytes had been told with it.
    """

    def __init__(
        self, root: str, start: Journal, made: Sequence[Call], pipe: int, ends: Sequence[int]
    ) -> None:
        self._root, self._start, self._calls, self._ends = root, start, made, ends
        self._pipe = f"pipe:[{pipe}]"
        self._steps: list[Step] = []
        self._tree: dict[int, dict[str, int]] = {folder: {} for folder in start.folders}
        for folder, name, node in start.entries:
            self._tree[folder][name] = node
        self._sizes = {node: len(content) for node, content in start.contents}
        self._links = dict(start.links)
        self._count = 1 + max([ROOT, *(node for _, _, node in start.entries)])
        self._tables: dict[int, dict[int, _Open]] = {}
        self._first: dict[int, _Open] = {}
        self._parents = {
            call.result: (call.thread, any("CLONE_FILES" in each for each in call.arguments))
            for call in made
            if call.name in _BIRTHS and call.result
        }
        # What was told before strace was there is not among the calls.
        seen = sum(call.result for call in made if self._tells(call))
        self._told = (ends[-1] if ends else 0) - seen

    def journal(self) -> Journal:
        """What the run did.

        Raises:
            NotFollowedError: its calls do not tell enough.
            CutShortError: a write was too long.
        """
        for call in self._calls:
            if self._tells(call):
                self._told += call.result
            elif (act := getattr(self, f"_do_{_ACTS.get(call.name, '')}", None)) is not None:
                act(call)
        return Journal(
            self._start.entries,
            self._start.contents,
            frozenset(self._tree),
            tuple(self._links.items()),
            tuple(self._steps),
        )

    def _tells(self, call: Call) -> bool:
        return call.name == "write" and reference(call.arguments[0]).path == self._pipe

    # Descriptors.

    def _do_open(self, call: Call) -> None:
        table, place = self._table(call.thread), self._inside(call.path or "")
        table.pop(call.result, None)
        if place is None:
            return
        flags = call.arguments[_OPENS[call.name]] if call.name in _OPENS else "O_CREAT|O_TRUNC"
        node = None if call.nameless else self._find(place)
        if node is None:
            if "O_CREAT" not in flags and "O_TMPFILE" not in flags:
                return
            node = self._new()
            self._sizes[node] = 0
            if not call.nameless:
                self._enter("create", place, node)
        elif "O_TRUNC" in flags and self._sizes.get(node, 0):
            self._resize(node, 0)
        table[call.result] = _Open(node, "O_APPEND" in flags, bool(_THROUGH.search(flags)))

    def _do_copy(self, call: Call) -> None:
        if call.name == "fcntl" and not call.arguments[1].startswith("F_DUPFD"):
            opened = self._opened(call)
            if opened is not None and call.arguments[1] == "F_SETFL":
                opened.appends = "O_APPEND" in call.arguments[2]
            return
        opened, table = self._opened(call), self._table(call.thread)
        if opened is None:
            table.pop(call.result, None)
        else:
            table[reference(call.arguments[0]).number] = table[call.result] = opened

    def _do_close(self, call: Call) -> None:
        self._table(call.thread).pop(reference(call.arguments[0]).number, None)

    def _do_seek(self, call: Call) -> None:
        if (opened := self._opened(call)) is not None:
            opened.position = call.result

    def _do_read(self, call: Call) -> None:
        if (opened := self._opened(call)) is not None:
            opened.position += call.result

    # Data.

    def _do_write(self, call: Call) -> None:
        opened = self._opened(call)
        if opened is None or not call.result:
            return
        flags = call.arguments[4] if call.name == "pwritev2" else ""
        size = self._sizes.get(opened.node, 0)
        given = int(call.arguments[3]) if call.name.startswith("pwrite") else -1
        at = size if opened.appends or "RWF_APPEND" in flags else opened.position if given < 0 else given
        if given < 0:
            opened.position = at + call.result
        content = data(call.arguments[1])[: call.result]
        self._note("write", opened.node, offset=at, data=content)
        self._sizes[opened.node] = max(size, at + call.result)
        if opened.through or _THROUGH.search(flags):
            self._note("sync", opened.node)

    def _do_resize(self, call: Call) -> None:
        if call.name == "truncate":
            place = self._inside(self._named(None, call.arguments[0]))
            node = None if place is None else self._find(place)
        else:
            opened = self._opened(call)
            node = None if opened is None else opened.node
        if node is None:
            return
        if call.name != "fallocate":
            self._resize(node, int(call.arguments[1]))
        elif call.arguments[1] == "0":
            end = int(call.arguments[2]) + int(call.arguments[3])
            if end > self._sizes.get(node, 0):
                self._resize(node, end)

    def _do_sync(self, call: Call) -> None:
        if (opened := self._opened(call)) is not None:
            self._note("sync", opened.node)

    def _do_syncall(self, call: Call) -> None:
        if call.name == "sync" or self._opened(call) is not None:
            self._note("syncall")

    # Names.

    def _do_rename(self, call: Call) -> None:
        one, two = self._two_places(call)
        if "RENAME_EXCHANGE" in call.arguments[-1]:
            raise NotFollowedError("it exchanges two names")
        old, new = self._place(one), self._place(two)
        node = self._tree[old[0]].get(old[1]) if old is not None else None
        if new is not None and node is None:
            raise NotFollowedError(f"it moves {two} in from outside of the directory of the trial")
        if old is None or node is None:
            return
        if new is None:
            self._leave(old)
        elif old != new and self._tree[new[0]].get(new[1]) != node:
            # Two names of one file: the kernel leaves both where they are.
            del self._tree[old[0]][old[1]]
            self._tree[new[0]][new[1]] = node
            self._note("rename", node, *new, *old)

    def _do_link(self, call: Call) -> None:
        one, two = self._two_places(call)
        if two is None:
            return
        node = self._find(one) if one is not None else None
        if node is None:
            source = os.fsdecode(data(call.arguments[1 if call.name == "linkat" else 0]))
            behind = _BEHIND.fullmatch(source)
            number = int(behind[1]) if behind else reference(call.arguments[0]).number if not source else -1
            opened = self._table(call.thread).get(number)
            if opened is None:
                raise NotFollowedError(f"it links {two} in from outside of the directory of the trial")
            node = opened.node
        self._enter("link", two, node)

    def _do_symlink(self, call: Call) -> None:
        *folder, name = call.arguments[1:]
        full = self._named(folder[0] if folder else None, name)
        if (place := self._inside(full)) is not None:
            node = self._new()
            target = os.path.join(os.path.dirname(full), os.fsdecode(data(call.arguments[0])))
            self._links[node] = self._inside(target)
            self._enter("symlink", place, node)

    def _do_remove(self, call: Call) -> None:
        at = call.name.endswith("at")
        path = self._named(call.arguments[0] if at else None, call.arguments[int(at)])
        if (place := self._place(self._inside(path))) is not None:
            self._leave(place)

    def _do_mkdir(self, call: Call) -> None:
        at = call.name.endswith("at")
        path = self._named(call.arguments[0] if at else None, call.arguments[int(at)])
        if (place := self._inside(path)) is not None:
            node = self._new()
            self._tree[node] = {}
            self._enter("mkdir", place, node)

    # What all of them need.

    def _note(
        self,
        kind: str,
        node: int = ROOT,
        folder: int = ROOT,
        name: str = "",
        old_folder: int = -1,
        old_name: str = "",
        offset: int = 0,
        data: bytes = b"",
    ) -> None:
        at = bisect_right(self._ends, self._told)
        self._steps.append(Step(kind, at, node, folder, name, old_folder, old_name, offset, data))

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def _resize(self, node: int, size: int) -> None:
        self._sizes[node] = size
        self._note("resize", node, offset=size)

    def _enter(self, kind: str, path: str, node: int) -> None:
        if (place := self._place(path)) is not None:
            self._tree[place[0]][place[1]] = node
            self._note(kind, node, *place)

    def _leave(self, place: tuple[int, str]) -> None:
        node = self._tree[place[0]].pop(place[1], None)
        if node is not None:
            self._note("remove", node, *place)

    def _table(self, thread: int) -> dict[int, _Open]:
        """The descriptors of a thread's process, which begins with those of the process that it was forked from."""
        if thread not in self._tables:
            parent, shares = self._parents.get(thread, (0, True))
            before = self._table(parent) if parent else self._first
            self._tables[thread] = before if shares else dict(before)
        return self._tables[thread]

    def _opened(self, call: Call) -> _Open | None:
        """The open file that a call is about, or None where it does not lie below the root."""
        asked: Reference = reference(call.arguments[0])
        place = self._inside(asked.path or "")
        if place is None:
            return None
        table = self._table(call.thread)
        known, named = table.get(asked.number), None if asked.nameless else self._find(place)
        if known is None or (named is not None and named != known.node):
            # It came in a way that is not followed, such as through a socket.
            if named is None:
                return None
            known = table[asked.number] = _Open(named)
        return known

    def _named(self, folder: str | None, name: str) -> str:
        base = None if folder is None else reference(folder).path
        return os.path.join(base or os.getcwd(), os.fsdecode(data(name)))

    def _two_places(self, call: Call) -> tuple[str | None, str | None]:
        given = call.arguments
        pairs = (
            ((given[0], given[1]), (given[2], given[3]))
            if "at" in call.name
            else ((None, given[0]), (None, given[1]))
        )
        one, two = (self._inside(self._named(folder, name)) for folder, name in pairs)
        return one, two

    def _inside(self, path: str) -> str | None:
        """A path relative to the root, or None where it lies outside."""
        if not path.startswith("/"):
            return None
        path = os.path.normpath(path)
        if path != self._root and not path.startswith(self._root + "/"):
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if path == self._root:
            return ""
        return path[len(self._root) + 1 :] if path.startswith(self._root + "/") else None

    def _place(self, path: str | None) -> tuple[int, str] | None:
        """The directory of a path and the name in it, or None where the directory is not known."""
        if not path:
            return None
        *parents, name = path.split("/")
        folder = ROOT
        for parent in parents:
            folder = self._tree.get(folder, {}).get(parent, -1)
        return (folder, name) if folder in self._tree else None

    def _find(self, path: str) -> int | None:
        if not path:
            return ROOT
        place = self._place(path)
        return None if place is None else self._tree[place[0]].get(place[1])


_ACTS: dict[str, str] = {
    **dict.fromkeys((*_OPENS, "creat"), "open"),
    **dict.fromkeys(("dup", "dup2", "dup3", "fcntl"), "copy"),
    **dict.fromkeys(("read", "readv"), "read"),
    **dict.fromkeys(_WRITES, "write"),
    **dict.fromkeys(("truncate", "ftruncate", "fallocate"), "resize"),
    **dict.fromkeys(("fsync", "fdatasync"), "sync"),
    **dict.fromkeys(("sync", "syncfs"), "syncall"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("link", "linkat"), "link"),
    **dict.fromkeys(("symlink", "symlinkat"), "symlink"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), "remove"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    "close": "close",
    "lseek": "seek",
}
"""What each call is to the follower."""
