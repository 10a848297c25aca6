"""The disk mechanism: short and interrupted writes, full disks, lost syncs and vanishing directories."""

import os
from pathlib import Path

import pytest

from fault_injection.mechanisms import disk
from fault_injection.plan import Plan


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
            assert (
                os.writev(fd, [b"01", b"23456789"]) if way == "os-writev" else os.write(fd, b"0123456789")
            ) == 3
            os.close(fd)
    assert path.read_text() == ("0123456789" if way == "text" else "012")


def test_a_short_write_of_nothing_takes_one_byte(tmp_path: Path) -> None:
    """`short(0)` takes one byte: no kernel answers 0, and Python's buffer would ask for ever."""
    with disk.armed(str(tmp_path), Plan.parse("write#1+:short(0)")) as injector:
        (tmp_path / "f").write_text("abc")
    assert injector.fired == 3
    assert (tmp_path / "f").read_text() == "abc"


def test_an_interrupted_call_is_tried_again_where_python_does_so(tmp_path: Path) -> None:
    """EINTR at every open, read, write and sync stops nobody (PEP 475); at a rename it is an InterruptedError."""
    plan = "open#1+:EINTR;write#1+:EINTR;read#1+:EINTR;fsync#1+:EINTR;rename#1:EINTR"
    with disk.armed(str(tmp_path), Plan.parse(plan)) as injector:
        (tmp_path / "f").write_text("abc")
        assert (tmp_path / "f").read_text() == "abc"
        assert injector.fired >= 2
        fd = os.open(tmp_path / "f", os.O_RDWR)
        assert os.write(fd, b"x") == 1
        os.fsync(fd)
        os.close(fd)
        with pytest.raises(InterruptedError):
            os.rename(tmp_path / "f", tmp_path / "g")


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
