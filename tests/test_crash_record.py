"""Recording: every change below the root is written down with its bytes, and nothing is when nobody asked."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fault_injection.crash.model import Disk, visible
from fault_injection.crash.record import Journal, Recorder
from fault_injection.look import DiskLook
from fault_injection.mechanisms import disk
from fault_injection.plan import Plan

Action = Callable[[str], object]


def recorded(root: Path, action: Action, plan: str = "none") -> Journal:
    """What a recorder writes down of an action below a directory."""
    with disk.armed(str(root), Plan.parse(plan)) as injector:
        injector.layer.recorder = recorder = Recorder(os.path.realpath(root))
        action(str(root))
    return recorder.journal()


def end_of(journal: Journal) -> dict[str, bytes]:
    """The files that the recorded steps lead to."""
    end = Disk(journal)
    for _ in journal.steps:
        end.advance()
    shown = visible(end.live, journal.folders, end.links)
    return {path: end.files[entry.node].content for path, entry in shown.items()}


def _buffered(root: str) -> None:
    with open(f"{root}/f", "w", encoding="utf-8") as file:
        file.write("one\n")
        file.flush()
        file.write("two\n")


def _appended(root: str) -> None:
    with open(f"{root}/old", "ab") as file:
        file.write(b" and more")
    descriptor = os.open(f"{root}/old", os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, b" at the end")
    os.close(descriptor)


def _at_offsets(root: str) -> None:
    descriptor = os.open(f"{root}/f", os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, b"later", 10)
    os.pwrite(descriptor, b"first", 0)
    os.writev(descriptor, [b"ab", b"cd"])
    os.lseek(descriptor, 3, os.SEEK_SET)
    os.write(descriptor, b"!")
    os.close(descriptor)


def _rewritten(root: str) -> None:
    with open(f"{root}/old", "wb") as file:
        file.write(b"new")


def _resized(root: str) -> None:
    os.truncate(f"{root}/old", 2)
    with open(f"{root}/old", "rb+") as file:
        file.truncate(6)
        os.ftruncate(file.fileno(), 4)


def _copied(root: str) -> None:
    source, target = os.open(f"{root}/old", os.O_RDONLY), os.open(f"{root}/f", os.O_WRONLY | os.O_CREAT)
    os.sendfile(target, source, 0, 3)
    os.close(source)
    os.close(target)


def _moved(root: str) -> None:
    os.makedirs(f"{root}/d/e")
    os.rename(f"{root}/old", f"{root}/d/f")
    os.replace(f"{root}/d", f"{root}/g")
    with open(f"{root}/g/e/h", "xb") as file:
        file.write(b"deep")


def _linked(root: str) -> None:
    os.link(f"{root}/old", f"{root}/second")
    os.symlink("second", f"{root}/symbolic")
    os.rename(f"{root}/old", f"{root}/second")
    os.unlink(f"{root}/old")
    with open(f"{root}/second", "ab") as file:
        file.write(b"!")


def _made_anew(root: str) -> None:
    for text in (b"1", b"2"):
        with open(f"{root}/f", "wb") as file:
            file.write(text)
        os.rename(f"{root}/f", f"{root}/g")
        os.unlink(f"{root}/g")
    with open(f"{root}/f", "wb") as file:
        file.write(b"3")
    os.mkdir(f"{root}/d")
    os.rmdir(f"{root}/d")


def _written_while_moved(root: str) -> None:
    with open(f"{root}/f", "wb", buffering=0) as file:
        file.write(b"before")
        os.rename(f"{root}/f", f"{root}/g")
        file.write(b" after")


def _through_fileio(root: str) -> None:
    with io.FileIO(f"{root}/f", "w") as file:
        file.write(b"raw")
        file.seek(1)
        file.write(b"o")


def _from_outside(root: str) -> None:
    outside = f"{root}-outside"
    with open(outside, "wb") as file:
        file.write(b"from elsewhere")
    os.rename(outside, f"{root}/f")
    os.rename(f"{root}/old", outside)
    os.unlink(outside)


ACTIONS = [
    _buffered, _appended, _at_offsets, _rewritten, _resized, _copied, _moved, _linked, _made_anew,
    _written_while_moved, _through_fileio, _from_outside,
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__.strip("_").replace("_", "-"))
def test_the_recorded_steps_lead_to_what_is_on_disk(tmp_path: Path, action: Action) -> None:
    """Whatever way a file is written, moved or removed, the journal's end is the directory as it is."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "old").write_bytes(b"as it was")
    journal = recorded(root, action)
    assert end_of(journal) == DiskLook(str(root))()


def _synced(root: str) -> None:
    with open(f"{root}/f", "wb", buffering=0) as file:
        file.write(b"x")
        os.fsync(file)
    folder = os.open(root, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    os.sync()


def test_syncs_of_files_directories_and_everything_are_told_apart(tmp_path: Path) -> None:
    """A sync names the file or directory that it was of; os.sync is one of everything."""
    steps = recorded(tmp_path, _synced).steps
    assert [(step.kind, step.node) for step in steps] == [
        ("create", 1), ("write", 1), ("sync", 1), ("sync", 0), ("syncall", 0),
    ]  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "O_SYNC"), reason="needs O_SYNC")
def test_a_file_that_writes_through_is_synced_by_each_write(tmp_path: Path) -> None:
    """What goes through a descriptor opened with O_SYNC is durable when the write returns."""

    def action(root: str) -> None:
        descriptor = os.open(f"{root}/f", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
        os.write(descriptor, b"x")
        os.close(descriptor)

    assert [step.kind for step in recorded(tmp_path, action).steps] == ["create", "write", "sync"]


@pytest.mark.parametrize(
    ("plan", "kind"), [("fsync#1:lost", "lose"), ("fsync#1:EIO", "")], ids=["lost", "failed"]
)
def test_a_sync_that_failed_is_none(tmp_path: Path, plan: str, kind: str) -> None:
    """A failed sync makes nothing durable; one that drops the data is written down as such."""

    def action(root: str) -> None:
        with open(f"{root}/f", "wb", buffering=0) as file:
            file.write(b"x")
            with pytest.raises(OSError, match="Input/output"):
                os.fsync(file)

    steps = [step.kind for step in recorded(tmp_path, action, plan).steps]
    assert steps == ["create", "write", *([kind] if kind else [])]


def test_what_the_harness_does_itself_is_not_recorded(tmp_path: Path) -> None:
    """Reading, looking and bypassed calls leave the journal empty, and so does a run that nobody records."""

    def action(root: str) -> None:
        with disk.bypass(), open(f"{root}/f", "wb") as file:
            file.write(b"x")
        os.listdir(root)
        os.sync()

    with disk.armed(str(tmp_path), Plan()) as injector:
        assert injector.layer.recorder is None
        action(str(tmp_path))
    assert [step.kind for step in recorded(tmp_path, action).steps] == ["syncall"]
