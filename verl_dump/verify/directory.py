"""Checks one directory, or one file."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from verl_dump.verify.between import Between, as_ranges, missing_steps, stride_of
from verl_dump.verify.content import check_file
from verl_dump.verify.rows import PARSER, PARSERS
from verl_dump.verify.scan import SUFFIX, Dump, list_dumps, special, step_of
from verl_dump.verify.tally import Group, Outcome, Tally
from verl_dump.verify.words import counted, shown_path


class PlaceError(Exception):
    """What the user named cannot be read; the message is one line."""


@dataclass(frozen=True)
class Place:
    """What the user named.

    Attributes:
        path: as it was named.
        identity: device and inode.
        is_file: whether it is one dump and no directory.
    """

    path: str
    identity: tuple[int, int]
    is_file: bool


def find_place(path: str) -> Place:
    """Look at what the user named.

    Raises:
        PlaceError: it is not there, cannot be read, or is neither a directory nor a `.jsonl` file.
    """
    name = shown_path(path)
    if not path or "\0" in path:
        raise PlaceError("DIR is empty or no path; name a directory of dumps")
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path):
                pass
    except OSError as error:
        raise PlaceError(f"{name} cannot be read: {error.strerror}{_advice(error)}") from None
    is_file = not stat.S_ISDIR(status.st_mode)
    if is_file and (what := special(status.st_mode)):
        raise PlaceError(f"{name} is {what}; name a directory of dumps, or a {SUFFIX} file")
    if is_file and not path.endswith(SUFFIX):
        raise PlaceError(f"{name} is a file; name a directory of dumps, or a {SUFFIX} file")
    if is_file and not os.access(path, os.R_OK):
        raise PlaceError(f"{name} cannot be read: permission denied; read it as its owner")
    return Place(path, (status.st_dev, status.st_ino), is_file)


def _advice(error: OSError) -> str:
    advice = {
        errno.ENOENT: "name a directory of dumps",
        errno.EACCES: "read it as its owner",
        errno.EPERM: "read it as its owner",
        errno.ELOOP: "the link leads in a circle",
    }
    return f"; {advice[error.errno]}" if error.errno in advice else ""


def _ignore(_: object) -> None:
    pass


def verify(
    place: Place,
    *,
    show: int = 3,
    named: Collection[tuple[int, int]] = (),
    tell: Callable[[Group], None] = _ignore,
    plan: Callable[[int], None] = _ignore,
    tell_bytes: Callable[[int], None] = _ignore,
    parser: str = PARSER,
) -> Outcome:
    """Check every dump of a directory.

    Args:
        place: of `find_place`.
        show: findings kept of each kind and file; all are counted.
        named: identities of folders that are checked for themselves.
        tell: is told each group of findings that is kept, file by file.
        plan: is told the bytes that will be read.
        tell_bytes: is told the bytes that were read, block by block.
        parser: "orjson", where it is installed, or "json".

    Raises:
        PlaceError: the directory went away, or cannot be listed.
    """
    begin = time.monotonic()
    outcome = Outcome(place.path)
    tally = Tally(outcome, show, tell)
    folder, dumps = _dumps(place, named, tally)
    plan(sum(dump.size for dump in dumps))
    between = Between(tally)
    for dump in dumps:
        contents = check_file(os.path.join(folder, dump.name), dump, tally, PARSERS[parser], tell_bytes)
        if contents is None and not os.path.isdir(folder or os.curdir):
            of = f"after {outcome.files:,} of {counted(len(dumps), 'dump')}"
            raise PlaceError(f"{shown_path(place.path)} went away while it was read, {of}")
        if contents is not None:
            outcome.files += 1
            outcome.rows += contents.rows
            outcome.bytes += contents.size
            between.take(dump, contents)
        tally.close()
    _steps(outcome, tally, sorted({dump.step for dump in dumps if dump.step is not None}))
    if not dumps and "not-a-file" not in outcome.totals:
        tally.add("no-dumps", "", f"there is no file {{step}}{SUFFIX} in it")
    tally.close()
    outcome.seconds = time.monotonic() - begin
    return outcome


def _dumps(place: Place, named: Collection[tuple[int, int]], tally: Tally) -> tuple[str, list[Dump]]:
    """Return the folder and its dumps; what is said of names goes to the tally, name by name."""
    said: list[tuple[str, str, str]] = []
    try:
        if place.is_file:
            folder, name = os.path.split(place.path)
            dumps = [Dump(step_of(name), name, os.stat(place.path).st_size)]
        else:
            folder = place.path
            dumps = list_dumps(folder, named, lambda *finding: said.append(finding))
    except OSError as error:
        raise PlaceError(f"{shown_path(place.path)} cannot be read: {error.strerror}") from None
    # Told outside: that nobody reads the report any more is an OSError too.
    for kind, name, message in said:
        tally.add(kind, name, message)
        tally.close()
    return folder, dumps


def _steps(outcome: Outcome, tally: Tally, steps: list[int]) -> None:
    if not steps:
        return
    outcome.first, outcome.last = steps[0], steps[-1]
    outcome.stride = stride_of(steps)
    if outcome.stride is None:
        return
    gaps = missing_steps(steps, outcome.stride)
    # `len` of a range ends at the machine's integers, a file's name does not.
    outcome.missing = sum((gap[-1] - gap[0]) // outcome.stride + 1 for gap in gaps)
    if gaps:
        verb = "is" if outcome.missing == 1 else "are"
        noun = "step" if outcome.missing == 1 else "steps"
        tally.add("gap", "", f"{noun} {as_ranges(gaps)} {verb} missing from the stride of {outcome.stride}")
