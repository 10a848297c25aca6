"""Files below the root: Python's own text and buffer layers over a raw file whose operations can be struck.

The faults sit where the kernel's errors come in, so whether a full disk shows at the write, the flush or the close is
decided by Python's real buffering. An interrupted read, write or flush is tried again, as Python does by itself (PEP 475);
a writer that calls the functions of `os` sees the InterruptedError. Only `flush` is a hook of the buffer itself; it counts when bytes are waiting, since
flushing an empty buffer asks nothing of the system and cannot fail.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from fault_injection.mechanisms.guard import current
from fault_injection.mechanisms.layer import Layer, Opened
from fault_injection.mechanisms.originals import FileIO


class _SameAsFileIO(ABCMeta):
    """While armed the name `io.FileIO` stands for `RawFile`: checks against it must hold for every raw file."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, FileIO) if cls is RawFile else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, FileIO) if cls is RawFile else super().__subclasscheck__(subclass)


class RawFile(FileIO, metaclass=_SameAsFileIO):
    """A raw file whose operations are counted and struck while the trial that opened it is armed."""

    _layer: Layer | None = None
    _opened: Opened | None = None
    _collected = False

    def __init__(
        self,
        file: Any,
        mode: str = "r",
        closefd: bool = True,  # noqa: FBT001, FBT002, RUF100
        opener: Callable[[str, int], int] | None = None,
    ) -> None:
        layer = current()
        if layer is None:
            super().__init__(file, mode, closefd, opener)
            return
        self._layer = layer
        if isinstance(file, int):
            super().__init__(file, mode, closefd, opener)
            self._opened = layer.opened(file)
            return
        path = None if opener else layer.locate(file, follow=True)
        if path is None:
            super().__init__(file, mode, closefd, opener)
            self._opened = layer.opened(self.fileno()) if opener else None
            return
        writes = mode.strip("b") != "r"
        fresh = mode[:1] not in {"r", "b"} and layer.ledger.absent(path)
        layer.strike("open", path, names=(file,))
        super().__init__(file, mode, closefd)
        self._opened = layer.register(self.fileno(), path, fresh=fresh, writes=writes, appends="a" in mode)

    @property
    def watched(self) -> Layer | None:
        """The layer that counts this file's operations, or None when it is a plain file (any more)."""
        layer = self._layer
        return (
            None if layer is None or self._opened is None or not layer.active or current() is None else layer
        )

    @property
    def collected(self) -> bool:
        """Whether the garbage collector is closing the file."""
        return self._collected or self._finalizing  # type: ignore[attr-defined, no-any-return]

    def write(self, data: Any, /) -> int:
        """Write bytes; may take fewer than given."""
        layer, opened = self.watched, self._opened
        if layer is None or opened is None:
            return super().write(data)
        view = memoryview(data).cast("B")

        def put(count: int) -> int | None:
            return FileIO.write(self, view[:count])

        try:
            return layer.write(  # type: ignore[return-value]
                opened, self.fileno(), view.nbytes, put, collected=self.collected
            )
        except BaseException as error:
            if self.collected and hasattr(error, "injected"):
                # Nobody is there to be told: as in reality, the bytes are lost without a word.
                return view.nbytes
            raise

    def readinto(self, buffer: Any, /) -> int:
        """Read bytes into a buffer."""
        self._strike("read", memoryview(buffer).nbytes)
        return super().readinto(buffer)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to so many bytes."""
        if size is None or size < 0:
            return self.readall()
        self._strike("read", size)
        return super().read(size)

    def readall(self) -> bytes:
        """Read to the end."""
        self._strike("read", 0)
        return super().readall()

    def truncate(self, size: int | None = None, /) -> int:
        """Cut or extend the file."""
        layer, opened = self.watched, self._opened
        if layer is None or opened is None:
            return super().truncate(size)
        layer.strike("truncate", opened.path, size=self.tell() if size is None else size)
        result = super().truncate(size)
        layer.ledger.resized(opened.inode, result)
        if layer.recorder is not None:
            layer.recorder.resized(opened.inode, result)
        return result

    def close(self) -> None:
        """Close the descriptor; as on Linux it is closed even when an error is raised."""
        layer = self.watched
        if self.closed or layer is None or not self.closefd or self.collected:
            if layer is not None and not self.closed and self.closefd:
                layer.forget(self.fileno())
            super().close()
            return
        try:
            self._strike("close")
        finally:
            layer.forget(self.fileno())
            super().close()

    def _strike(self, kind: str, size: int = 0) -> None:
        layer, opened = self.watched, self._opened
        if layer is not None and opened is not None and not self.collected:
            layer.strike(kind, opened.path, size=size)

    def _dealloc_warn(self, source: object) -> None:
        # Python calls this first when it collects a file that was not closed, whichever of the stacked objects goes first.
        self._collected = True
        super()._dealloc_warn(source)  # type: ignore[misc]


def _strike_flush(buffer: io.BufferedWriter | io.BufferedRandom) -> None:
    raw = buffer.raw
    if not isinstance(raw, RawFile) or raw.closed or raw.watched is None or raw.collected:
        return
    try:
        waiting = buffer.tell() > raw.tell()
    except OSError:
        waiting = True
    if waiting:
        raw._strike("flush")  # noqa: SLF001, RUF100


class WatchedWriter(io.BufferedWriter):
    """Python's buffer for writing, with the operation `flush`."""

    def flush(self) -> None:
        """Hand over what is waiting; a fault comes before, and the bytes keep waiting."""
        _strike_flush(self)
        super().flush()


