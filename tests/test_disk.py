"""The disk mechanism: what strikes happens as on a real file system, and only where the plan says."""

import concurrent.futures
import contextlib
import errno
import gc
import io
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_injection.fault import CATALOGUE, ERRNO_FAULTS, Fault
from fault_injection.mechanisms import disk
from fault_injection.op import OPS, Op
from fault_injection.plan import Plan, once

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
    with disk.armed(str(root), Plan.parse(plan), observe=lambda op, _: None if ops is None else ops.append(op)) as injector:
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
            if kind != op or (op, name) == ("flush", "EINTR"):
                step()
                continue
            with pytest.raises(OSError) as caught:  # noqa: PT011
                step()
            assert caught.value.errno == CATALOGUE[name].errno
            assert type(caught.value) is type(OSError(CATALOGUE[name].errno, ""))
            assert str(caught.value).startswith(f"[Errno {caught.value.errno}] {os.strerror(caught.value.errno)}")
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
    ids=["small-at-close", "large-at-write", "small-at-flush", "flush-at-flush", "flush-at-close", "close-at-close"],
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
    with disk.armed(str(tmp_path), Plan.parse("flush#1:ENOSPC;write#1:ENOSPC")) as injector, open(tmp_path / "f", "wb") as file:
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
            for text in ("half", " line\n", "one\n"):
                file.write(text)
    assert [op.size for op in ops if op.kind == "write"] == [10, 4]


@pytest.mark.parametrize("mode", ["w", "wb", "r", "rb", "a", "x", "w+", "r+b", "a+b", "rt"])
@pytest.mark.parametrize("buffering", [-1, 0, 1, 64])
def test_a_file_below_the_root_is_what_open_gives_elsewhere(tmp_path: Path, mode: str, buffering: int) -> None:
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
                    kinds = [next(c.__name__ for c in type(x).__mro__ if c.__module__ in ("_io", "io")) for x in layers]
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
    ids=["mode", "two-modes", "text-and-binary", "binary-encoding", "unbuffered-text", "newline", "closefd", "type"],
)
def test_wrong_arguments_are_refused_as_by_open_itself(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    """A wrong argument of `open` gives the error of the real one, below the root as well."""
    with disk.armed(str(tmp_path), Plan()), pytest.raises((ValueError, TypeError), match=message):
        open(str(tmp_path / "f"), **arguments)


@pytest.mark.parametrize("way", ["text", "unbuffered", "os-write", "os-writev"])
def test_short_writes(tmp_path: Path, way: str) -> None:
    """A short write takes the first bytes and says so: Python's buffer goes on by itself, a bare writer must do it."""
    path = tmp_path / "f"
    with disk.armed(str(tmp_path), Plan.parse("write#1+:short(3)")) as injector:
        if way == "text":
            path.write_text("0123456789")
            assert injector.fired == 4
        elif way == "unbuffered":
            with open(path, "wb", 0) as file:
                assert file.write(b"0123456789") == 3
        else:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
            assert (os.writev(fd, [b"01", b"23456789"]) if way == "os-writev" else os.write(fd, b"0123456789")) == 3
            os.close(fd)
    assert path.read_text() == ("0123456789" if way == "text" else "012")


def test_a_short_write_of_nothing_takes_one_byte(tmp_path: Path) -> None:
    """`short(0)` takes one byte: no kernel answers 0, and Python's buffer would ask for ever."""
    with disk.armed(str(tmp_path), Plan.parse("write#1+:short(0)")) as injector:
        (tmp_path / "f").write_text("abc")
    assert injector.fired == 3
    assert (tmp_path / "f").read_text() == "abc"


def test_an_interrupted_write_is_tried_again_by_the_file_and_seen_by_the_bare_writer(tmp_path: Path) -> None:
    """EINTR at every write never stops a Python file (PEP 475); through `os.write` it is an InterruptedError."""
    with disk.armed(str(tmp_path), Plan.parse("write#1+:EINTR;read#1+:EINTR")) as injector:
        (tmp_path / "f").write_text("abc")
        assert (tmp_path / "f").read_text() == "abc"
        assert injector.fired >= 2
        fd = os.open(tmp_path / "f", os.O_RDWR)
        with pytest.raises(InterruptedError):
            os.write(fd, b"x")
        os.close(fd)


@pytest.mark.parametrize("way", ["buffered", "unbuffered", "append", "pwrite"])
def test_the_disk_fills_up_at_the_exact_byte(tmp_path: Path, way: str) -> None:
    """With `bytes>N` what fits is written, in all files together, and the next byte meets the errno."""
    (tmp_path / "there").write_bytes(b"x" * 40)
    path = tmp_path / "f"
    with disk.armed(str(tmp_path), Plan.parse("bytes>100:ENOSPC")) as injector:
        (tmp_path / "first").write_bytes(b"x" * 50)
        with pytest.raises(OSError, match="No space left"):
            if way == "pwrite":
                fd = os.open(path, os.O_WRONLY | os.O_CREAT)
                try:
                    assert os.pwrite(fd, b"x" * 30, 0) == 10
                    os.pwrite(fd, b"x", 10)
                finally:
                    os.close(fd)
            elif way == "buffered":
                path.write_bytes(b"x" * 30)
            else:
                with open(path, "ab" if way == "append" else "wb", 0) as file:
                    assert file.write(b"x" * 30) == 10
                    file.write(b"x")
        assert injector.fired == 1
        assert sum(p.stat().st_size for p in tmp_path.iterdir()) == 100


@pytest.mark.parametrize("way", ["unlink", "truncate", "replace", "open-w"])
def test_freed_bytes_can_be_used_again(tmp_path: Path, way: str) -> None:
    """A removed, cut or replaced file makes room on the full disk."""
    (tmp_path / "a").write_bytes(b"x" * 60)
    with disk.armed(str(tmp_path), Plan.parse("bytes>100:ENOSPC")):
        (tmp_path / "b").write_bytes(b"x" * 40)
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "c").write_bytes(b"x")
        if way == "unlink":
            os.unlink(tmp_path / "a")
        elif way == "truncate":
            os.truncate(tmp_path / "a", 0)
        elif way == "replace":
            os.replace(tmp_path / "c", tmp_path / "a")
        else:
            open(tmp_path / "a", "w").close()
        (tmp_path / "c").write_bytes(b"x" * 60)
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "d").write_bytes(b"x")


