"""The options of the command `verl-dump`."""

from __future__ import annotations

import argparse
from typing import NoReturn

from fault_injection.profiles import VARIABLE
from verl_dump.verify import command as verify

UNUSABLE = 2
"""The exit code for what cannot be loaded, driven or read, and for wrong usage."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, as every other error does."""
        self.exit(UNUSABLE, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line, with its subcommands."""
    top = _Parser(
        prog="verl-dump", description="Proves that a trainer's generation dump loses neither data nor errors."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="run the contract on a writer",
        description="Runs the contract on a writer and says which laws hold. Exit code 0: no law is violated; "
        "1: one is; 2: the target cannot be loaded or driven, or the usage is wrong.",
    )
    check.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="package.module:Class or path/file.py:Class; without it the reference writer",
    )
    check.add_argument(
        "--source",
        metavar="PATH",
        help="read the class out of a checkout, an unpacked wheel, a .whl or a .py file, importing nothing of it",
    )
    check.add_argument("--class", dest="class_name", metavar="NAME", help="with --source: only this class")
    check.add_argument(
        "--law",
        action="append",
        default=[],
        metavar="LAW",
        help="only this law (E2) or group (E); may be repeated or joined by commas",
    )
    _add_depth(check)
    verify.add_parser(commands)
    return top


def _add_depth(check: argparse.ArgumentParser) -> None:
    """Add what says which part of the contract is run, and how far."""
    check.add_argument(
        "--seed", type=int, metavar="N", help="chooses the batches (default 0, or as the profile says)"
    )
    check.add_argument(
        "--shuffle", type=int, metavar="N", help="run the same trials in another order, which N chooses"
    )
    check.add_argument(
        "--scenario", metavar="NAME", help="only this scenario; with --plan one trial, told in full"
    )
    check.add_argument("--plan", metavar="PLAN", help="only this plan, such as 'write#1:ENOSPC'")
    check.add_argument(
        "--quick",
        action="store_true",
        help="the same as --profile quick",
    )
    check.add_argument(
        "--profile",
        metavar="NAME",
        help="ci: everything, 200 examples, always the same run (the default); quick: a few trials of every law, in "
        "seconds; dev: few errnos, 50 examples, a new seed each time; nightly: everything, 10,000 examples, a new seed; "
        f"{VARIABLE} names it as well",
    )
    check.add_argument(
        "--examples", type=int, metavar="N", help="examples for each law of S and C (default: the profile's)"
    )
    check.add_argument("--torch", action="store_true", help="hand over tensors too (law S6)")
    check.add_argument(
        "--readers",
        action="store_true",
        help="read back with pandas, pyarrow, datasets, polars, duckdb too (law S9)",
    )
    check.add_argument(
        "--ray", action="store_true", help="run fit() in actors of a local Ray too (laws X20 to X24)"
    )
    check.add_argument(
        "--strict", action="store_true", help="fail where this machine lacks what a part of the run needs"
    )
    check.add_argument(
        "--json", metavar="FILE", help="write the report as JSON as well; - for standard output"
    )
    check.add_argument("-q", "--quiet", action="store_true", help="show violated laws and the summary only")
