"""The publisher at its edges: which files are one, what is done once, and what others do meanwhile."""

import errno
import os
from collections import Counter

import pytest

from verl_dump import files
from verl_dump.files import Publisher

LINES = [b'{"a":1}\n']


@pytest.fixture
def counted(monkeypatch):
    """The number of calls of `os` so far, by name; the next write may be made to fail."""
    counted = Counter()

    def wrap(name, real):
        def call(*args, **kwargs):
            counted[name] += 1
            if name == "write" and counted["fail"]:
                counted["fail"] = 0
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        return call

    for name in ("write", "unlink", "fsync"):
        monkeypatch.setattr(os, name, wrap(name, getattr(os, name)))
    return counted


def test_other_steps_and_directories_are_other_files(tmp_path):
    """A run that dumps no step twice may dump several into one directory, and one into several."""
    publisher = Publisher(same_step="error")
    for name in ("a/3.jsonl", "a/4.jsonl", "b/3.jsonl", "a/b/3.jsonl"):
        publisher.publish(str(tmp_path / name), LINES)
        assert (tmp_path / name).read_bytes() == LINES[0]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param("node-7.cluster", "node_7.cluster", id="dashes"),
        pytest.param("a/b c\n", "a_b_c_", id="what-no-file-name-has"),
        pytest.param("Ünïx", "_n_x", id="beyond-ascii"),
        pytest.param("", "host", id="nameless"),
    ],
)
def test_the_host_is_a_part_of_a_file_name(name, part):
    """The name of any host becomes a text that a file name may hold and that has no separator of its parts in it."""
    assert files._host(name) == part


def test_a_long_host_name_is_cut():
    """However long the name of the host, a temporary file has a name that file systems take."""
    assert 0 < len(files._host("x" * 300)) < 100


def test_the_umask_decides_who_may_read(tmp_path):
    """A dump has the permissions of any other new file, so that who may read it is the umask's to say."""
    for mask, mode in ((0, 0o666), (0o027, 0o640)):
        os.umask(mask)
        Publisher().publish(str(tmp_path / "3.jsonl"), LINES)
        assert os.stat(tmp_path / "3.jsonl").st_mode & 0o777 == mode


def test_second_dump_of_a_step_is_told_of_with_its_file(tmp_path):
    """Where a step may be dumped once, the error of the second dump is that its file exists."""
    publisher = Publisher(same_step="error")
    path = str(tmp_path / "3.jsonl")
    publisher.publish(path, LINES)
    with pytest.raises(FileExistsError) as caught:
        publisher.publish(path, LINES)
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, path)


@pytest.mark.parametrize("gone", [False, True], ids=["removed-here", "removed-by-another"])
def test_what_is_gone_is_not_removed_again(tmp_path, counted, monkeypatch, gone):
    """A temporary file that is gone, whoever removed it, is no matter of later dumps."""
    publisher = Publisher()
    real = os.unlink

    def unlink(path):
        if gone and os.path.exists(path):
            os.remove(path)
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    counted["fail"] = 1
    with pytest.raises(OSError, match="No space"):
        publisher.publish(str(tmp_path / "3.jsonl"), LINES)
    assert os.listdir(tmp_path) == []
    before = counted["unlink"]
    publisher.publish(str(tmp_path / "4.jsonl"), LINES)
    publisher.tidy()
    assert counted["unlink"] == before


def test_a_new_directory_is_synced_once(tmp_path, counted):
    """The entry of a new directory is synced with its first dump; later ones sync their file and the directory."""
    publisher = Publisher()
    publisher.publish(str(tmp_path / "new" / "3.jsonl"), LINES)
    before = counted["fsync"]
    publisher.publish(str(tmp_path / "new" / "4.jsonl"), LINES)
    assert counted["fsync"] - before == 2


def test_another_may_make_the_directory_meanwhile(tmp_path, monkeypatch):
    """A directory that another process makes at the same time is as good as one made here."""
    directory = str(tmp_path / "new")
    real = os.path.isdir

    def isdir(path):
        there = real(path)
        if path == directory and not there:
            os.mkdir(path)
        return there

    monkeypatch.setattr(os.path, "isdir", isdir)
    Publisher().publish(os.path.join(directory, "3.jsonl"), LINES)
    assert os.listdir(directory) == ["3.jsonl"]


def test_a_file_that_takes_nothing_is_an_input_output_error(tmp_path, monkeypatch):
    """A write that takes no byte and gives no reason is the error of a broken device, so that advice can be given."""
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(OSError, match="takes no more bytes") as caught:
        Publisher().publish(str(tmp_path / "3.jsonl"), LINES)
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("content", [b"", b'{"a":', b"changed"], ids=["emptied", "cut", "longer-line"])
def test_a_file_that_another_has_changed_is_told_of(tmp_path, content):
    """To merge with a file that is not as this run left it is the error of a stale handle, of that file."""
    path = str(tmp_path / "3.jsonl")
    publisher = Publisher()
    publisher.publish(path, LINES)
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(OSError, match="someone else changed the file") as caught:
        publisher.publish(path, LINES)
    assert (caught.value.errno, caught.value.filename) == (errno.ESTALE, path)


def test_a_directory_that_cannot_be_listed_takes_dumps(tmp_path, monkeypatch):
    """That leftovers cannot be looked for is no matter of the dump."""

    def listdir(_):
        raise PermissionError(errno.EACCES, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listdir)
        Publisher().publish(str(tmp_path / "3.jsonl"), LINES)
    assert os.listdir(tmp_path) == ["3.jsonl"]


def test_to_ask_for_a_process_is_to_send_it_no_signal(monkeypatch):
    """Whether another process lives is asked by the signal 0, which it does not notice."""
    sent = []
    monkeypatch.setattr(os, "kill", lambda *args: sent.append(args))
    assert files._lives(os.getpid() + 1)
    assert sent == [(os.getpid() + 1, 0)]


def test_a_leftover_that_stays_does_not_save_another(tmp_path, monkeypatch):
    """Where one leftover of a killed process cannot be removed, the others are removed all the same."""
    names = [f".{step}.jsonl.{files._HOST}-{os.getpid()}-99999{step}.tmp" for step in range(4)]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    real, refused = os.unlink, []

    def unlink(path):
        if not refused:
            refused.append(os.path.basename(path))
            raise PermissionError(errno.EPERM, "no", path)
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    Publisher().publish(str(tmp_path / "3.jsonl"), LINES)
    assert sorted(os.listdir(tmp_path)) == sorted([*refused, "3.jsonl"])


def test_windows_is_asked_nothing_that_it_answers_otherwise(monkeypatch):
    """On Windows no directory is opened, and no process is sent a signal that would end it."""

    def kill(*_):
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", kill)
        patch.setattr(os, "name", "nt")
        opens, lives = files._opens_directories(), files._lives(os.getpid() + 1)
    assert (opens, lives) == (False, True)