def test_overwriting_in_place_takes_no_more_room(tmp_path: Path) -> None:
    """Bytes written over existing ones do not count twice."""
    (tmp_path / "a").write_bytes(b"x" * 100)
    with disk.armed(str(tmp_path), Plan.parse("bytes>100:ENOSPC")):
        with open(tmp_path / "a", "r+b") as file:
            file.write(b"y" * 100)
    assert (tmp_path / "a").read_bytes() == b"y" * 100


@pytest.mark.parametrize("mode", ["w", "a", "overwrite"])
def test_a_lost_sync_drops_what_was_not_synced_and_then_succeeds(tmp_path: Path, mode: str) -> None:
    """After the sync that fails the file holds what the last good sync made durable, and the next sync succeeds."""
    path = tmp_path / "f"
    path.write_bytes(b"was here. ")
    with disk.armed(str(tmp_path), Plan.parse("fsync#2:lost")):
        with open(path, "r+b" if mode == "overwrite" else f"{mode}b", 0) as file:
            file.write(b"synced. ")
            os.fsync(file.fileno())
            durable = path.read_bytes()
            file.seek(0)
            file.write(b"not synced, and a good deal longer than that. ")
            with pytest.raises(OSError, match="Input/output"):
                os.fsync(file.fileno())
            assert path.read_bytes() == durable
            os.fsync(file.fileno())
    assert path.read_bytes() == durable


def test_the_first_sync_of_a_new_file_can_be_lost_too(tmp_path: Path) -> None:
    """A file that was never synced is empty after the lost sync."""
    with disk.armed(str(tmp_path), Plan.parse("fsync#1:lost")), open(tmp_path / "f", "wb") as file:
        file.write(b"gone")
        file.flush()
        with pytest.raises(OSError, match="Input/output"):
            os.fsync(file.fileno())
        assert (tmp_path / "f").read_bytes() == b""


@pytest.mark.parametrize("fault", ["vanish", "replace"])
@pytest.mark.parametrize("op", ["open", "rename", "fsyncdir"])
def test_the_dump_directory_goes_in_mid_run(tmp_path: Path, op: str, fault: str) -> None:
    """The directory of the struck path is gone, or empty and new, and the real call then runs into that by itself."""
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "old").write_text("old")
    (tmp_path / "beside").write_text("stays")
    with disk.armed(str(tmp_path), Plan.parse(f"{op}#1:{fault}")) as injector:
        calls = {
            "open": lambda: (folder / "new").write_text("new"),
            "rename": lambda: os.rename(folder / "old", folder / "older"),
            "fsyncdir": lambda: sync_folder(folder),
        }
        if op == "fsyncdir" or (op, fault) == ("open", "replace"):
            calls[op]()
        else:
            with pytest.raises(FileNotFoundError) as caught:
                calls[op]()
            assert not hasattr(caught.value, "injected")
        assert injector.fired == 1
        assert injector.unseen() == ()
    assert folder.exists() is (fault == "replace")
    assert not (folder / "old").exists()
    assert (tmp_path / "beside").read_text() == "stays"


