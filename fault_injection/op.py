"""Operations: what a writer does to the file system, and the points at which a fault can strike."""

from __future__ import annotations

from dataclasses import dataclass

OPS: dict[str, str] = {
    "mkdir": "a directory is made",
    "open": "a file or directory is opened (also by mkstemp)",
    "read": "bytes are read from an open file",
    "write": "bytes reach the operating system (the raw write under Python's buffer)",
    "flush": "a buffered file is flushed, explicitly or by its close",
    "fsync": "a file's data is forced to the disk",
    "fsyncdir": "a directory's entries are forced to the disk",
    "truncate": "a file is cut or extended",
    "close": "a file descriptor is closed",
    "rename": "a name is moved (rename, replace)",
    "link": "a second name is made (link, symlink)",
    "unlink": "a name is removed",
    "rmdir": "a directory is removed",
    "thread": "a thread is started",
}
"""Every kind of operation and what it means; plans name them by these words."""

RETRIED = frozenset({"open", "read", "write", "flush", "fsync", "fsyncdir", "truncate"})
"""Operations that Python tries again by itself when a signal has interrupted them (PEP 475): EINTR is never raised."""


@dataclass(frozen=True)
class Op:
    """One operation on one path below the root of a trial.

    Args:
        kind: one of the keys of `OPS`.
        path: the path relative to the root, with forward slashes; empty for `thread`.
        target: the second path of `rename` and `link`, relative to the root.
        size: bytes asked for (`write`, `read`, `truncate`), otherwise 0.
        caller: whether the thread that made the call under test performs the operation.
    """

    kind: str
    path: str
    target: str = ""
    size: int = 0
    caller: bool = False

    def __str__(self) -> str:
        where = f"{self.path} -> {self.target}" if self.target else self.path
        return f"{self.kind}({where}, {self.size} bytes)" if self.size else f"{self.kind}({where})"
