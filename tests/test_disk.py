"""The disk mechanism: what strikes happens as on a real file system, and only where the plan says."""

import contextlib
import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_injection.fault import CATALOGUE, ERRNO_FAULTS
from fault_injection.mechanisms import disk
from fault_injection.op import OPS, RETRIED, Op
from fault_injection.plan import Plan

FILE_OPS = [op for op in OPS if op != "thread"]


class Tiny:
    """A writer that does each kind of operation exactly once, each as a step of its own."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.held: list[int] = []
        with disk.bypass():
            for name in ("f", "g", "h"):
                with open(f"{self.root}/{name}", "wb") as file:
                    file.write(b"0123456789")
            os.mkdir(f"{self.root}/gone")
            self.fd = self._hold(f"{self.root}/f", os.O_RDWR)
            self.spare = self._hold(f"{self.root}/f", os.O_RDONLY)
            self.folder = self._hold(self.root, os.O_RDONLY)
        self.buffer = open(f"{self.root}/b", "wb")
        self.buffer.write(b"waits")

    def _hold(self, path: str, flags: int) -> int:
        fd = os.open(path, flags)
        self.held.append(fd)
        return fd

    def steps(self) -> dict[str, Callable[[], object]]:
        """What to do for each kind of operation."""
        root = self.root
        return {
            "mkdir": lambda: os.mkdir(f"{root}/made"),
            "open": lambda: self._hold(f"{root}/new", os.O_RDWR | os.O_CREAT),
            "read": lambda: os.read(self.fd, 4),
            "write": lambda: os.write(self.fd, b"abcd"),
            "flush": self.buffer.flush,
            "fsync": lambda: os.fsync(self.fd),
            "fsyncdir": lambda: os.fsync(self.folder),
            "truncate": lambda: os.ftruncate(self.fd, 5),
            "close": lambda: os.close(self.spare),
            "rename": lambda: os.replace(f"{root}/f", f"{root}/z"),
            "link": lambda: os.link(f"{root}/g", f"{root}/y"),
            "unlink": lambda: os.unlink(f"{root}/g"),
            "rmdir": lambda: os.rmdir(f"{root}/gone"),
        }

    def filenames(self, op: str) -> tuple[str | None, str | None]:
        """What the real call puts into its error."""
        one = {"mkdir": "made", "open": "new", "unlink": "g", "rmdir": "gone"}
        two = {"rename": ("f", "z"), "link": ("g", "y")}
        if op in one:
            return f"{self.root}/{one[op]}", None
        first, second = two.get(op, (None, None))
        return first and f"{self.root}/{first}", second and f"{self.root}/{second}"

    def end(self) -> None:
        """Close what is open."""
        for fd in self.held:
            with contextlib.suppress(OSError):
                os.close(fd)
        self.buffer.close()


@contextlib.contextmanager
def trial(root: Path, plan: str, ops: list[Op] | None = None) -> Iterator[tuple[Tiny, disk.DiskInjector]]:
    """An armed trial with a tiny writer, whose own opening is not part of it."""
    with disk.armed(
        str(root), Plan.parse(plan), observe=lambda op, _: None if ops is None else ops.append(op)
    ) as injector:
        tiny = Tiny(root)
        try:
            yield tiny, injector
        finally:
            with disk.bypass():
                tiny.end()


@pytest.mark.parametrize("name", ERRNO_FAULTS)
@pytest.mark.parametrize("op", FILE_OPS)
def test_each_errno_comes_out_of_the_very_call_that_was_struck(tmp_path: Path, op: str, name: str) -> None:
    """The struck call, and no other, raises OSError with that errno, its subclass and the real call's file names."""
    k = 2 if op == "open" else 1
    with trial(tmp_path, f"{op}#{k}:{name}") as (tiny, injector):
        for kind, step in tiny.steps().items():
            if kind != op or (name == "EINTR" and op in RETRIED):
                step()
                continue
            with pytest.raises(OSError) as caught:
                step()
            assert caught.value.errno == CATALOGUE[name].errno
            assert type(caught.value) is type(OSError(CATALOGUE[name].errno, ""))
            assert str(caught.value).startswith(
                f"[Errno {caught.value.errno}] {os.strerror(caught.value.errno)}"
            )
            assert (caught.value.filename, caught.value.filename2) == tiny.filenames(op)
            assert caught.value.injected > 0
        assert injector.fired == 1


