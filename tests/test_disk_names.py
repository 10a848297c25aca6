"""The disk mechanism: names bound before a trial, what is restored after it, and what never passed through it."""

import io
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection.mechanisms import disk
from fault_injection.plan import Plan


def text_of(op: disk.Op) -> str:
    """An operation in words."""
    where = f"{op.path}>{op.target}" if op.target else op.path
    return f"{op.kind} {where} {op.size}" if op.size else f"{op.kind} {where}"


EARLY = """
import io, os
from os import fsync, mkdir, replace
from io import open as early_open, FileIO

class Names:
    move = os.replace
    make = staticmethod(mkdir)

    def drop(self, path, unlink=os.unlink):
        unlink(path)

def sync(fd, *, sync=fsync):
    sync(fd)

def write(folder):
    mkdir(folder + "/a")
    Names.make(folder + "/b")
    with early_open(folder + "/f", "w") as file:
        file.write("x")
        file.flush()
        fsync(file.fileno())
        sync(file.fileno())
    FileIO(folder + "/g", "w").close()
    replace(folder + "/f", folder + "/h")
    Names().move(folder + "/h", folder + "/i")
    Names().drop(folder + "/i")
"""


@pytest.fixture
def early() -> Iterator[types.ModuleType]:
    """A module that holds the functions under names of its own."""
    module = types.ModuleType("early_names")
    sys.modules["early_names"] = module
    exec(EARLY, vars(module))
    yield module
    del sys.modules["early_names"]


def test_names_bound_before_the_trial_are_seen_and_restored(tmp_path: Path, early: types.ModuleType) -> None:
    """Functions imported by name, as class attributes and as defaults are watched while armed, and original after."""
    before = {name: value for name, value in vars(early).items() if callable(value)}
    members = dict(vars(early.Names))
    defaults = (early.Names.drop.__defaults__, dict(early.sync.__kwdefaults__))
    seen: list[str] = []
    with disk.armed(str(tmp_path), Plan(), observe=lambda op, _: seen.append(text_of(op))):
        early.write(str(tmp_path))
    assert seen == [
        *(
            "mkdir a",
            "mkdir b",
            "open f",
            "flush f",
            "write f 1",
            "fsync f",
            "fsync f",
            "close f",
            "open g",
            "close g",
        ),
        *("rename f>h", "rename h>i", "unlink i"),
    ]
    assert all(vars(early)[name] is value for name, value in before.items())
    assert all(vars(early.Names)[name] is value for name, value in members.items())
    assert defaults == (early.Names.drop.__defaults__, early.sync.__kwdefaults__)


def test_every_name_holds_its_original_again(tmp_path: Path) -> None:
    """After a trial, also one that ends in an error, every patched name is the original object."""
    watched = [*disk.originals.OS, "fdopen", "makedirs"]
    before = [open, io.open, io.FileIO, threading.Thread.start, *(getattr(os, name) for name in watched)]
    features = [set(names) for names in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)]
    with pytest.raises(ZeroDivisionError), disk.armed(str(tmp_path), Plan()):
        assert open is not before[0]
        assert os.unlink in os.supports_dir_fd
        raise ZeroDivisionError
    after = [open, io.open, io.FileIO, threading.Thread.start, *(getattr(os, name) for name in watched)]
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert features == [os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks]


def test_what_a_child_process_writes_is_reported_as_unseen(tmp_path: Path) -> None:
    """A file made, changed or moved by a child process is unseen; one made through the layer is not."""
    (tmp_path / "was").write_text("before")
    script = "import os,sys; os.chdir(sys.argv[1]); open('made','w'); open('was','a').write('x'); os.rename('a','b')"
    with disk.armed(str(tmp_path), Plan()) as injector:
        for name in ("a", "mine"):
            (tmp_path / name).write_text("x")
        assert injector.unseen() == ()
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
        assert injector.unseen() == ("b", "made", "was")


def test_what_c_code_writes_to_an_open_file_is_reported_as_unseen(tmp_path: Path) -> None:
    """Bytes that C code puts into a file below the root are unseen, also when the layer writes to that file after them."""
    numpy = pytest.importorskip("numpy")
    with disk.armed(str(tmp_path), Plan()) as injector, open(tmp_path / "f", "wb") as file:
        numpy.zeros(4).tofile(file)
        assert injector.unseen() == ("f",)
        file.write(b"more")
        file.flush()
        assert injector.unseen() == ("f",)


def test_isinstance_of_fileio_holds_for_every_raw_file(tmp_path: Path) -> None:
    """While armed, `isinstance(f, io.FileIO)` is true for raw files inside and outside the root, made before or now."""
    with open(tmp_path / "before", "wb", buffering=0) as before:
        os.mkdir(tmp_path / "root")
        with disk.armed(str(tmp_path / "root"), Plan()):
            with (
                open(tmp_path / "root" / "f", "wb", buffering=0) as inside,
                open(tmp_path / "g", "wb", 0) as outside,
            ):
                assert all(isinstance(file, io.FileIO) for file in (before, inside, outside))
                assert issubclass(type(before), io.FileIO)
                assert not isinstance(sys.stdout, io.FileIO)


def test_an_opener_is_asked_before_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """Python asks the opener before it finds that text cannot be unbuffered; below the root it is no other."""
    asked = []

    def opener(path: str, flags: int) -> int:
        asked.append(path)
        return os.open(path, flags)

    path = str(tmp_path / "f")
    with disk.armed(str(tmp_path), Plan()), pytest.raises(ValueError, match="unbuffered"):
        open(path, "w", 0, opener=opener)
    assert asked == [path]