def sync_folder(folder: Path) -> None:
    """Force a directory to the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def test_a_stuck_write_waits_for_the_gate(tmp_path: Path) -> None:
    """A stuck write does not happen until the test opens the gate, and then does."""
    with disk.armed(str(tmp_path), Plan.parse("write#1:stuck")) as injector:
        worker = threading.Thread(target=(tmp_path / "f").write_text, args=("late",))
        worker.start()
        assert injector.gate.await_arrival()
        assert injector.gate.waiting == {worker.ident}
        assert (tmp_path / "f").read_bytes() == b""
        injector.gate.open()
        worker.join()
    assert (tmp_path / "f").read_text() == "late"


def test_a_slow_write_goes_on_by_itself(tmp_path: Path) -> None:
    """A slow write passes when its time is over, or at once when the gate is open."""
    with disk.armed(str(tmp_path), Plan.parse("write#1:slow(1ms);write#2:slow(1000000s)")) as injector:
        (tmp_path / "f").write_text("one")
        injector.gate.open()
        (tmp_path / "f").write_text("two")
        assert injector.gate.arrivals == 2
    assert (tmp_path / "f").read_text() == "two"


def test_a_worker_that_outlives_its_trial_goes_on_with_the_plain_functions(tmp_path: Path) -> None:
    """An operation in progress at the end of a trial finishes, its file works on, and nothing more is struck or counted."""
    seen: list[Op] = []

    def work() -> None:
        with open(tmp_path / "f", "w") as file:
            file.write("late")
            file.flush()
            file.write("r")
        os.rename(tmp_path / "f", tmp_path / "g")

    plan = Plan.parse("write#1:stuck;write#2+:EIO;rename#1:EIO")
    with disk.armed(str(tmp_path), plan, observe=lambda op, _: seen.append(op)) as injector:
        worker = threading.Thread(target=work)
        worker.start()
        assert injector.gate.await_arrival()
    count = len(seen)
    injector.gate.open()
    worker.join()
    assert (tmp_path / "g").read_text() == "later"
    assert len(seen) == count == injector.operations
    assert injector.fired == 1


def test_the_thread_that_arms_is_the_caller(tmp_path: Path) -> None:
    """Operations of the arming thread are marked as the caller's, those of any other thread are not."""
    seen: dict[str, bool] = {}
    with disk.armed(str(tmp_path), Plan(), observe=lambda op, _: seen.update({f"{op.kind} {op.path}": op.caller})):
        os.mkdir(tmp_path / "mine")
        worker = threading.Thread(target=os.mkdir, args=(tmp_path / "theirs",))
        worker.start()
        worker.join()
    assert seen == {"mkdir mine": True, "thread ": True, "mkdir theirs": False}


def test_operations_of_many_threads_are_all_counted(tmp_path: Path) -> None:
    """Threads that write at the same time lose no operation and no byte."""
    with disk.armed(str(tmp_path), Plan()) as injector, concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: (tmp_path / str(k)).write_text("x" * k), range(1, 101)))
    assert injector.operations - 4 <= 4 * 100 <= injector.operations
    assert injector.unseen() == ()
    assert [(tmp_path / str(k)).stat().st_size for k in range(1, 101)] == list(range(1, 101))


@pytest.mark.parametrize("name", ["RuntimeError", "MemoryError"])
def test_a_thread_that_cannot_start(tmp_path: Path, name: str) -> None:
    """A struck start raises out of `Thread.start` and leaves no half-started thread behind."""
    before = threading.active_count()
    with disk.armed(str(tmp_path), once("thread", 1, Fault(name))) as injector:
        thread = threading.Thread(target=int)
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            thread.start()
        assert caught.value.injected == 1
        again = threading.Thread(target=int)
        again.start()
        again.join()
    assert type(caught.value).__name__ == name
    assert injector.fired == 1
    assert threading.active_count() == before


def test_what_the_observer_does_is_not_counted(tmp_path: Path) -> None:
    """An observer may read and write below the root; that is neither counted nor struck."""

    def observe(op: Op, _: object) -> None:
        with open(tmp_path / "log", "a") as log:
            log.write(f"{op.kind}\n")

    with disk.armed(str(tmp_path), Plan.parse("write#2:EIO"), observe=observe) as injector:
        (tmp_path / "f").write_text("x")
        with disk.bypass():
            (tmp_path / "g").write_text("x")
    assert injector.operations == 4
    assert injector.fired == 0
    assert (tmp_path / "log").read_text().split() == ["open", "flush", "write", "close"]


