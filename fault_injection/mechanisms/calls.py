"""What takes the place of the functions of `os` while a trial is armed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from fault_injection.mechanisms.guard import current
from fault_injection.mechanisms.layer import Layer
from fault_injection.mechanisms.originals import OS, THREAD
from fault_injection.mechanisms.originals import open as real_open
from fault_injection.mechanisms.rawfile import open_below

Real = Callable[..., Any]
Body = Callable[..., Any]
"""A body takes the armed layer, the real function, and the arguments of the call."""


class Call:
    """Stands for one real function: calls it unless a trial is armed, then runs its body.

    It is no descriptor, as a built-in function is none: as an attribute of a class it does not become a method.
    """

    def __init__(self, real: Real, body: Body) -> None:
        self.real = real
        self.body = body
        self.__name__ = real.__name__
        self.__qualname__ = real.__qualname__
        self.__module__ = real.__module__
        self.__doc__ = real.__doc__
        self.__wrapped__ = real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the real function, counted and struck when a trial is armed."""
        layer = current()
        if layer is None:
            return self.real(*args, **kwargs)
        return self.body(layer, self.real, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<watched {self.real!r}>"


def _open(
    layer: Layer, real: Real, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
) -> int:
    where = layer.locate(path, dir_fd, follow=True)
    if where is None:
        fd: int = real(path, flags, mode, dir_fd=dir_fd)
        layer.forget(fd)
        return fd
    fresh = bool(flags & os.O_CREAT) and layer.ledger.absent(where)
    layer.strike("open", where, names=(path,))
    fd = real(path, flags, mode, dir_fd=dir_fd)
    writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
    layer.register(fd, where, fresh=fresh, writes=writes, appends=bool(flags & os.O_APPEND))
    return fd


def _close(layer: Layer, real: Real, fd: int) -> None:
    opened = layer.opened(fd)
    try:
        if opened is not None:
            layer.strike("close", opened.path)
    except BaseException:
        # Linux has let go of the descriptor by the time close reports an error.
        real(fd)
        raise
    finally:
        layer.forget(fd)
    real(fd)


def _closerange(layer: Layer, real: Real, low: int, high: int) -> None:
    for fd in layer.below(low, high):
        opened = layer.opened(fd)
        if opened is not None:
            with contextlib.suppress(OSError):  # as closerange itself does
                layer.strike("close", opened.path)
        layer.forget(fd)
    real(low, high)


def _dup(layer: Layer, real: Real, fd: int) -> int:
    copy: int = real(fd)
    layer.copy(fd, copy)
    return copy


def _dup2(layer: Layer, real: Real, fd: int, fd2: int, *args: Any, **kwargs: Any) -> int:
    copy: int = real(fd, fd2, *args, **kwargs)
    layer.copy(fd, copy)
    return copy


def _read(layer: Layer, real: Real, fd: int, what: Any, *args: Any) -> Any:
    opened = layer.opened(fd)
    if opened is not None:
        size = what if isinstance(what, int) else sum(memoryview(part).nbytes for part in what)
        layer.strike("read", opened.path, size=size)
    return real(fd, what, *args)


def _write(layer: Layer, real: Real, fd: int, data: Any, *args: Any) -> Any:
    opened = layer.opened(fd)
    if opened is None:
        return real(fd, data, *args)
    view = memoryview(data).cast("B")

    def put(count: int) -> Any:
        return real(fd, view[:count], *args)

    return layer.write(opened, fd, view.nbytes, put, offset=args[0] if args else -1)


def _writev(layer: Layer, real: Real, fd: int, buffers: Any, *args: Any) -> Any:
    opened = layer.opened(fd)
    if opened is None:
        return real(fd, buffers, *args)
    views = [memoryview(part).cast("B") for part in buffers]

    def put(count: int) -> Any:
        taken = []
        for view in views:
            taken.append(view[:count])
            count -= len(taken[-1])
        return real(fd, taken, *args)

    size = sum(view.nbytes for view in views)
    return layer.write(opened, fd, size, put, offset=args[0] if args else -1)


def _sendfile(
    layer: Layer, real: Real, out_fd: int, in_fd: int, offset: Any, count: int, *args: Any, **kwargs: Any
) -> Any:
    return _transfer(
        layer, in_fd, out_fd, offset, count, lambda n: real(out_fd, in_fd, offset, n, *args, **kwargs)
    )


def _copy_range(layer: Layer, real: Real, src: int, dst: int, count: int, *args: Any, **kwargs: Any) -> Any:
    offset = args[0] if args else kwargs.get("offset_src")
    return _transfer(layer, src, dst, offset, count, lambda n: real(src, dst, n, *args, **kwargs))


def _transfer(
    layer: Layer, source: int, target: int, offset: int | None, count: int, put: Callable[[int], Any]
) -> Any:
    read, written = layer.opened(source), layer.opened(target)
    with contextlib.suppress(OSError):  # a pipe has no position: the count stands as it was asked
        start = os.lseek(source, 0, os.SEEK_CUR) if offset is None else offset
        count = max(min(count, os.fstat(source).st_size - start), 0)
    if not count:
        return put(0)
    if read is not None:
        layer.strike("read", read.path, size=count)
    return put(count) if written is None else layer.write(written, target, count, put)


def _fsync(layer: Layer, real: Real, fd: Any) -> None:
    opened = layer.opened(fd)
    if opened is None:
        real(fd)
    else:
        layer.sync(opened, fd if isinstance(fd, int) else fd.fileno(), lambda: real(fd))


def _sync(layer: Layer, real: Real) -> None:
    # It cannot fail, so it is no operation that a fault could strike.
    real()
    if layer.recorder is not None:
        layer.recorder.synced_all()


def _truncate(layer: Layer, real: Real, path: Any, length: int) -> None:
    if isinstance(path, int):
        _ftruncate(layer, real, path, length)
        return
    where = layer.locate(path, follow=True)
    if where is not None:
        layer.strike("truncate", where, size=length, names=(path,))
    real(path, length)
    if where is not None:
        layer.ledger.resized_name(where)
        if layer.recorder is not None:
            status = os.stat(layer.root.absolute(where))
            layer.recorder.resized(status.st_ino, status.st_size)


def _ftruncate(layer: Layer, real: Real, fd: int, length: int) -> None:
    opened = layer.opened(fd)
    if opened is not None:
        layer.strike("truncate", opened.path, size=length)
    real(fd, length)
    if opened is not None:
        layer.ledger.resized(opened.inode, length)
        if layer.recorder is not None:
            layer.recorder.resized(opened.inode, length)


def _fallocate(layer: Layer, real: Real, fd: int, offset: int, length: int) -> None:
    opened = layer.opened(fd)
    if opened is not None:
        layer.strike("truncate", opened.path, size=offset + length)
    real(fd, offset, length)
    if opened is not None:
        layer.ledger.resized(opened.inode, os.fstat(fd).st_size)
        if layer.recorder is not None:
            layer.recorder.resized(opened.inode, os.fstat(fd).st_size)


def _on_name(kind: str) -> Body:
    def body(layer: Layer, real: Real, path: Any, *args: Any, **kwargs: Any) -> None:
        where = layer.locate(path, kwargs.get("dir_fd"))
        if where is not None:
            layer.strike(kind, where, names=(path,))
        real(path, *args, **kwargs)
        if where is not None and kind == "unlink":
            layer.ledger.removed(where)
        if where is not None and layer.recorder is not None:
            layer.recorder.made(where) if kind == "mkdir" else layer.recorder.removed(where)

    return body


def _rename(layer: Layer, real: Real, src: Any, dst: Any, **kwargs: Any) -> None:
    source = layer.locate(src, kwargs.get("src_dir_fd"))
    target = layer.locate(dst, kwargs.get("dst_dir_fd"))
    if source is None and target is None:
        real(src, dst, **kwargs)
        return
    path, second = source or layer.root.outside(src), target or layer.root.outside(dst)
    layer.strike("rename", path, target=second, names=(src, dst))
    real(src, dst, **kwargs)
    layer.root.forget()
    layer.ledger.renamed(source, target)
    if layer.recorder is not None:
        layer.recorder.renamed(source, target)


def _link(layer: Layer, real: Real, src: Any, dst: Any, **kwargs: Any) -> None:
    source = layer.locate(src, kwargs.get("src_dir_fd"))
    target = layer.locate(dst, kwargs.get("dst_dir_fd"))
    if target is not None:
        layer.strike("link", source or layer.root.outside(src), target=target, names=(src, dst))
    real(src, dst, **kwargs)
    if target is not None:
        layer.ledger.linked(source, target)
        if layer.recorder is not None:
            layer.recorder.linked(target)


def _symlink(layer: Layer, real: Real, src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
    target = layer.locate(dst, kwargs.get("dir_fd"))
    if target is not None:
        folder = os.path.dirname(layer.root.absolute(target))
        source = os.path.join(folder, os.fsdecode(src))
        inside = layer.root.locate(source)
        layer.strike("link", inside or layer.root.outside(source), target=target, names=(src, dst))
    real(src, dst, *args, **kwargs)
    if target is not None:
        layer.root.forget()
        layer.ledger.linked(None, target)
        if layer.recorder is not None:
            layer.recorder.symlinked(target, inside)


def _start_thread(layer: Layer, real: Real, *args: Any, **kwargs: Any) -> Any:
    layer.strike("thread", "")
    return real(*args, **kwargs)


_BODIES: dict[str, Body] = {
    "open": _open, "close": _close, "closerange": _closerange, "dup": _dup, "dup2": _dup2,
    "read": _read, "pread": _read, "readv": _read, "preadv": _read,
    "write": _write, "pwrite": _write, "writev": _writev, "pwritev": _writev,
    "sendfile": _sendfile, "copy_file_range": _copy_range, "splice": _copy_range,
    "fsync": _fsync, "fdatasync": _fsync, "sync": _sync,
    "truncate": _truncate, "ftruncate": _ftruncate, "posix_fallocate": _fallocate,
    "mkdir": _on_name("mkdir"), "unlink": _on_name("unlink"), "remove": _on_name("unlink"), "rmdir": _on_name("rmdir"),
    "rename": _rename, "replace": _rename, "link": _link, "symlink": _symlink,
}  # fmt: skip

CALLS: dict[str, Call] = {name: Call(real, _BODIES[name]) for name, real in OS.items()}
"""For each function of `os` what takes its place."""

OPEN = Call(real_open, open_below)
"""What takes the place of `open`."""

THREAD_CALLS: dict[str, Call] = {name: Call(real, _start_thread) for name, real in THREAD.items()}
"""For each way to start a thread what takes its place."""
