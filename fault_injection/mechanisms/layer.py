"""The armed trial: counts every operation below the root and makes real what strikes it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from fault_injection.fault import Fault
from fault_injection.injector import Injector
from fault_injection.mechanisms.guard import GUARD, bypass
from fault_injection.mechanisms.ledger import Ledger
from fault_injection.mechanisms.paths import Root, path_of_descriptor
from fault_injection.op import RETRIED, Op

if TYPE_CHECKING:
    from fault_injection.crash.record import Recorder


@dataclass(frozen=True)
class Opened:
    """An open descriptor of a file or directory below the root.

    Args:
        path: where it was opened, relative to the root.
        inode: the file's number.
        is_dir: whether it is a directory.
        appends: whether each write goes to the end.
    """

    path: str
    inode: int
    is_dir: bool = False
    appends: bool = False


class Layer:
    """What stands between the process and the file system during one trial.

    Args:
        root: the directory below which operations count.
        injector: decides what strikes.
    """

    def __init__(self, root: str, injector: Injector) -> None:
        rules = injector.plan.rules
        self.active = True
        self.injector = injector
        self.recorder: Recorder | None = None
        self.root = Root(root)
        self.ledger = Ledger(self.root.real, keep_synced=any(rule.fault.name == "lost" for rule in rules))
        self._sums_bytes = any(rule.op == "bytes" for rule in rules)
        self._caller = threading.get_ident()
        self._opened: dict[int, Opened | None] = {}

    def locate(self, path: Any, dir_fd: int | None = None, *, follow: bool = False) -> str | None:
        """Where a path lies below the root, or None when it does not; `dir_fd` as in the functions of `os`."""
        if isinstance(path, int):
            opened = self.opened(path)
            return opened.path if opened else None
        if dir_fd is None:
            return self.root.locate(path, follow=follow)
        folder = self.opened(dir_fd)
        base = self.root.absolute(folder.path) if folder else path_of_descriptor(dir_fd)
        return self.root.locate(path, base, follow=follow) if base else None

    def opened(self, fd: Any) -> Opened | None:
        """What a descriptor (or an object with `fileno`) has open, or None when it lies outside the root."""
        number = fd if isinstance(fd, int) else fd.fileno()
        if number not in self._opened:
            path = path_of_descriptor(number)
            where = None if path is None else self.root.locate(path)
            self._opened[number] = None if where is None else _opened(where, os.fstat(number))
        known = self._opened[number]
        if known is None:
            return None
        try:
            status = os.fstat(number)
        except OSError:
            return None
        if status.st_ino != known.inode:
            # C code closed the descriptor, and the number now stands for something else.
            del self._opened[number]
            return self.opened(number)
        return known

    def register(self, fd: int, path: str, *, fresh: bool, writes: bool, appends: bool) -> Opened:
        """Note a descriptor that was just opened; `fresh` when that made the file, `writes` when it can be written to."""
        status = os.fstat(fd)
        opened = self._opened[fd] = _opened(path, status, appends=appends)
        self.ledger.opened(path, status, fd, fresh=fresh, writes=writes)
        if self.recorder is not None:
            self.recorder.opened(path, status, fresh=fresh)
        return opened

    def copy(self, fd: int, copy: int) -> None:
        """Note that a descriptor was duplicated."""
        self._opened[copy] = self.opened(fd)

    def forget(self, fd: int) -> None:
        """Note that a descriptor is closed."""
        self._opened.pop(fd, None)

    def below(self, low: int, high: int) -> list[int]:
        """The known descriptors in a range that lie below the root."""
        return sorted(fd for fd, opened in list(self._opened.items()) if opened and low <= fd < high)

    def strike(
        self,
        kind: str,
        path: str,
        *,
        target: str = "",
        size: int = 0,
        total: int = 0,
        names: tuple[Any, ...] = (),
        lose: Callable[[], None] | None = None,
        put: Callable[[int], int | None] | None = None,
        collected: bool = False,
    ) -> int:
        """Count one operation that is about to happen and make its fault real.

        Args:
            kind: the kind of operation.
            path: where, relative to the root.
            target: the second path.
            size: the bytes asked for.
            total: the bytes below the root if the whole write succeeds.
            names: the paths as the caller gave them, for the error.
            lose: brings the file back to its last sync.
            put: writes that many of the bytes.
            collected: whether the garbage collector closes the file: nobody calls, and nothing may wait.

        Returns:
            How many bytes the operation may take, -1 for all of them.
        """
        op = Op(kind, path, target, size, caller=not collected and threading.get_ident() == self._caller)
        # Not `bypass`: this runs at every operation, and a generator would double its cost.
        GUARD.depth += 1
        try:
            strike = self.injector.strike(op, total)
        finally:
            GUARD.depth -= 1
        fault = strike.fault
        if fault is None:
            return -1
        if strike.room > 0:
            return strike.room
        if fault.name == "short":
            # The kernel never answers 0 to a write of some bytes to a file, and Python's buffer would ask for ever.
            return max(int(fault.amount), 1)
        if fault.name in {"slow", "stuck"}:
            if not collected:
                self.injector.gate.wait(fault.amount / 1000 if fault.name == "slow" else None)
        elif fault.name in {"vanish", "replace"}:
            self._remove_folder(op, again=fault.name == "replace")
        elif fault.name in {"kill", "torn"}:
            if fault.name == "torn" and put is not None:
                put(size // 2)
            kill()
        elif not (fault.name == "EINTR" and kind in RETRIED):
            if fault.name == "lost" and lose is not None:
                lose()
            raise _error(strike.number, fault, names)
        return -1

    def write(
        self,
        opened: Opened,
        fd: int,
        size: int,
        put: Callable[[int], int | None],
        *,
        offset: int = -1,
        collected: bool = False,
    ) -> int | None:
        """Write bytes to an open file: strike, then let `put` write as many as may be written.

        Args:
            opened: the file.
            fd: its descriptor.
            size: the number of bytes.
            put: writes that many of them and returns how many were taken.
            offset: where they go, -1 for the descriptor's position.
            collected: as in `strike`.

        Returns:
            How many bytes were taken (None when the descriptor would block).
        """
        total = self._total(opened, fd, size, offset) if self._sums_bytes else 0
        limit = self.strike("write", opened.path, size=size, total=total, put=put, collected=collected)
        done = put(size if limit < 0 else min(limit, size))
        if done and self.active:
            self.ledger.wrote(opened.inode, fd, done, anywhere=offset >= 0)
            if self.recorder is not None:
                self.recorder.wrote(opened.inode, fd, done, -2 if opened.appends else offset)
        return done

    def sync(self, opened: Opened, fd: int, call: Callable[[], Any]) -> Any:
        """Force a file or a directory to the disk through `call`."""
        if opened.is_dir:
            self.strike("fsyncdir", opened.path)
            result = call()
        else:
            self.strike("fsync", opened.path, lose=lambda: self._lose(opened, fd))
            result = call()
            self.ledger.synced(opened.inode, fd)
        if self.recorder is not None:
            self.recorder.synced(opened.inode)
        return result

    def _lose(self, opened: Opened, fd: int) -> None:
        self.ledger.lose(opened.inode, fd)
        if self.recorder is not None:
            self.recorder.lost(opened.inode)

    def _total(self, opened: Opened, fd: int, size: int, offset: int) -> int:
        if offset < 0:
            offset = os.fstat(fd).st_size if opened.appends else os.lseek(fd, 0, os.SEEK_CUR)
        return self.ledger.total(opened.inode, offset + size)

    def _remove_folder(self, op: Op, *, again: bool) -> None:
        path = op.target if op.path.startswith("../") else op.path
        folder = path
        if not os.path.isdir(self.root.absolute(path)) or os.path.islink(self.root.absolute(path)):
            folder = path.rpartition("/")[0] or "."
        with bypass():
            shutil.rmtree(self.root.absolute(folder), ignore_errors=True)
            if again:
                os.makedirs(self.root.absolute(folder))
        self.ledger.vanished(folder)
        self.root.forget()


def kill() -> NoReturn:
    """End the process at once, as the kernel's out-of-memory killer does: no handler, no buffer, no exit hook runs."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    raise SystemExit(f"process {os.getpid()} outlived its kill")


def _opened(path: str, status: os.stat_result, *, appends: bool = False) -> Opened:
    return Opened(path, status.st_ino, stat.S_ISDIR(status.st_mode), appends)


def _error(number: int, fault: Fault, names: tuple[Any, ...]) -> BaseException:
    error: Any
    if fault.kind.errno:
        files = [os.fspath(name) if isinstance(name, os.PathLike) else name for name in names]
        if len(files) == 2:
            files.insert(1, None)  # OSError wants Windows' error number between the two paths
        error = OSError(fault.kind.errno, os.strerror(fault.kind.errno), *files)
    elif fault.name == "MemoryError":
        error = MemoryError()
    elif fault.name == "SystemExit":
        error = SystemExit(1)
    else:
        error = RuntimeError("can't start new thread")
    error.injected = number
    return error  # type: ignore[no-any-return]