def test_a_collected_file_raises_nothing_and_loses_its_bytes_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that nobody closed warns as always; the garbage collector's write to a full disk is lost without an error."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    seen: list[Op] = []
    with disk.armed(str(tmp_path), Plan.parse("write#1+:ENOSPC;close#1+:EIO;flush#1+:EIO"), observe=lambda op, _: seen.append(op)):
        with pytest.warns(ResourceWarning, match="unclosed file"):
            open(tmp_path / "f", "w").write("lost")
            gc.collect()
    assert unraisable == []
    assert [(op.kind, op.caller) for op in seen] == [("open", True), ("write", False)]
    assert (tmp_path / "f").read_text() == ""


def test_a_collected_file_on_a_sound_disk_is_written(tmp_path: Path) -> None:
    """Without a fault the garbage collector writes what was in the buffer, as Python always does."""
    with disk.armed(str(tmp_path), Plan()) as injector:
        with pytest.warns(ResourceWarning, match="unclosed file"):
            open(tmp_path / "f", "w").write("kept")
            gc.collect()
        assert injector.unseen() == ()
    assert (tmp_path / "f").read_text() == "kept"


def test_a_second_trial_inside_a_trial_is_refused(tmp_path: Path) -> None:
    """Arming while armed is one clear error, and the outer trial goes on."""
    with disk.armed(str(tmp_path), Plan.parse("mkdir#1:EIO")) as injector:
        with pytest.raises(RuntimeError, match="armed already"), disk.armed(str(tmp_path), Plan()):
            pass
        with pytest.raises(OSError, match="Input/output"):
            os.mkdir(tmp_path / "d")
    assert injector.fired == 1


@pytest.mark.parametrize("plan", ["write#1:kill", "write#1:torn"])
def test_a_deadly_plan_is_refused_where_it_would_kill_the_suite(tmp_path: Path, plan: str) -> None:
    """A plan that kills is armed only where that was asked for, and `supports` says so beforehand."""
    with pytest.raises(ValueError, match="child process"), disk.armed(str(tmp_path), Plan.parse(plan)):
        pass
    assert "child process" in disk.supports(Plan.parse(plan))
    assert disk.supports(Plan.parse(plan), deadly=True) == ""
    assert io.open is open is disk.originals.open


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """The root must exist: otherwise nothing below it could be told from elsewhere."""
    with pytest.raises(NotADirectoryError, match="must be an existing directory"), disk.armed(str(tmp_path / "x"), Plan()):
        pass


KILLED = """
import os, sys
from fault_injection.mechanisms.disk import armed
from fault_injection.plan import Plan
root, plan = sys.argv[1:]
with armed(root, Plan.parse(plan), deadly=True):
    with open(root + "/f", "wb", 0) as file:
        file.write(b"0123456789")
    os.rename(root + "/f", root + "/g")
print("survived")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on Windows")
@pytest.mark.parametrize(
    ("plan", "left"),
    [("open#1:kill", {}), ("write#1:torn", {"f": b"01234"}), ("rename#1:kill", {"f": b"0123456789"})],
    ids=["before-open", "torn-write", "before-rename"],
)
def test_a_kill_leaves_exactly_what_was_done_before(tmp_path: Path, plan: str, left: dict[str, bytes]) -> None:
    """A killed process dies of SIGKILL at the operation; a torn write leaves half of its bytes."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), plan]
    child = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parent.parent)
    assert (child.returncode, child.stdout, child.stderr) == (-signal.SIGKILL, b"", b"")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_disarmed(tmp_path: Path) -> None:
    """A child forked inside a trial works on plain files, whatever the other threads of its parent held."""
    with disk.armed(str(tmp_path), Plan.parse("write#1+:EIO;mkdir#1+:EIO")) as injector:
        child = os.fork()
        if not child:
            (tmp_path / "made").mkdir()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert injector.operations == 0
    assert (tmp_path / "made").is_dir()


def test_every_fault_of_the_catalogue_for_the_disk_is_in_its_capabilities() -> None:
    """The capabilities name every fault that the catalogue gives to the disk, with exactly its operations."""
    assert set(disk.CAPABILITIES) == {name for name, kind in CATALOGUE.items() if "disk" in kind.mechanisms}
    for name, ops in disk.CAPABILITIES.items():
        assert set(ops) == CATALOGUE[name].ops


def test_the_errno_of_a_text_file_is_reachable_after_close(tmp_path: Path) -> None:
    """A writer that uses `with` sees the first error; the close that failed as well is in its context."""
    with disk.armed(str(tmp_path), Plan.parse("write#1+:ENOSPC")), pytest.raises(OSError, match="No space left") as caught:
        with open(tmp_path / "f", "w") as file:
            file.write("x")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.injected == 5
    assert file.closed
