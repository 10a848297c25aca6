"""Publishing: atomic, synced, and nothing left behind."""

import errno
import fnmatch
import os
import subprocess
import sys
import threading

import pytest

from verl_dump import files
from verl_dump.files import Publisher, locate

BLOCKS = [b'{"a": 1}\n' * 100, b'{"b": 2}\n' * 100]
WHOLE = b"".join(BLOCKS)
HOST = files._HOST
CALLS = ("mkdir", "open", "write", "fsync", "close", "replace", "unlink")


class Calls:
    """The file operations below one directory in order, each of which a test may let fail."""

    def __init__(self, monkeypatch):
        self.seen = []
        self.plan = {}
        self.watchers = []
        self.thread = threading.get_ident()
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name)))

    def wrap(self, name, real):
        def call(*args, **kwargs):
            if threading.get_ident() != self.thread:
                return real(*args, **kwargs)
            self.seen.append(name)
            for watch in self.watchers:
                watch()
            action = self.plan.get((name, self.seen.count(name))) or self.plan.get(name)
            if action is None:
                return real(*args, **kwargs)
            if name == "close":
                real(*args)  # Linux releases the descriptor even when close fails
            return action(real, *args)

        return call

    def fail(self, name, number, code):
        def action(real, *args):
            raise OSError(code, os.strerror(code))

        self.plan[(name, number) if number else name] = action


@pytest.fixture
def calls(monkeypatch):
    return Calls(monkeypatch)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "3.jsonl")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_publish(path):
    """A published file holds all of its blocks, and nothing else is in the directory."""
    Publisher().publish(path, BLOCKS)
    assert read(path) == WHOLE
    assert os.listdir(os.path.dirname(path)) == ["3.jsonl"]


def test_never_partial(path, calls):
    """At every operation what stands under the final name is absent or whole, and no other name matches."""
    seen = set()

    def look():
        for name in os.listdir(os.path.dirname(path)):
            if fnmatch.fnmatch(name, "*.jsonl"):
                seen.add((name, read(path)))
            else:
                assert name.startswith(".3.jsonl.")
                assert name.endswith(".tmp")

    calls.watchers.append(look)
    Publisher().publish(path, [b"old\n"])
    Publisher().publish(path, BLOCKS)
    look()
    assert seen == {("3.jsonl", b"old\n"), ("3.jsonl", WHOLE)}


def test_order_of_syncs(path, calls):
    """The file is synced before it gets its name and the directory after, so that neither can be lost."""
    Publisher().publish(path, [b"x\n"])
    assert calls.seen == ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]


def test_without_fsync(path, calls):
    """With fsync turned off nothing is synced and the file is as complete."""
    Publisher(fsync=False).publish(path, BLOCKS)
    assert "fsync" not in calls.seen
    assert read(path) == WHOLE


def test_new_directories_are_synced(tmp_path, monkeypatch):
    """Each directory that was made has its entry synced in the directory it lies in."""
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
    Publisher().publish(str(tmp_path / "a" / "b" / "3.jsonl"), BLOCKS)
    assert set(synced[:-2]) == {str(tmp_path), str(tmp_path / "a")}
    assert synced[-1] == str(tmp_path / "a" / "b")


def test_unsynced_directory_is_not_forgotten(tmp_path, calls):
    """A new directory whose entry could not be synced is synced by the next dump into it, or that fails too."""
    path = str(tmp_path / "a" / "3.jsonl")
    publisher = Publisher()
    calls.fail("fsync", 1, errno.EIO)
    calls.fail("fsync", 2, errno.EIO)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            publisher.publish(path, BLOCKS)
    publisher.publish(path, BLOCKS)
    assert calls.seen.count("fsync") == 5
    assert read(path) == WHOLE


