"""The catalogue of faults: what each does, where it can strike, and which mechanisms make it real."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from fault_injection.op import OPS

FILE_OPS = frozenset(OPS) - {"thread"}
"""Every operation on the file system."""


@dataclass(frozen=True)
class FaultKind:
    """One named kind of fault.

    Args:
        name: its name in plans.
        ops: the operations it applies to.
        mechanisms: the mechanisms that make it real (`memory`, `disk`, `kernel`).
        meaning: one sentence on what happens.
        parameter: what the text in parentheses means (`bytes`, `time`), or empty for none.
        errno: the error number that is raised, 0 for none.
    """

    name: str
    ops: frozenset[str]
    mechanisms: frozenset[str]
    meaning: str
    parameter: str = ""
    errno: int = 0


_DISK = frozenset({"disk"})
_REAL = frozenset({"disk", "kernel"})
_ALL = frozenset({"disk", "kernel", "memory"})

_ERRNO_MEANINGS = {
    "ENOSPC": "no space left on the device",
    "EDQUOT": "the quota is used up",
    "EFBIG": "the file would grow over its limit",
    "EACCES": "permission denied",
    "EPERM": "the operation is not permitted, even to root (immutable file)",
    "EROFS": "the file system is read-only",
    "EIO": "the device failed",
    "EMFILE": "the process has no free file descriptor",
    "ENFILE": "the system has no free file descriptor",
    "ENOENT": "the path is gone",
    "ENOTDIR": "a component of the path is no directory",
    "EISDIR": "the path is a directory",
    "ENAMETOOLONG": "the name is too long",
    "ELOOP": "too many symbolic links",
    "ESTALE": "the network file system lost the file's handle",
    "EINTR": "a signal interrupted the call; Python tries opens, reads, writes and syncs again by itself (PEP 475)",
    "ENOMEM": "the kernel is out of memory",
    "ETIMEDOUT": "the network file system timed out",
}


def _errno_kinds() -> list[FaultKind]:
    kinds = []
    for name, meaning in _ERRNO_MEANINGS.items():
        number = getattr(errno, name, 0)
        # A platform without the number (EDQUOT and ESTALE on Windows) does not have the fault.
        if number:
            mechanisms = _ALL if name in {"ENOSPC", "EACCES"} else _REAL
            kinds.append(FaultKind(name, FILE_OPS, mechanisms, meaning, errno=number))
    return kinds


_SHAPES = [
    FaultKind(
        "short",
        frozenset({"write"}),
        _REAL,
        "only the first bytes are taken and their number returned",
        "bytes",
    ),
    FaultKind("slow", FILE_OPS, _REAL, "the operation waits before it goes on", "time"),
    FaultKind("stuck", FILE_OPS, _DISK, "the operation waits until the test opens the gate"),
    FaultKind(
        "lost",
        frozenset({"fsync"}),
        _DISK,
        "the sync fails with EIO, the unsynced bytes are gone, and later syncs succeed (fsync study, ATC 2020)",
        errno=errno.EIO,
    ),
    FaultKind("vanish", FILE_OPS - {"mkdir"}, _REAL, "the dump directory is removed just before"),
    FaultKind("replace", FILE_OPS - {"mkdir"}, _REAL, "the dump directory is replaced by an empty one"),
]

_CRASHES = [
    FaultKind("kill", FILE_OPS, _REAL, "the process is killed (SIGKILL) just before the operation"),
    FaultKind(
        "torn", frozenset({"write"}), _REAL, "half of the bytes are written, then the process is killed"
    ),
]

_DEATHS = [
    FaultKind("MemoryError", frozenset(OPS), _DISK, "the interpreter is out of memory"),
    FaultKind("SystemExit", FILE_OPS, _DISK, "something called sys.exit in the worker"),
    FaultKind("RuntimeError", frozenset({"thread"}), _DISK, "no new thread can be started"),
]

CATALOGUE: dict[str, FaultKind] = {k.name: k for k in [*_errno_kinds(), *_SHAPES, *_CRASHES, *_DEATHS]}
"""Every fault by name."""

ERRNO_FAULTS: tuple[str, ...] = tuple(k.name for k in _errno_kinds())
"""The names of the faults that raise `OSError` with that error number."""


@dataclass(frozen=True)
class Fault:
    """One fault of the catalogue with its parameter.

    Args:
        name: a key of `CATALOGUE`.
        amount: bytes for `short`, milliseconds for `slow`, otherwise 0.
    """

    name: str
    amount: float = 0

    @property
    def kind(self) -> FaultKind:
        """The catalogue's entry."""
        return CATALOGUE[self.name]

    def __str__(self) -> str:
        if self.kind.parameter == "bytes":
            return f"{self.name}({int(self.amount)})"
        if self.kind.parameter == "time":
            return f"{self.name}({repr(float(self.amount)).removesuffix('.0')}ms)"
        return self.name

    __repr__ = __str__


_LONGEST = 1e12
"""Milliseconds; beyond, no system can wait."""
_SECONDS = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(ms|s)")


def parse_fault(text: str) -> Fault:
    """Read a fault from its text.

    Args:
        text: for example `ENOSPC`, `short(7)`, `slow(50ms)`.

    Returns:
        The fault.

    Raises:
        ValueError: the text names no fault or has a wrong parameter; the message says which.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([^()]*?)\s*\))?\s*", text)
    if not match:
        raise ValueError(f"{text.strip()!r} is no fault; write a name such as ENOSPC, short(7) or slow(50ms)")
    name, argument = match.groups()
    kind = CATALOGUE.get(name)
    if kind is None:
        raise ValueError(f"unknown fault {name!r}; the faults are {', '.join(CATALOGUE)}")
    if not kind.parameter:
        if argument:
            raise ValueError(f"fault {name} takes no parameter, but {argument!r} was given")
        return Fault(name)
    if kind.parameter == "bytes":
        if not (argument and argument.isascii() and argument.isdigit()):
            raise ValueError(f"fault {name} needs a number of bytes, such as {name}(7)")
        return Fault(name, int(argument))
    seconds = _SECONDS.fullmatch(argument or "")
    if not seconds:
        raise ValueError(f"fault {name} needs a time, such as {name}(50ms) or {name}(2s)")
    amount = float(seconds[1]) * (1 if seconds[2] == "ms" else 1000)
    if amount > _LONGEST:
        raise ValueError(f"fault {name} waits for 30 years at most, not {argument}")
    return Fault(name, amount)