@pytest.mark.parametrize("name", ["MemoryError", "SystemExit"])
@pytest.mark.parametrize("op", FILE_OPS)
def test_deaths_come_out_of_the_call_as_themselves(tmp_path: Path, op: str, name: str) -> None:
    """A fault that kills a worker raises its own type, marked as injected."""
    with trial(tmp_path, f"{op}#{2 if op == 'open' else 1}:{name}") as (tiny, _):
        with pytest.raises(BaseException) as caught:
            tiny.steps()[op]()
    assert type(caught.value).__name__ == name
    assert caught.value.injected > 0


@pytest.mark.parametrize("op", [op for op in FILE_OPS if op != "close"])
def test_a_failed_operation_did_not_happen(tmp_path: Path, op: str) -> None:
    """An operation that fails leaves the directory as it was."""
    with trial(tmp_path, f"{op}#{2 if op == 'open' else 1}:EIO") as (tiny, _):
        before = snapshot(tmp_path)
        with pytest.raises(OSError, match="Input/output"):
            tiny.steps()[op]()
        assert snapshot(tmp_path) == before


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Every name below a directory with the bytes of the files."""
    with disk.bypass():
        return {str(path): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.parametrize("way", ["os", "file"])
def test_a_failed_close_has_closed_the_descriptor(tmp_path: Path, way: str) -> None:
    """As on Linux, a close that reports an error has let go of the descriptor."""
    with disk.armed(str(tmp_path), Plan.parse("close#1:EIO")):
        file = open(tmp_path / "f", "w") if way == "file" else None
        fd = file.fileno() if file else os.open(tmp_path / "f", os.O_RDONLY | os.O_CREAT)
        with pytest.raises(OSError, match="Input/output"):
            file.close() if file else os.close(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        assert file is None or file.closed


@pytest.mark.parametrize(
    ("place", "plan", "size"),
    [
        ("close", "write#1:ENOSPC", 10),
        ("write", "write#1:ENOSPC", 1_000_000),
        ("flush", "write#1:ENOSPC", 10),
        ("flush", "flush#1:ENOSPC", 10),
        ("close", "flush#1:ENOSPC", 10),
        ("close", "close#1:ENOSPC", 10),
    ],
    ids=[
        "small-at-close",
        "large-at-write",
        "small-at-flush",
        "flush-at-flush",
        "flush-at-close",
        "close-at-close",
    ],
)
def test_the_buffer_decides_where_a_full_disk_shows(tmp_path: Path, place: str, plan: str, size: int) -> None:
    """The error comes up at the call at which Python's real buffer hands the bytes over."""
    reached = ""
    with disk.armed(str(tmp_path), Plan.parse(plan)):
        file = open(tmp_path / "f", "w", encoding="utf-8")
        with pytest.raises(OSError, match="No space left"):
            reached = "write"
            file.write("x" * size)
            if place == "flush":
                reached = "flush"
                file.flush()
            reached = "close"
            file.close()
        assert reached == place
        file.close()
    assert file.closed


def test_bytes_that_failed_to_flush_wait_in_the_buffer(tmp_path: Path) -> None:
    """After a failed flush or a failed raw write the bytes are still there and go out with the next flush."""
    with (
        disk.armed(str(tmp_path), Plan.parse("flush#1:ENOSPC;write#1:ENOSPC")) as injector,
        open(tmp_path / "f", "wb") as file,
    ):
        file.write(b"kept")
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                file.flush()
            assert (tmp_path / "f").stat().st_size == 0
        file.flush()
        assert injector.fired == 2
        assert (tmp_path / "f").stat().st_size == 4