def test_failed_directory_is_no_other_ones_matter(tmp_path, calls):
    """A directory that could not be made does not touch dumps into another one."""
    publisher = Publisher()
    calls.fail("mkdir", 1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        publisher.publish(str(tmp_path / "a" / "b" / "3.jsonl"), BLOCKS)
    publisher.publish(str(tmp_path / "3.jsonl"), BLOCKS)
    assert os.listdir(tmp_path) == ["3.jsonl"]


def test_short_writes(path, calls):
    """Writes that take only a few bytes are continued until all is written."""
    calls.plan["write"] = lambda real, fd, data: real(fd, data[:7])
    Publisher().publish(path, BLOCKS)
    assert read(path) == WHOLE
    assert calls.seen.count("write") > len(WHOLE) // 7


def test_write_of_nothing(path, calls):
    """A file that takes no more bytes is an error and not an endless loop."""
    calls.plan["write"] = lambda real, fd, data: 0
    with pytest.raises(OSError, match="takes no more bytes"):
        Publisher().publish(path, BLOCKS)
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize("older", [True, False], ids=["older-file", "no-older-file"])
@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("open", 1, errno.EACCES),
        ("write", 1, errno.ENOSPC),
        ("write", 2, errno.EIO),
        ("fsync", 1, errno.EIO),
        ("close", 1, errno.EDQUOT),
        ("replace", 1, errno.EPERM),
    ],
    ids=["open", "first-write", "second-write", "fsync", "close", "replace"],
)
def test_failure_leaves_nothing(path, calls, older, name, number, code):
    """A failure keeps its errno, leaves no file of its own, and an older file as it was."""
    if older:
        with open(path, "wb") as file:
            file.write(b"old\n")
    calls.fail(name, number, code)
    with pytest.raises(OSError, match=r".") as caught:
        Publisher().publish(path, BLOCKS)
    assert caught.value.errno == code
    assert os.listdir(os.path.dirname(path)) == ["3.jsonl"][: int(older)]
    assert not older or read(path) == b"old\n"
    assert calls.seen.count("open") == calls.seen.count("close") + (name == "open")


def test_source_that_fails(path):
    """Contents that cannot be produced to the end leave nothing behind."""

    def blocks():
        yield b"half"
        raise MemoryError

    with pytest.raises(MemoryError):
        Publisher().publish(path, blocks())
    assert os.listdir(os.path.dirname(path)) == []


