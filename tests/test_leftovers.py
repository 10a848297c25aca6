"""Temporary files and their names: what a failure leaves is found again, whoever looks for it."""

import errno
import os

import pytest

from verl_dump import files
from verl_dump.files import Publisher

LINES = [b'{"a":1}\n']


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "3.jsonl")


def names(path):
    return sorted(os.listdir(os.path.dirname(path)))


@pytest.fixture
def failing(monkeypatch):
    """Let calls of `os` fail, by name and code, until they are allowed again."""
    codes = {}

    def wrap(name, real):
        def call(*args, **kwargs):
            if name in codes:
                raise OSError(codes[name], os.strerror(codes[name]), *args[:1])
            return real(*args, **kwargs)

        return call

    for name in ("open", "write", "unlink", "replace"):
        monkeypatch.setattr(os, name, wrap(name, getattr(os, name)))
    return codes


@pytest.mark.parametrize(("umask", "mode"), [(0o027, 0o640), (0, 0o666)], ids=["masked", "open"])
def test_mode_of_an_ordinary_file(path, umask, mode):
    """A dump may be read and written by whom the umask lets, as any file that `open` makes, and is no program."""
    os.umask(umask)
    Publisher().publish(path, LINES)
    assert os.stat(path).st_mode & 0o777 == mode


def test_another_publisher_removes_what_could_not_be_removed(path, failing):
    """What one publisher of this process could not remove is a leftover to the next one."""
    failing.update(write=errno.ENOSPC, unlink=errno.EIO)
    with pytest.raises(OSError, match="No space"):
        Publisher().publish(path, LINES)
    assert len(names(path)) == 1
    failing.clear()
    Publisher().publish(path, LINES)
    assert names(path) == ["3.jsonl"]


def test_name_that_was_passed_by_is_a_leftover(path, failing):
    """A leftover whose name a new file could not have is removed by the next publisher that can."""
    number = int(repr(files._NUMBERS).strip("count()"))
    taken = os.path.join(os.path.dirname(path), f".3.jsonl.{files._HOST}-{os.getpid()}-{number}.tmp")
    with open(taken, "xb"):
        pass
    failing.update(unlink=errno.EPERM)
    Publisher().publish(path, LINES)
    assert names(path) == sorted([os.path.basename(taken), "3.jsonl"])
    failing.clear()
    Publisher().publish(path, LINES)
    assert names(path) == ["3.jsonl"]


@pytest.mark.parametrize("name", ["open", "write", "replace"])
def test_no_name_is_kept_of_a_failed_dump(path, failing, name):
    """Nothing that a process remembers grows with the number of its failed dumps."""
    failing[name] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        Publisher().publish(path, LINES)
    assert files._OPENED == set()


def test_taken_names_are_told_of_with_the_directory(path, failing):
    """When no temporary name is free, the error is the operating system's for a file that exists, of that directory."""
    failing["open"] = errno.EEXIST
    with pytest.raises(FileExistsError) as caught:
        Publisher().publish(path, LINES)
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, os.path.dirname(path))
