"""The command `verl-dump verify`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

from verl_dump.verify.directory import Place, PlaceError, find_place, verify
from verl_dump.verify.kinds import KINDS
from verl_dump.verify.progress import Progress
from verl_dump.verify.report import as_json, as_lines, hidden_lines, is_whole, summary
from verl_dump.verify.tally import Group, Outcome
from verl_dump.verify.words import shown_path

WHOLE, DAMAGED, UNREADABLE = 0, 1, 2
"""Exit codes: no findings that count; some; what was named cannot be read, the report cannot be written, or the usage
is wrong."""
_DESCRIPTION = (
    "Reads dump directories and says whether they are whole.\n"
    "Exit code 0: no errors; 1: errors, or with --strict warnings;\n"
    "2: DIR cannot be read, or the usage is wrong."
)


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of a parser."""
    _add_arguments(
        commands.add_parser(
            "verify",
            help="say whether dump directories are whole",
            description=_DESCRIPTION,
            epilog=_epilog(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def run(options: argparse.Namespace) -> int:
    """Run the command.

    Args:
        options: what `add_parser` has parsed.

    Returns:
        The exit code.

    Raises:
        BrokenPipeError: who reads the report has read enough.
        OutputError: standard output does not take the report.
    """
    try:
        code = _run(options)
    except PlaceError as error:
        print(f"verl-dump: {error}", file=sys.stderr)
        code = UNREADABLE
    # That the report cannot be written is for the caller to catch; at the interpreter's end it would be a traceback.
    say("", end="", flush=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m verl_dump.verify`.

    Args:
        arguments: by default those of the process.

    Returns:
        The exit code.
    """
    parser = _Parser(
        prog="python -m verl_dump.verify",
        description=_DESCRIPTION,
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_arguments(parser)
    open_streams()
    try:
        try:
            options = parser.parse_args(arguments)
        finally:
            # The text of --help.
            say("", end="", flush=True)
        return run(options)
    except KeyboardInterrupt:
        print("verl-dump: interrupted", file=sys.stderr)
        return 130
    except OutputError as error:
        print(f"verl-dump: {error}", file=sys.stderr)
        drop_output()
        return UNREADABLE
    except BrokenPipeError:
        drop_output()
        return 141


def open_streams() -> None:
    """Let the standard streams take any text, and one that the process was started without write to the null device."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            # What is reported may hold anything, and a terminal may know ASCII only.
            stream.reconfigure(errors="backslashreplace")
        elif stream is None:
            # The lowest number that is free, as a rule the stream's own: no file of the run must get it.
            null = os.open(os.devnull, os.O_WRONLY)
            os.set_inheritable(null, True)
            stream = open(null, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


class OutputError(Exception):
    """Standard output does not take the report; the message is one line of what to do."""


def say(text: str, file: TextIO | None = None, *, end: str = "\n", flush: bool = False) -> None:
    """Print a part of the report.

    Args:
        text: what is written.
        file: by default standard output.
        end: what follows.
        flush: whether it must be seen at once.

    Raises:
        BrokenPipeError: who reads the report has read enough.
        OutputError: it cannot be written.
    """
    try:
        print(text, end=end, file=file, flush=flush)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the report cannot be written: {error.strerror}; write it elsewhere") from error


def drop_output() -> None:
    """Turn standard output into the null device, where it is full or its reader has read enough.

    The interpreter must not fail of it again when it flushes.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, as every other error does."""
        self.exit(UNREADABLE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="+",
        metavar="DIR",
        help="a directory of {step}.jsonl files, or one such file; folders in it are not looked into",
    )
    parser.add_argument("--strict", action="store_true", help="warnings count as errors do")
    parser.add_argument(
        "--show",
        type=int,
        default=3,
        metavar="N",
        help="findings shown of each kind and file (default 3); all are counted",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the report as JSON as well; - for standard output"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show the summary only")


def _epilog() -> str:
    width = max(map(len, KINDS)) + 2
    lines = []
    for level, title in (("error", "errors:"), ("warning", "warnings (no error without --strict):")):
        lines += ["", title]
        lines += [f"  {kind.name:<{width}}{kind.means}" for kind in KINDS.values() if kind.level == level]
    return "\n".join(lines[1:])


def _run(options: argparse.Namespace) -> int:
    if options.show < 0:
        raise PlaceError(f"--show {options.show}: give a number from 0")
    if options.json is not None and options.json != "-":
        _see_writable(options.json)
    places = _places(options.places)
    out = sys.stderr if options.json == "-" else sys.stdout
    progress = Progress()
    try:
        outcomes = [_one(place, places, options, progress) for place in places]
    finally:
        progress.clear()
    if len(outcomes) > 1:
        for each in outcomes:
            say(summary([each], strict=options.strict), out)
    say(summary(outcomes, strict=options.strict), out)
    if options.json is not None:
        _write(options.json, as_json(outcomes, strict=options.strict))
    return WHOLE if is_whole(outcomes, strict=options.strict) else DAMAGED


def _places(paths: Sequence[str]) -> list[Place]:
    """Look at everything that was named before anything is read; what was named twice is read once."""
    found: dict[tuple[int, int], Place] = {}
    for path in paths:
        place = find_place(path)
        found.setdefault(place.identity, place)
    return list(found.values())


def _one(place: Place, places: Sequence[Place], options: argparse.Namespace, progress: Progress) -> Outcome:
    out = sys.stderr if options.json == "-" else sys.stdout

    def tell(group: Group) -> None:
        if not options.quiet:
            progress.clear()
            for line in as_lines(place, group):
                say(line, out)

    outcome = verify(
        place,
        show=options.show,
        named={each.identity for each in places},
        tell=tell,
        plan=progress.plan,
        tell_bytes=progress.tell,
    )
    progress.clear()
    if not options.quiet and options.show:
        for line in hidden_lines(outcome):
            say(line, out)
    return outcome


def _see_writable(path: str) -> None:
    """Refuse a report file that cannot be written before the run and not after it."""
    if not path:
        raise PlaceError("--json is empty; name a file, or - for standard output")
    name = shown_path(path)
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise PlaceError(f"--json {name} is a directory; name a file")
    if not os.path.isdir(folder):
        raise PlaceError(
            f"--json {name}: there is no directory {shown_path(folder)}; make it or name another file"
        )
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PlaceError(f"--json {name} cannot be written: permission denied; name another file")


def _write(path: str, text: str) -> None:
    if path == "-":
        say(text, end="")
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise PlaceError(f"--json {shown_path(path)} cannot be written: {error.strerror}") from error
