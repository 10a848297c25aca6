"""Publishing a file: complete under its final name at every instant, and synced before it is called done."""

from __future__ import annotations

import contextlib
import errno
import itertools
import operator
import os
import platform
import re
from typing import TYPE_CHECKING, Literal, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SameStep = Literal["merge", "error", "replace"]
_LEFTOVER = re.compile(r"\.-?\d+\.jsonl\.(?P<host>[A-Za-z0-9._]+)-(?P<pid>\d+)-\d+\.tmp")
_NUMBERS = itertools.count()
_OPENED: set[str] = set()  # the temporary files of this process, of all publishers
_COPY_BYTES = 1 << 20
# What a file system answers that has no fsync for directories.
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP)


def locate(directory: str | os.PathLike[str], step: SupportsIndex) -> tuple[int, str]:
    """Return the step as an int and the absolute path of its file, whatever becomes of the working directory."""
    folder = os.fsdecode(directory)
    if not os.path.isabs(folder):
        folder = os.path.join(os.getcwd(), folder)
    try:
        number = operator.index(step)
    except TypeError:
        raise TypeError(f"step must be an integer, not a {type(step).__name__}") from None
    return number, os.path.join(folder, f"{number}.jsonl")


def _host(name: str) -> str:
    """Return the name of a host as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9.]", "_", name)[:40] or "host"


_HOST = _host(platform.node())


class Publisher:
    """Publishes the files of one run atomically; one thread at a time may use it.

    Args:
        fsync: whether file and directory are synced before a file counts as published.
        same_step: what becomes of a file that this run has published already: new contents are "merge"d
            behind the old, "replace" them, or are an "error". Files of earlier runs are always replaced.
    """

    def __init__(self, *, fsync: bool = True, same_step: SameStep = "merge") -> None:
        self._fsync = fsync
        self._same_step = same_step
        self._sizes: dict[str, int] = {}  # bytes of each file that this run has published
        self._swept: set[str] = set()
        self._unsynced: set[str] = set()  # directories that hold the unsynced entry of one made here
        self._undeleted: set[str] = (
            set()
        )  # temporary files that could not be removed when they should have been

    def publish(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write `blocks` to a file that appears as `path` when it is complete.

        The directory is made when it is missing. On failure the temporary file is removed and a file that
        stood under that name is left as it was; only when syncing the directory is what fails, the new file
        is in place already, complete, and may be lost or replaced by the old one in a power loss.

        Args:
            path: final name, absolute.
            blocks: the contents.

        Raises:
            OSError: from the operation that failed.
        """
        # Two paths that lead to one file through links are one file.
        key = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        size = self._sizes.get(key)
        if size is not None and self._same_step == "error":
            raise FileExistsError(errno.EEXIST, "this run has dumped the step already", path)
        kept = _kept(path, size) if size and self._same_step == "merge" else iter(())
        self._sizes[key] = self._replace(path, itertools.chain(kept, blocks))

    def _replace(self, path: str, blocks: Iterable[bytes]) -> int:
        directory = os.path.dirname(path)
        self._prepare(directory)
        temporary, descriptor = _create(path)
        try:
            size = _fill(descriptor, blocks, fsync=self._fsync)
            os.replace(temporary, path)
        except BaseException:
            self._undeleted.add(temporary)
            self.tidy()
            raise
        finally:
            _OPENED.discard(temporary)
        if self._fsync:
            _sync_directory(directory)
        return size

    def tidy(self) -> None:
        """Remove the temporary files of failed dumps, as far as that is possible now."""
        for temporary in tuple(self._undeleted):
            with contextlib.suppress(OSError):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                self._undeleted.discard(temporary)

    def _prepare(self, directory: str) -> None:
        self.tidy()
        ancestors = _ancestors(directory)
        missing = [head for head in ancestors if not os.path.isdir(head)]
        if missing:
            self._unsynced.update(map(os.path.dirname, missing))
            os.makedirs(directory, exist_ok=True)
        if self._fsync:
            for head in self._unsynced.intersection(ancestors):
                _sync_directory(head)
                self._unsynced.discard(head)
        if directory not in self._swept:
            self._swept.add(directory)
            _sweep(directory)


def _ancestors(directory: str) -> list[str]:
    """Return an absolute directory and all that it lies in."""
    heads = [directory]
    while os.path.dirname(heads[-1]) != heads[-1]:
        heads.append(os.path.dirname(heads[-1]))
    return heads


def _create(path: str) -> tuple[str, int]:
    """Open a new hidden file beside `path` whose name no reader of `*.jsonl` finds."""
    directory, name = os.path.split(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    for _ in range(100):
        temporary = os.path.join(directory, f".{name}.{_HOST}-{os.getpid()}-{next(_NUMBERS)}.tmp")
        _OPENED.add(temporary)
        try:
            # Unbuffered: a process forked in mid-write holds no buffer that it could flush a second time.
            return temporary, os.open(temporary, flags, 0o666)
        except FileExistsError:
            # A leftover that could not be cleared has the name.
            _OPENED.discard(temporary)
        except BaseException:
            _OPENED.discard(temporary)
            raise
    raise FileExistsError(errno.EEXIST, "leftover temporary files have all names", directory)


def _fill(descriptor: int, blocks: Iterable[bytes], *, fsync: bool) -> int:
    try:
        size = _write(descriptor, blocks)
        if fsync:
            os.fsync(descriptor)
    except BaseException:
        # What failed first is what the caller must hear of.
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise
    os.close(descriptor)
    return size


def _write(descriptor: int, blocks: Iterable[bytes]) -> int:
    size = 0
    for block in blocks:
        rest = memoryview(block)
        while rest:
            written = os.write(descriptor, rest)
            if not written:
                raise OSError(errno.EIO, "the file takes no more bytes")
            rest = rest[written:]
            size += written
    return size


def _kept(path: str, keep: int) -> Iterator[bytes]:
    """Yield the first `keep` bytes of the file, which must end with a whole line."""
    end = b""
    try:
        with open(path, "rb", buffering=0) as file:
            while keep and (block := file.read(min(keep, _COPY_BYTES))):
                keep -= len(block)
                end = block[-1:]
                yield block
    except FileNotFoundError:
        # Someone has taken the file away: its rows are where he put them.
        return
    if keep or end != b"\n":
        raise OSError(errno.ESTALE, "someone else changed the file since this run wrote it", path)


def _opens_directories() -> bool:
    return os.name != "nt"


def _sync_directory(directory: str) -> None:
    if not _opens_directories():
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def _sweep(directory: str) -> None:
    """Remove the temporary files that killed processes of this host have left; a failure to is no matter."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            temporary = os.path.join(directory, name)
            match = _LEFTOVER.fullmatch(name)
            if (
                match
                and match["host"] == _HOST
                and temporary not in _OPENED
                and not _lives(int(match["pid"]))
            ):
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


def _lives(pid: int) -> bool:
    """Say whether another process of that number may be running."""
    if pid == os.getpid():
        return False
    if os.name == "nt":  # signal 0 would end the process there
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
