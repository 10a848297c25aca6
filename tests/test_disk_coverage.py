"""The disk mechanism: every way of the standard library to touch a file is seen, as the right operation on the right path."""

import concurrent.futures
import contextlib
import io
import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_injection.mechanisms import disk
from fault_injection.plan import Plan

NONE = Plan()


def record(root: Path, action: Callable[[str], object]) -> list[str]:
    """The operations that an action performs on the folder `d` below the root, in order."""
    folder = root / "d"
    folder.mkdir()
    (folder / "old").write_bytes(b"old line\n")
    (folder / "sub").mkdir()
    (root / "outside").mkdir()
    seen: list[str] = []
    with disk.armed(str(folder), NONE, observe=lambda op, _: seen.append(_text(op))) as injector:
        action(str(folder))
        assert injector.unseen() == ()
    assert injector.operations == len(seen)
    return seen


def _text(op: disk.Op) -> str:
    where = f"{op.path}>{op.target}" if op.target else op.path
    return f"{op.kind} {where} {op.size}" if op.size else f"{op.kind} {where}".rstrip()


@contextlib.contextmanager
def descriptor(path: str, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    """A descriptor that the harness opened, so that only the operation between is seen."""
    with disk.bypass():
        fd = os.open(path, flags)
    try:
        yield fd
    finally:
        with disk.bypass():
            os.close(fd)


def on_fd(call: Callable[[int], object], flags: int = os.O_RDWR) -> Callable[[str], object]:
    """An action on a descriptor of the old file."""

    def action(folder: str) -> None:
        with descriptor(f"{folder}/old", flags) as fd:
            call(fd)

    return action


def on_folder(call: Callable[[int], object]) -> Callable[[str], object]:
    """An action on a descriptor of the folder."""

    def action(folder: str) -> None:
        with descriptor(folder, os.O_RDONLY) as fd:
            call(fd)

    return action


def between(call: Callable[[int, int], object]) -> Callable[[str], object]:
    """An action on descriptors of the old file and of one in the folder `sub`."""

    def action(folder: str) -> None:
        with disk.bypass():
            disk.originals.open(f"{folder}/sub/new", "w").close()
        with descriptor(f"{folder}/old") as source, descriptor(f"{folder}/sub/new") as target:
            call(source, target)
        with disk.bypass():
            os.unlink(f"{folder}/sub/new")

    return action


def _open_text(folder: str) -> None:
    with open(f"{folder}/new", "w", encoding="utf-8") as file:
        file.write("text")


def _io_open(folder: str) -> None:
    with open(f"{folder}/new", "wb") as file:
        file.write(b"text")


def _raw(folder: str) -> None:
    file = io.FileIO(f"{folder}/new", "w")
    file.write(b"text")
    file.truncate(2)
    file.close()


def _raw_read(folder: str) -> None:
    with io.FileIO(f"{folder}/old") as file:
        file.read(3)
        file.readinto(bytearray(2))
        file.readall()


def _unbuffered(folder: str) -> None:
    with open(f"{folder}/new", "wb", buffering=0) as file:
        file.write(b"ab")
        file.write(b"c")


def _update(folder: str) -> None:
    with open(f"{folder}/old", "r+b") as file:
        file.seek(0, 2)
        file.write(b"more")


def _fdopen(folder: str) -> None:
    with os.fdopen(os.open(f"{folder}/new", os.O_WRONLY | os.O_CREAT), "w") as file:
        file.write("text")
        file.flush()
        os.fsync(file)


def _opener(folder: str) -> None:
    with open(f"{folder}/new", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write("text")


def _dup(folder: str) -> None:
    fd = os.open(f"{folder}/old", os.O_RDWR)
    copy = os.dup(fd)
    os.close(fd)
    os.write(copy, b"x")
    os.close(copy)


def _dup2(folder: str) -> None:
    fd = os.open(f"{folder}/old", os.O_RDWR)
    with disk.bypass():
        other = os.open(os.devnull, os.O_RDWR)
    os.dup2(fd, other)
    os.write(other, b"x")
    os.close(other)
    os.close(fd)


def _closerange(folder: str) -> None:
    fd = os.open(f"{folder}/old", os.O_RDONLY)
    os.closerange(fd, fd + 1)


def _dir_fd(folder: str) -> None:
    with descriptor(folder, os.O_RDONLY) as at:
        fd = os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=at)
        with disk.bypass():
            os.close(fd)
        os.mkdir("made", dir_fd=at)
        os.rename("new", "newer", src_dir_fd=at, dst_dir_fd=at)
        os.unlink("newer", dir_fd=at)
        os.rmdir("made", dir_fd=at)


def _relative(folder: str) -> None:
    os.chdir(folder)
    os.mkdir("made")
    os.chdir("sub")
    os.replace("../old", "./old")
    os.mkdir("../sub/./../made/x")


def _bytes_path(folder: str) -> None:
    os.mkdir(os.fsencode(folder) + b"/made")


def _pathlike(folder: str) -> None:
    os.rename(Path(folder, "old"), Path(folder, "older"))


def _through_link(folder: str) -> None:
    link = f"{folder}/../outside/way"
    os.symlink(f"{folder}/sub", link)
    os.mkdir(f"{link}/made")


def _moved_in(folder: str) -> None:
    with open(f"{folder}/../outside/file", "w") as file:
        file.write("text")
    os.rename(f"{folder}/../outside/file", f"{folder}/new")


def _pathlib_touch(folder: str) -> None:
    path = pathlib.Path(folder, "new")
    path.touch()
    path.write_text("text", encoding="utf-8")
    path.read_bytes()
    path.rename(path.with_name("a")).replace(path.with_name("b")).unlink()


def _pathlib_folder(folder: str) -> None:
    path = pathlib.Path(folder, "made")
    path.mkdir()
    path.rmdir()
    path.symlink_to("old")


def _mkstemp(folder: str) -> None:
    fd, path = tempfile.mkstemp(dir=folder)
    os.close(fd)
    os.rename(path, f"{folder}/new")


def _named(folder: str) -> None:
    with tempfile.NamedTemporaryFile(dir=folder, prefix="", suffix="t") as file:
        file.write(b"text")


def _kept(folder: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        file.write("text")
    os.replace(file.name, f"{folder}/new")


def _folder_of_tempfile(folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as made, open(f"{made}/f", "w"):
        pass


def _rmtree(folder: str) -> None:
    with disk.bypass():
        os.mkdir(f"{folder}/tree")
        open(f"{folder}/tree/f", "w").close()
    shutil.rmtree(f"{folder}/tree")


def _copyfile(folder: str) -> None:
    shutil.copyfile(f"{folder}/old", f"{folder}/new")


def _move(folder: str) -> None:
    shutil.move(f"{folder}/old", f"{folder}/new")


def _thread(_: str) -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def _pool(_: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()


def _gone_by_name(folder: str) -> None:
    os.link(f"{folder}/old", f"{folder}/twin")
    os.remove(f"{folder}/twin")
    os.truncate(f"{folder}/old", 4)


CASES: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "open-text": (_open_text, ["open new", "flush new", "write new 4", "close new"]),
    "io-open-binary": (_io_open, ["open new", "flush new", "write new 4", "close new"]),
    "fileio": (_raw, ["open new", "write new 4", "truncate new 2", "close new"]),
    "fileio-reading": (_raw_read, ["open old", "read old 3", "read old 2", "read old", "close old"]),
    "unbuffered": (_unbuffered, ["open new", "write new 2", "write new 1", "close new"]),
    "update": (_update, ["open old", "flush old", "write old 4", "close old"]),
    "fdopen": (_fdopen, ["open new", "flush new", "write new 4", "fsync new", "close new"]),
    "opener": (_opener, ["open new", "flush new", "write new 4", "close new"]),
    "os-read": (on_fd(lambda fd: os.read(fd, 5)), ["read old 5"]),
    "os-pread": (on_fd(lambda fd: os.pread(fd, 5, 1)), ["read old 5"]),
    "os-readv": (on_fd(lambda fd: os.readv(fd, [bytearray(2), bytearray(3)])), ["read old 5"]),
    "os-preadv": (on_fd(lambda fd: os.preadv(fd, [bytearray(2)], 1)), ["read old 2"]),
    "os-write": (on_fd(lambda fd: os.write(fd, b"abc")), ["write old 3"]),
    "os-pwrite": (on_fd(lambda fd: os.pwrite(fd, b"abc", 2)), ["write old 3"]),
    "os-writev": (on_fd(lambda fd: os.writev(fd, [b"ab", b"c"])), ["write old 3"]),
    "os-pwritev": (on_fd(lambda fd: os.pwritev(fd, [b"ab", b"c"], 2)), ["write old 3"]),
    "os-fsync": (on_fd(lambda fd: os.fsync(fd)), ["fsync old"]),
    "os-fdatasync": (on_fd(lambda fd: os.fdatasync(fd)), ["fsync old"]),
    "os-fsync-folder": (on_folder(lambda fd: os.fsync(fd)), ["fsyncdir ."]),
    "os-ftruncate": (on_fd(lambda fd: os.ftruncate(fd, 3)), ["truncate old 3"]),
    "os-truncate-fd": (on_fd(lambda fd: os.truncate(fd, 3)), ["truncate old 3"]),
    "os-fallocate": (on_fd(lambda fd: os.posix_fallocate(fd, 0, 20)), ["truncate old 20"]),
    "os-sendfile": (between(lambda a, b: os.sendfile(b, a, 0, 1 << 20)), ["read old 9", "write sub/new 9"]),
    "os-copy-file-range": (
        between(lambda a, b: os.copy_file_range(a, b, 4)),
        ["read old 4", "write sub/new 4"],
    ),
    "os-dup": (_dup, ["open old", "close old", "write old 1", "close old"]),
    "os-dup2": (_dup2, ["open old", "write old 1", "close old", "close old"]),
    "os-closerange": (_closerange, ["open old", "close old"]),
    "os-makedirs": (lambda d: os.makedirs(f"{d}/a/b"), ["mkdir a", "mkdir a/b"]),
    "os-removedirs": (lambda d: os.removedirs(f"{d}/sub"), ["rmdir sub", "rmdir ."]),
    "os-renames": (
        lambda d: os.renames(f"{d}/old", f"{d}/sub/x/new"),
        ["mkdir sub/x", "rename old>sub/x/new", "rmdir ."],
    ),
    "os-link-remove-truncate": (_gone_by_name, ["link old>twin", "unlink twin", "truncate old 4"]),
    "os-symlink": (lambda d: os.symlink("old", f"{d}/way"), ["link old>way"]),
    "dir-fd": (_dir_fd, ["open new", "mkdir made", "rename new>newer", "unlink newer", "rmdir made"]),
    "relative-paths": (_relative, ["mkdir made", "rename old>sub/old", "mkdir made/x"]),
    "bytes-path": (_bytes_path, ["mkdir made"]),
    "pathlike": (_pathlike, ["rename old>older"]),
    "through-a-symlink": (_through_link, ["mkdir sub/made"]),
    "moved-in-from-outside": (_moved_in, ["rename ../outside/file>new"]),
    "pathlib-file": (
        _pathlib_touch,
        [
            "open new",
            "close new",
            "open new",
            "flush new",
            "write new 4",
            "close new",
            "open new",
            "read new",
            "close new",
            "rename new>a",
            "rename a>b",
            "unlink b",
        ],
    ),
    "pathlib-folder": (_pathlib_folder, ["mkdir made", "rmdir made", "link old>made"]),
    "mkstemp": (_mkstemp, ["open TMP", "close TMP", "rename TMP>new"]),
    "named-temporary-file": (_named, ["open TMP", "flush TMP", "write TMP 4", "close TMP", "unlink TMP"]),
    "named-temporary-file-kept": (
        _kept,
        ["open TMP", "flush TMP", "write TMP 4", "close TMP", "rename TMP>new"],
    ),
    "temporary-directory": (
        _folder_of_tempfile,
        ["mkdir TMP", "open TMP/f", "close TMP/f", "open TMP", "unlink TMP/f", "rmdir TMP", "close TMP"],
    ),
    "shutil-rmtree": (_rmtree, ["open tree", "unlink tree/f", "rmdir tree", "close tree"]),
    "shutil-copyfile": (
        _copyfile,
        ["open old", "open new", "read old 9", "write new 9", "close new", "close old"],
    ),
    "shutil-move": (_move, ["rename old>new"]),
    "thread": (_thread, ["thread"]),
    "thread-pool": (_pool, ["thread"]),
}


@pytest.mark.parametrize("name", CASES)
def test_every_way_to_touch_a_file_is_seen(tmp_path: Path, name: str) -> None:
    """Each call of the standard library is counted as its operations, on their paths, in order, and nothing is unseen."""
    action, expected = CASES[name]
    seen = record(tmp_path, action)
    made = {word for text in seen for word in text.replace(">", " ").split() if len(word.split("/")[0]) >= 8}
    temporary = (
        {word.split("/")[0] for word in made} - {"truncate", "fsyncdir"} if "TMP" in str(expected) else set()
    )
    for word in temporary:
        seen = [text.replace(word, "TMP") for text in seen]
    if name in {"shutil-rmtree", "temporary-directory"}:
        # Versions of Python differ in whether the descriptor is closed before or after the directory is removed.
        assert sorted(seen) == sorted(expected)
    else:
        assert seen == expected


@pytest.mark.parametrize("place", ["beside", "above", "lookalike"])
def test_nothing_outside_the_root_is_counted(tmp_path: Path, place: str) -> None:
    """Operations beside the root, above it, or in a directory whose name only begins like it are not counted."""
    root = tmp_path / "root"
    root.mkdir()
    other = {"beside": tmp_path / "other", "above": tmp_path, "lookalike": tmp_path / "root2"}[place]
    other.mkdir(exist_ok=True)
    with disk.armed(str(root), Plan.parse("write#1+:EIO;open#1+:EIO;mkdir#1+:EIO")) as injector:
        (other / "f").write_text("fine")
        (other / "g").mkdir()
    assert injector.operations == 0
    assert (other / "f").read_text() == "fine"


def test_a_root_behind_a_symlink_is_recognised_under_both_names(tmp_path: Path) -> None:
    """A root given through a symbolic link is the same root when a writer uses the resolved name, and the other way."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for given in ("real", "link"):
        seen: list[str] = []
        with disk.armed(str(tmp_path / given), NONE, observe=lambda op, _: seen.append(_text(op))):
            for used in ("real", "link"):
                os.mkdir(tmp_path / used / f"{given}{used}")
                fd = os.open(tmp_path / used, os.O_RDONLY)
                os.close(fd)
        assert seen == [
            *(f"mkdir {given}real", "open .", "close ."),
            *(f"mkdir {given}link", "open .", "close ."),
        ]
