"""Decides over the file system calls of a child as the fault layer decides over Python's: one plan, one injector."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable

from fault_injection.injector import Injector, Strike
from fault_injection.mechanisms.kernel import notify
from fault_injection.mechanisms.kernel.notify import Asked
from fault_injection.mechanisms.ledger import files_below
from fault_injection.mechanisms.paths import Root
from fault_injection.op import Op
from fault_injection.plan import Plan

_HERE = -100
_LISTING = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NONBLOCK", 0)
_BY_DESCRIPTOR = {
    "read": "read", "pread64": "read", "readv": "read", "preadv": "read",
    "write": "write", "pwrite64": "write", "writev": "write", "pwritev": "write", "sendfile": "write",
    "fsync": "fsync", "fdatasync": "fsync", "ftruncate": "truncate", "fallocate": "truncate", "close": "close",
}  # fmt: skip
_BY_NAME: dict[str, tuple[str, tuple[int, ...]]] = {
    # The positions of a directory's descriptor (-1 for none) and of the path, once or twice.
    "open": ("open", (-1, 0)), "creat": ("open", (-1, 0)), "openat": ("open", (0, 1)), "openat2": ("open", (0, 1)),
    "mkdir": ("mkdir", (-1, 0)), "mkdirat": ("mkdir", (0, 1)), "rmdir": ("rmdir", (-1, 0)), "truncate": ("truncate", (-1, 0)),
    "unlink": ("unlink", (-1, 0)), "unlinkat": ("unlink", (0, 1)),
    "rename": ("rename", (-1, 0, -1, 1)), "renameat": ("rename", (0, 1, 2, 3)), "renameat2": ("rename", (0, 1, 2, 3)),
    "link": ("link", (-1, 0, -1, 1)), "linkat": ("link", (0, 1, 2, 3)),
    "symlink": ("link", (-1, 1)), "symlinkat": ("link", (1, 2)),
}  # fmt: skip
_SIZED = frozenset({"read", "write", "pread64", "pwrite64"})


class Supervisor:
    """Answers the questions of one child.

    Args:
        child: its process.
        root: the directory below which operations count.
        plan: what fails.
        observe: called with each operation and its strike before it happens.
    """

    def __init__(
        self, child: int, root: str, plan: Plan, observe: Callable[[Op, Strike], None] | None = None
    ) -> None:
        self.injector = Injector(plan, observe)
        self.killed = False
        self._child = child
        self._root = Root(root)
        self._sums = any(rule.op == "bytes" for rule in plan.rules)

    def answer(self, listener: int) -> None:
        """Take one question and answer it."""
        asked = notify.receive(listener)
        if asked is None:
            return
        try:
            op = self._operation(asked)
        except OSError:
            # The thread is gone, or what it asked about is: the real call says so best.
            op = None
        if op is None:
            notify.answer(listener, asked)
            return
        total = self._total(asked, op) if self._sums and op.kind == "write" else 0
        self._carry_out(listener, asked, op, self.injector.strike(op, total))

    def _carry_out(self, listener: int, asked: Asked, op: Op, strike: Strike) -> None:
        fault = strike.fault
        if fault is None:
            notify.answer(listener, asked)
        elif strike.room > 0 or fault.name == "short":
            most = strike.room if strike.room > 0 else max(int(fault.amount), 1)
            self._write_part(listener, asked, min(most, op.size))
        elif fault.name == "slow":
            time.sleep(fault.amount / 1000)
            notify.answer(listener, asked)
        elif fault.name in {"kill", "torn"}:
            if fault.name == "torn":
                self._write_part(listener, asked, op.size // 2, tell=False)
            self.killed = True
            os.kill(self._child, signal.SIGKILL)
        elif fault.name in {"vanish", "replace"}:
            self._remove_folder(op, again=fault.name == "replace")
            notify.answer(listener, asked)
        else:
            notify.answer(listener, asked, error=fault.kind.errno)

    def _write_part(self, listener: int, asked: Asked, count: int, *, tell: bool = True) -> None:
        if asked.name not in {"write", "pwrite64"}:
            # The others name their bytes by a list, or by another descriptor; they are let through whole.
            if tell:
                notify.answer(listener, asked)
            return
        fd, address, _, offset, *_ = asked.arguments
        try:
            data = notify.bytes_at(asked.thread, address, count)
            mine = notify.descriptor_of(asked.thread, fd)
        except OSError:
            # The thread is gone, and its call with it.
            return
        try:
            done = os.pwrite(mine, data, offset) if asked.name == "pwrite64" else os.write(mine, data)
        except OSError as error:
            if tell:
                notify.answer(listener, asked, error=error.errno or errno.EIO)
            return
        finally:
            os.close(mine)
        if tell:
            notify.answer(listener, asked, value=done)

    def _operation(self, asked: Asked) -> Op | None:
        if asked.name in _BY_DESCRIPTOR:
            return self._on_descriptor(asked)
        kind, places = _BY_NAME[asked.name]
        paths = [
            self._located(asked, places[i], places[i + 1], follow=kind in {"open", "truncate"})
            for i in range(0, len(places), 2)
        ]
        if not any(paths) or (kind == "link" and len(paths) == 2 and paths[1] is None):
            return None
        if kind == "open" and self._lists(asked):
            return None
        if asked.name == "unlinkat" and asked.arguments[2] & 0x200:
            kind = "rmdir"
        if len(paths) == 2:
            texts = [
                path or self._root.outside(self._path(asked, places[2 * i], places[2 * i + 1]))
                for i, path in enumerate(paths)
            ]
            return self._op(asked, kind, texts[0], texts[1])
        if kind == "link":
            return self._op(asked, kind, "", paths[0] or "")
        return self._op(asked, kind, paths[0] or "")

    def _on_descriptor(self, asked: Asked) -> Op | None:
        kind, fd = _BY_DESCRIPTOR[asked.name], asked.arguments[0]
        path = os.readlink(f"/proc/{asked.thread}/fd/{fd}")
        deleted = " (deleted)"
        where = self._root.locate(path.removesuffix(deleted)) if path.startswith("/") else None
        if where is None:
            return None
        if stat.S_ISDIR(os.stat(f"/proc/{asked.thread}/fd/{fd}").st_mode):
            if self._is_listed(asked.thread, fd) or kind not in {"fsync", "close"}:
                return None
            kind = "fsyncdir" if kind == "fsync" else kind
        return self._op(asked, kind, where, size=asked.arguments[2] if asked.name in _SIZED else 0)

    def _op(self, asked: Asked, kind: str, path: str, target: str = "", size: int = 0) -> Op:
        return Op(kind, path, target, size, caller=asked.thread == self._child)

    def _located(self, asked: Asked, folder: int, place: int, *, follow: bool) -> str | None:
        return self._root.locate(self._path(asked, folder, place), follow=follow)

    def _path(self, asked: Asked, folder: int, place: int) -> str:
        path = notify.text_at(asked.thread, asked.arguments[place])
        if os.path.isabs(path):
            return path
        number = _HERE if folder < 0 else _signed(asked.arguments[folder])
        base = f"/proc/{asked.thread}/cwd" if number == _HERE else f"/proc/{asked.thread}/fd/{number}"
        return os.path.join(os.readlink(base), path)

    def _lists(self, asked: Asked) -> bool:
        """Whether a directory is opened to be listed, which is no operation of the catalogue."""
        flags = {"open": asked.arguments[1], "openat": asked.arguments[2]}.get(asked.name, 0)
        return flags & _LISTING == _LISTING

    def _is_listed(self, thread: int, fd: int) -> bool:
        with open(f"/proc/{thread}/fdinfo/{fd}", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        return int(fields["flags"], 8) & _LISTING == _LISTING

    def _total(self, asked: Asked, op: Op) -> int:
        """The bytes below the root if the whole write succeeds."""
        where = f"/proc/{asked.thread}/fd/{asked.arguments[0]}"
        status = os.stat(where)
        with open(f"/proc/{asked.thread}/fdinfo/{asked.arguments[0]}", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        at = asked.arguments[3] if asked.name.startswith("pwrite") else int(fields["pos"])
        if int(fields["flags"], 8) & os.O_APPEND:
            at = status.st_size
        sizes = {each.st_ino: each.st_size for _, each in files_below(self._root.real)}
        sizes[status.st_ino] = max(status.st_size, at + op.size)
        return sum(sizes.values())

    def _remove_folder(self, op: Op, *, again: bool) -> None:
        path = self._root.absolute(op.target if op.path.startswith("../") else op.path)
        folder = path if os.path.isdir(path) and not os.path.islink(path) else os.path.dirname(path)
        shutil.rmtree(folder, ignore_errors=True)
        if again:
            os.makedirs(folder, exist_ok=True)
        self._root.forget()


def _signed(value: int) -> int:
    """The low half of a register, as the signed number that it stands for."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