class WatchedRandom(io.BufferedRandom):
    """Python's buffer for reading and writing, with the operation `flush`."""

    def flush(self) -> None:
        """Hand over what is waiting; a fault comes before, and the bytes keep waiting."""
        _strike_flush(self)
        super().flush()


def open_below(
    layer: Layer,
    real: Callable[..., Any],
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,  # noqa: FBT001, FBT002, RUF100
    opener: Callable[[str, int], int] | None = None,
) -> Any:
    """`open` for the armed trial: the usual stack over a `RawFile` below the root, the real call elsewhere."""
    text = "b" not in mode if isinstance(mode, str) else False
    if (
        not _is_valid(mode, buffering, text=text, extra=(encoding, errors, newline))
        or (opener is None and layer.locate(file, follow=True) is None)
        or (not closefd and not isinstance(file, int))
    ):
        return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if text and encoding is None and sys.flags.warn_default_encoding:
        warnings.warn("'encoding' argument not specified", EncodingWarning, stacklevel=3)
        encoding = "locale"
    if buffering == 1 and not text:
        message = "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        buffering = -1
    name = os.fspath(file) if isinstance(file, os.PathLike) else file
    raw = RawFile(name, mode.replace("b", "").replace("t", ""), closefd, opener)
    result: Any = raw
    try:
        lines = buffering == 1 or (buffering < 0 and raw.isatty())
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else getattr(raw, "_blksize", 0)
        buffer = _buffer_for(mode)
        result = buffer(raw, size if size > 1 else io.DEFAULT_BUFFER_SIZE)
        if text:
            result = io.TextIOWrapper(result, encoding, errors, newline, lines)
            result.mode = mode
        return result
    except BaseException:
        result.close()
        raise


def _is_valid(mode: Any, buffering: Any, *, text: bool, extra: tuple[str | None, ...]) -> bool:
    # What `open` itself refuses is left to it, so that the error is its own.
    if not isinstance(mode, str) or not isinstance(buffering, int) or len(set(mode)) != len(mode):
        return False
    if set(mode) - set("rwaxbt+") or len(set(mode) & set("rwax")) != 1 or {"b", "t"} <= set(mode):
        return False
    return buffering != 0 if text else not any(part is not None for part in extra)


def _buffer_for(mode: str) -> Any:
    if "+" in mode:
        return WatchedRandom
    return io.BufferedReader if "r" in mode else WatchedWriter
