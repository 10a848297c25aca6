"""`verl_dump.verify`: how names are judged, and how names, numbers and foreign text are shown."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from verl_dump.verify.scan import Dump, list_dumps, special
from verl_dump.verify.words import counted, shown, shown_path, sized

posix = pytest.mark.skipif(os.name == "nt", reason="needs pipes and links of POSIX")


def listed(path: str, named: tuple[tuple[int, int], ...] = ()) -> tuple[list[Dump], list[tuple[str, ...]]]:
    """The dumps of a directory, and what is said of its names."""
    said: list[tuple[str, ...]] = []
    dumps = list_dumps(path, named, lambda *finding: said.append(finding))
    return dumps, said


def test_dumps_are_in_the_order_of_their_steps(tmp_path: Path) -> None:
    """Dumps come by step and name, those without a step last; two names of one step are told of the second."""
    names = ["-1", "0", "1", "2", "010", "10", "12", "a", "b"]
    for name in names:
        (tmp_path / f"{name}.jsonl").write_text(name)
    dumps, said = listed(str(tmp_path))
    steps = [-1, 0, 1, 2, 10, 10, 12, None, None]
    assert dumps == [Dump(step, f"{name}.jsonl", len(name)) for step, name in zip(steps, names, strict=True)]
    no_integer = "its name is no integer: readers of *.jsonl stumble over it"
    assert said == [
        ("leading-zeros", "010.jsonl", "the file of step 10 is 10.jsonl"),
        ("bad-name", "a.jsonl", no_integer),
        ("bad-name", "b.jsonl", no_integer),
        ("two-names", "10.jsonl", "010.jsonl is of step 10 too"),
    ]


@posix
def test_what_is_no_dump_is_called_what_it_is(tmp_path: Path) -> None:
    """Links, pipes and folders beside the dumps are called so, and nothing is asked of where a link leads."""
    (tmp_path / "1.jsonl").write_text("")
    (tmp_path / "2.jsonl").symlink_to("1.jsonl/x")
    (tmp_path / "b-link").symlink_to(tmp_path)
    (tmp_path / "c-link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "d-pipe")
    os.mkfifo(tmp_path / "e.tmp")
    (tmp_path / "f").mkdir()
    (tmp_path / "g").mkdir()
    (tmp_path / "h.tmp").mkdir()
    (tmp_path / "i-file").write_text("")
    status = (tmp_path / "f").stat()
    dumps, said = listed(str(tmp_path), ((status.st_dev, status.st_ino),))
    assert [each.name for each in dumps] == ["1.jsonl"]
    assert said == [
        ("not-a-file", "2.jsonl", "a link to 1.jsonl/x, which is not there, has the name of a dump"),
        ("stray", "b-link", "no dump, a link"),
        ("stray", "c-link", "no dump, a link"),
        ("stray", "d-pipe", "no dump, a pipe"),
        ("stray", "e.tmp", "a temporary file, a pipe"),
        ("stray", "g", "a folder, which is not looked into; name it to have it checked"),
        ("stray", "h.tmp", "a staging folder, which is not looked into"),
        ("stray", "i-file", "no dump"),
    ]


class Entry(SimpleNamespace):
    """An entry of a directory that changes between two looks at it."""

    def stat(self, *, follow_symlinks: bool = True) -> object:
        if isinstance(self.status, OSError):
            raise self.status
        return SimpleNamespace(st_mode=self.status, st_size=0)

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return self.folder

    def is_symlink(self) -> bool:
        return self.link

    def is_file(self, *, follow_symlinks: bool) -> bool:
        return False


GONE = OSError(errno.ENOENT, "No such file")
FOLDER = "a folder, which is not looked into"
CHANGING = {
    "removed": ("1.jsonl", GONE, False, False, "changed", "it was removed while the directory was listed"),
    "closed": (
        "1.jsonl",
        OSError(errno.EACCES, "Permission denied"),
        False,
        True,
        "unreadable",
        "cannot be looked at: Permission denied",
    ),
    "stray-removed": ("x", GONE, False, False, "stray", "no dump"),
    "stray-replaced": ("x", stat.S_IFREG, False, False, "stray", "no dump"),
    "stray-unknown": ("x", 0, False, False, "stray", "no dump, no file"),
    "folder-removed": ("x", GONE, True, False, "stray", FOLDER),
}


@pytest.mark.parametrize("case", list(CHANGING))
def test_what_changes_while_it_is_listed_is_said(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """What is removed, replaced or closed between two looks is one finding, and never ends the run."""
    name, status, folder, link, *finding = CHANGING[case]

    class Entries(list):
        def __enter__(self) -> list[Entry]:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    entry = Entry(name=name, path=f"/nowhere/{name}", status=status, folder=folder, link=link)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda _: Entries([entry]))
        dumps, said = listed("/nowhere")
    assert (dumps, said) == ([], [(finding[0], name, finding[1])])


def test_kinds_of_files_have_names() -> None:
    """A regular file is nothing special, everything else has a name."""
    modes = [stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, 0]
    names = ["", "a folder", "a pipe", "a socket", "a device", "a device", "no file"]
    assert [special(mode) for mode in modes] == names


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("abcde", "abcde"),
        ("abcdef", "abcd…"),
        ("é😀", "é😀"),
        ("\n\x00\ud800", "\\n\\x00\\ud800"),
        ("\u2028\x85", "\\u2028\\x85"),
    ],
    ids=["limit", "longer", "printable", "unprintable", "separators"],
)
def test_foreign_text_is_one_printable_line(text: str, line: str) -> None:
    """Text is cut at the limit, and what cannot be printed is an escape."""
    assert shown(text, 5) == line


def test_text_is_cut_at_eighty_characters_and_paths_at_4096() -> None:
    """Text is shown up to 80 characters, a path up to 4,096."""
    assert [shown("x" * 80), shown("x" * 81)] == ["x" * 80, "x" * 79 + "…"]
    assert [shown_path("x" * 4096), shown_path("x" * 4097)] == ["x" * 4096, "x" * 4095 + "…"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_path_of_bytes_is_shown_as_escapes() -> None:
    """Bytes of a path that are no UTF-8 are escapes."""
    assert shown_path(os.fsdecode(b"a\xff\xc3\xa9\n")) == "a\\xffé\\n"


def test_numbers_have_their_nouns() -> None:
    """One is singular, other numbers are plural and have their thousands marked."""
    assert [counted(n, "row") for n in (0, 1, 2, 2000)] == ["0 rows", "1 row", "2 rows", "2,000 rows"]
    assert [counted(n, "directory") for n in (1, 2)] == ["1 directory", "2 directories"]


def test_sizes_are_in_decimal_units() -> None:
    """Bytes are whole, greater units have one digit, and the greatest has no end."""
    sizes = {
        0: "0 bytes",
        999: "999 bytes",
        1000: "1.0 kB",
        1_540_000: "1.5 MB",
        2 * 10**9: "2.0 GB",
        3 * 10**12: "3.0 TB",
        5 * 10**15: "5,000.0 TB",
    }
    assert {size: sized(size) for size in sizes} == sizes