def test_failed_fsync_is_final(path, calls):
    """A failed fsync is not tried again: the next one may succeed over lost data."""
    calls.fail("fsync", 1, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        Publisher().publish(path, BLOCKS)
    assert calls.seen.count("fsync") == 1


def test_first_failure_is_told(path, calls):
    """When closing fails after a failed write, the write is what the caller hears of."""
    calls.fail("write", 1, errno.ENOSPC)
    calls.fail("close", 1, errno.EIO)
    with pytest.raises(OSError, match="No space"):
        Publisher().publish(path, BLOCKS)


def test_undeleted_file_goes_later(path, calls):
    """A temporary file that cannot be removed is invisible to readers, and goes as soon as that is possible."""
    publisher = Publisher()
    calls.fail("write", 1, errno.ENOSPC)
    calls.fail("unlink", 1, errno.EIO)
    with pytest.raises(OSError, match="No space"):
        publisher.publish(path, BLOCKS)
    (left,) = os.listdir(os.path.dirname(path))
    assert not fnmatch.fnmatch(left, "*.jsonl")
    publisher.publish(path, BLOCKS)
    assert os.listdir(os.path.dirname(path)) == ["3.jsonl"]


def test_failed_directory_sync(path, calls):
    """A directory that cannot be synced fails the dump, whose file is complete all the same."""
    calls.fail("fsync", 2, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        Publisher().publish(path, BLOCKS)
    assert read(path) == WHOLE
    assert os.listdir(os.path.dirname(path)) == ["3.jsonl"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP], ids=["einval", "enotsup"])
def test_directory_sync_unsupported(path, calls, code):
    """A file system without fsync for directories is no failure."""
    calls.fail("fsync", 2, code)
    Publisher().publish(path, BLOCKS)
    assert read(path) == WHOLE


def test_no_directory_sync_on_windows(path, calls, monkeypatch):
    """Where directories cannot be opened they are not."""
    monkeypatch.setattr(files, "_opens_directories", lambda: False)
    Publisher().publish(path, BLOCKS)
    assert calls.seen == ["open", "write", "write", "fsync", "close", "replace"]


def test_file_in_place_of_directory(tmp_path):
    """A file where a directory belongs is the error of the operating system."""
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(OSError, match=r".") as caught:
        Publisher().publish(str(tmp_path / "file" / "3.jsonl"), BLOCKS)
    assert caught.value.errno in (errno.EEXIST, errno.ENOTDIR)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_taken_name(path):
    """A leftover that has the name of a new temporary file, and that stays, is passed by."""
    number = int(repr(files._NUMBERS).strip("count()")) + 1
    taken = f".3.jsonl.{HOST}-{os.getpid()}-{number}.tmp"
    publisher = Publisher()
    publisher.publish(path, [b"first\n"])  # the directory is swept only once
    with open(os.path.join(os.path.dirname(path), taken), "xb"):
        pass
    publisher.publish(path, BLOCKS)
    assert sorted(os.listdir(os.path.dirname(path))) == [taken, "3.jsonl"]


def test_all_names_taken(path, calls):
    """When every temporary name is taken the dump fails, and does not try for ever."""
    calls.fail("open", None, errno.EEXIST)
    with pytest.raises(FileExistsError, match="leftover temporary files"):
        Publisher().publish(path, BLOCKS)
    assert files._OPENED == set()


def dead_pid():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(60)
    return child.pid


def leave(directory, name):
    with open(os.path.join(directory, name), "wb") as file:
        file.write(b"half")
    return name


def test_leftovers_are_cleared(path):
    """The first dump into a directory removes what killed processes of this host left, and nothing else."""
    directory = os.path.dirname(path)
    leave(directory, f".1.jsonl.{HOST}-{dead_pid()}-0.tmp")
    leave(directory, f".-2.jsonl.{HOST}-{os.getpid()}-99999.tmp")  # of a process that had this one's number
    kept = [
        leave(directory, f".1.jsonl.{HOST}-{os.getppid()}-0.tmp"),
        leave(directory, f".1.jsonl.another{HOST}-{dead_pid()}-0.tmp"),
        leave(directory, f".1.jsonl.{HOST}-{dead_pid()}-0.tmp.bak"),
        leave(directory, "notes.tmp"),
        leave(directory, "1.jsonl"),
    ]
    Publisher().publish(path, BLOCKS)
    assert sorted(os.listdir(directory)) == sorted([*kept, "3.jsonl"])


def test_files_of_this_process_are_kept(path, calls):
    """What another publisher of this process is writing is no leftover."""
    other = os.path.join(os.path.dirname(path), "4.jsonl")

    def blocks():
        yield b"half "
        Publisher().publish(other, BLOCKS)
        yield b"whole\n"

    Publisher().publish(path, blocks())
    assert read(path) == b"half whole\n"
    assert read(other) == WHOLE


def test_sweep_never_fails_a_dump(path, calls, monkeypatch):
    """Leftovers that cannot be listed or removed are no matter of the dump."""
    leave(os.path.dirname(path), f".1.jsonl.{HOST}-{dead_pid()}-0.tmp")
    calls.fail("unlink", None, errno.EPERM)
    Publisher().publish(path, BLOCKS)

    def refuse(directory):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "listdir", refuse)
    Publisher().publish(path, BLOCKS)
    assert read(path) == WHOLE


def test_living_process_of_another_user(monkeypatch):
    """A process that may not be signalled lives; one that is not there does not."""

    def answer(error):
        def kill(pid, signal):
            assert signal == 0, "to ask is to send none"
            raise error

        return kill

    monkeypatch.setattr(os, "kill", answer(PermissionError()))
    assert files._lives(1)
    monkeypatch.setattr(os, "kill", answer(ProcessLookupError()))
    assert not files._lives(1)


def test_host_name_is_safe():
    """The name of the host in a temporary name has no character that a file name or its parts may not have."""
    assert HOST.replace(".", "").replace("_", "").isalnum()


def test_merge(path):
    """A second publication in one run puts its contents behind the first one's."""
    publisher = Publisher()
    publisher.publish(path, [b"1\n", b"2\n"])
    publisher.publish(path, [b"3\n"])
    publisher.publish(path, [b"4\n"])
    assert read(path) == b"1\n2\n3\n4\n"


def test_merge_into_empty_file(path):
    """A first publication without contents is merged like any other."""
    publisher = Publisher()
    publisher.publish(path, [])
    publisher.publish(path, [b"3\n"])
    assert read(path) == b"3\n"


def test_large_merge(path):
    """Contents of several megabytes are merged whole."""
    publisher = Publisher()
    large = [b"x" * 999_999 + b"\n"] * 3
    publisher.publish(path, large)
    publisher.publish(path, large)
    assert read(path) == b"".join(large * 2)