def test_line_buffering_reaches_the_disk_at_each_line(tmp_path: Path) -> None:
    """With `buffering=1` the raw write happens at the end of the line, as with the real `open`."""
    ops: list[Op] = []
    with disk.armed(str(tmp_path), Plan(), observe=lambda op, _: ops.append(op)):
        with open(tmp_path / "f", "w", buffering=1) as file:
            file.writelines(("half", " line\n", "one\n"))
    assert [op.size for op in ops if op.kind == "write"] == [10, 4]


@pytest.mark.parametrize("mode", ["w", "wb", "r", "rb", "a", "x", "w+", "r+b", "a+b", "rt"])
@pytest.mark.parametrize("buffering", [-1, 0, 1, 64])
def test_a_file_below_the_root_is_what_open_gives_elsewhere(
    tmp_path: Path, mode: str, buffering: int
) -> None:
    """Type, mode, name, encoding, newlines and buffer of a watched file are those of a plain one, errors included."""

    def described() -> object:
        path = str(tmp_path / f"{mode}{buffering}")
        if "x" not in mode:
            with disk.bypass(), open(path, "w") as file:
                file.write("a\nb\n")
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                with open(path, mode, buffering) as file:
                    buffer = getattr(file, "buffer", file)
                    layers = [file, buffer, getattr(buffer, "raw", buffer)]
                    kinds = [
                        next(c.__name__ for c in type(x).__mro__ if c.__module__ in ("_io", "io"))
                        for x in layers
                    ]
                    names = ("name", "mode", "encoding", "errors", "newlines", "line_buffering", "closefd")
                    told = [getattr(x, name, "none") for x in layers for name in names]
                    could = (file.readable(), file.writable(), file.seekable(), file.tell(), file.isatty())
                    return kinds, told, could, [str(w.message) for w in seen]
        except ValueError as error:
            return str(error)
        finally:
            with disk.bypass(), contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    plain = described()
    with disk.armed(str(tmp_path), Plan()):
        assert described() == plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "q"}, "invalid mode"),
        ({"mode": "rw"}, "exactly one"),
        ({"mode": "wbt"}, "text and binary"),
        ({"mode": "wb", "encoding": "utf-8"}, "encoding"),
        ({"mode": "w", "buffering": 0}, "unbuffered text"),
        ({"mode": "w", "newline": "q"}, "newline"),
        ({"mode": "w", "closefd": False}, "closefd"),
        ({"mode": 3}, "str"),
    ],
    ids=[
        "mode",
        "two-modes",
        "text-and-binary",
        "binary-encoding",
        "unbuffered-text",
        "newline",
        "closefd",
        "type",
    ],
)
def test_wrong_arguments_are_refused_as_by_open_itself(
    tmp_path: Path, arguments: dict[str, object], message: str
) -> None:
    """A wrong argument of `open` gives the error of the real one, below the root as well."""
    with disk.armed(str(tmp_path), Plan()), pytest.raises((ValueError, TypeError), match=message):
        open(str(tmp_path / "f"), **arguments)


def test_every_fault_of_the_catalogue_for_the_disk_is_in_its_capabilities() -> None:
    """The capabilities name every fault that the catalogue gives to the disk, with exactly its operations."""
    assert set(disk.CAPABILITIES) == {name for name, kind in CATALOGUE.items() if "disk" in kind.mechanisms}
    for name, ops in disk.CAPABILITIES.items():
        assert set(ops) == CATALOGUE[name].ops


def test_the_errno_of_a_text_file_is_reachable_after_close(tmp_path: Path) -> None:
    """A writer that uses `with` sees the first error; the close that failed as well is in its context."""
    with (
        disk.armed(str(tmp_path), Plan.parse("write#1+:ENOSPC")),
        pytest.raises(OSError, match="No space left") as caught,
    ):
        with open(tmp_path / "f", "w") as file:
            file.write("x")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.injected == 5
    assert file.closed
