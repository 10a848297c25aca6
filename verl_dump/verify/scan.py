"""Lists a directory: which names are dumps, and what the others look like."""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass

from verl_dump.verify.words import shown_path

SUFFIX = ".jsonl"
_PLAIN = re.compile(r"0|-?[1-9][0-9]*")
_PADDED = re.compile(r"-?[0-9]+")
# By name alone: what writes such a name is known from its documentation or its source, and not asked.
_REFERENCE = re.compile(r"\.(-?\d+)\.jsonl\.([A-Za-z0-9._]+)-(\d+)-\d+\.tmp")
_LOOKS = (
    (re.compile(r"\.nfs[0-9a-fA-F]+"), "a deleted file that some process holds open (NFS)"),
    (
        re.compile(r"(?i).*\.(?:tmp|temp|part|partial|incomplete|staging|lock)(?:[-._].*)?"),
        "a temporary file",
    ),
    (re.compile(r"(?i)[._]*(?:tmp|temp|staging)(?:[-._].*)?|tmp[a-z0-9_]{8}"), "a temporary file"),
    (re.compile(r".*~|#.*#|\..*\.sw[a-p]"), "what an editor leaves"),
    (re.compile(r"\.-?\d+\.jsonl.+"), "a temporary file"),
    (re.compile(r"(?i).*\.jsonl\.(?:gz|bz2|xz|zst|lz4)"), "a compressed file, which is not read"),
    (re.compile(r"(?i).*\.jsonl.+"), "something made of a dump"),
    (re.compile(r"\..*"), "a hidden file"),
)
_TYPES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class Dump:
    """A file with the name of a dump.

    Attributes:
        step: that its name says; None where that is no integer.
        name: of the file.
        size: in bytes, when it was listed.
    """

    step: int | None
    name: str
    size: int


def step_of(name: str) -> int | None:
    """Return the step that a file's name says, None if its stem is no integer."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if _PADDED.fullmatch(stem) else None


def list_dumps(
    path: str, named: Collection[tuple[int, int]], add: Callable[[str, str, str], None]
) -> list[Dump]:
    """Return the dumps of a directory, by step.

    Args:
        path: the directory.
        named: device and inode of folders that are looked at for themselves.
        add: is told kind, file and message of whatever is wrong with a name.

    Raises:
        OSError: the directory cannot be listed.
    """
    dumps: list[Dump] = []
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if not entry.name.endswith(SUFFIX):
                if message := _stray(entry, named):
                    add("stray", entry.name, message)
                continue
            try:
                status = entry.stat()
            except OSError as error:
                add(*_not_there(entry, error))
                continue
            if what := special(status.st_mode):
                add("not-a-file", entry.name, f"{what} has the name of a dump")
                continue
            step = step_of(entry.name)
            if step is None:
                add("bad-name", entry.name, "its name is no integer: readers of *.jsonl stumble over it")
            elif not _PLAIN.fullmatch(entry.name.removesuffix(SUFFIX)):
                add("leading-zeros", entry.name, f"the file of step {step} is {step}{SUFFIX}")
            dumps.append(Dump(step, entry.name, status.st_size))
    dumps.sort(key=lambda each: (each.step is None, each.step or 0, each.name))
    for earlier, later in itertools.pairwise(dumps):
        if earlier.step is not None and earlier.step == later.step:
            add("two-names", later.name, f"{shown_path(earlier.name)} is of step {later.step} too")
    return dumps


def special(mode: int) -> str:
    """Say what something is that is no regular file; nothing for one that is."""
    return "" if stat.S_ISREG(mode) else next((what for test, what in _TYPES if test(mode)), "no file")


def _not_there(entry: os.DirEntry[str], error: OSError) -> tuple[str, str, str]:
    if error.errno == errno.ELOOP:
        return "not-a-file", entry.name, "a link that leads in a circle has the name of a dump"
    if error.errno in {errno.ENOENT, errno.ENOTDIR} and entry.is_symlink():
        target = shown_path(os.readlink(entry.path))
        return "not-a-file", entry.name, f"a link to {target}, which is not there, has the name of a dump"
    if error.errno == errno.ENOENT:
        return "changed", entry.name, "it was removed while the directory was listed"
    return "unreadable", entry.name, f"cannot be looked at: {error.strerror}"


def _stray(entry: os.DirEntry[str], named: Collection[tuple[int, int]]) -> str:
    """Say what something looks like that is no dump; nothing where nothing is to be said."""
    if match := _REFERENCE.fullmatch(entry.name):
        step, host, pid = match.groups()
        return (
            f"the temporary file of the reference writer for step {step} (process {pid} on {shown_path(host)}): "
            "being written, or left by a killed process; then the next run on that host removes it"
        )
    looks = next((what for pattern, what in _LOOKS if pattern.fullmatch(entry.name)), "no dump")
    if not entry.is_dir(follow_symlinks=False):
        return f"{looks}{_of_type(entry)}"
    if looks.startswith("a temporary"):
        return "a staging folder, which is not looked into"
    try:
        status = os.stat(entry.path)
    except OSError:
        return "a folder, which is not looked into"
    if (status.st_dev, status.st_ino) in named:
        return ""
    hidden = "a hidden folder" if entry.name.startswith(".") else "a folder"
    return f"{hidden}, which is not looked into; name it to have it checked"


def _of_type(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return ", a link"
    if entry.is_file(follow_symlinks=False):
        return ""
    try:
        what = special(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return ""
    return f", {what}" if what else ""