def test_merge_through_a_link(tmp_path):
    """Two paths to one directory are one file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    publisher = Publisher()
    publisher.publish(str(tmp_path / "real" / "3.jsonl"), [b"1\n"])
    publisher.publish(str(tmp_path / "link" / "3.jsonl"), [b"2\n"])
    assert read(tmp_path / "real" / "3.jsonl") == b"1\n2\n"


def test_new_run_replaces(path):
    """A new run replaces the file of an earlier one."""
    Publisher().publish(path, [b"1\n"])
    Publisher().publish(path, [b"2\n"])
    assert read(path) == b"2\n"


def test_replace(path):
    """With "replace" the second publication of a run takes the place of the first."""
    publisher = Publisher(same_step="replace")
    publisher.publish(path, [b"1\n"])
    publisher.publish(path, [b"2\n"])
    assert read(path) == b"2\n"


def test_error(path):
    """With "error" the second publication of a run fails and the first stays."""
    publisher = Publisher(same_step="error")
    publisher.publish(path, [b"1\n"])
    with pytest.raises(FileExistsError, match="this run has dumped the step already"):
        publisher.publish(path, [b"2\n"])
    assert read(path) == b"1\n"


@pytest.mark.parametrize("same_step", ["merge", "error", "replace"])
def test_second_after_failed_first(path, calls, same_step):
    """A publication that failed does not count: the second one has the file for itself, over an older run's."""
    with open(path, "wb") as file:
        file.write(b"older\n")
    calls.fail("write", 1, errno.ENOSPC)
    publisher = Publisher(same_step=same_step)
    with pytest.raises(OSError, match="No space"):
        publisher.publish(path, [b"1\n"])
    publisher.publish(path, [b"2\n"])
    assert read(path) == b"2\n"


def test_failed_merge_keeps_the_first(path, calls):
    """A merge that fails leaves what was there."""
    publisher = Publisher()
    publisher.publish(path, [b"1\n"])
    calls.fail("write", 3, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        publisher.publish(path, [b"2\n"])
    assert read(path) == b"1\n"
    assert os.listdir(os.path.dirname(path)) == ["3.jsonl"]


def test_merge_after_failed_directory_sync(path, calls):
    """What a failed merge has put in place already does not come twice when it is done again."""
    publisher = Publisher()
    publisher.publish(path, [b"1\n"])
    calls.fail("fsync", 4, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        publisher.publish(path, [b"2\n"])
    publisher.publish(path, [b"2\n"])
    assert read(path) == b"1\n2\n"


def test_merge_after_removal(path):
    """A file that someone took away is not missed: the new contents stand alone."""
    publisher = Publisher()
    publisher.publish(path, [b"1\n"])
    os.unlink(path)
    publisher.publish(path, [b"2\n"])
    assert read(path) == b"2\n"


@pytest.mark.parametrize("content", [b"", b"other content\n"], ids=["shorter", "other-lines"])
def test_merge_into_changed_file(path, content):
    """A file that someone else changed is neither merged with nor replaced."""
    publisher = Publisher()
    publisher.publish(path, [b"first\n"])
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(OSError, match="someone else changed the file"):
        publisher.publish(path, [b"2\n"])
    assert read(path) == content


def test_locate(tmp_path, monkeypatch):
    """A step of any integer type names the file, in an absolute directory whatever the working directory."""
    np = pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    assert locate("dumps", np.int64(3)) == (3, str(tmp_path / "dumps" / "3.jsonl"))
    assert locate(tmp_path / "x", 0) == (0, str(tmp_path / "x" / "0.jsonl"))
    assert locate(os.fsencode(tmp_path), 1) == (1, str(tmp_path / "1.jsonl"))


def test_locate_without_working_directory(tmp_path, monkeypatch):
    """An absolute directory does not need a working directory."""

    def missing():
        raise FileNotFoundError(errno.ENOENT, "gone")

    monkeypatch.setattr(os, "getcwd", missing)
    assert locate(str(tmp_path), 3)[1] == str(tmp_path / "3.jsonl")


@pytest.mark.parametrize("step", [3.0, "3", None], ids=["float", "str", "none"])
def test_step_that_is_no_integer(step):
    """A step that is no integer is an error that says so."""
    with pytest.raises(TypeError, match=f"step must be an integer, not a {type(step).__name__}"):
        locate("d", step)
