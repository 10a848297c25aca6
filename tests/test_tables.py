"""Tables and constants: what the pages and the help say of them is what the code does."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import verl_dump
from fault_injection import fault as faults
from fault_injection import scenarios
from fault_injection.fault import CATALOGUE, ERRNO_FAULTS, Fault
from fault_injection.history import Final, History
from fault_injection.judge import RULES, judge
from fault_injection.laws import LAWS
from fault_injection.op import OPS
from fault_injection.plan import Plan
from fault_injection.scenario import MOST_K, Family, Menu, Scenario, Unit, prepared
from verl_dump.verify import KINDS, Example, Outcome, find_place, kinds, rows, verify
from verl_dump.verify.command import main
from verl_dump.verify.lines import cut
from verl_dump.verify.prints import Seen
from verl_dump.verify.report import as_json
from verl_dump.verify.strict import Checker

CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).parent.parent)


# The package.


def test_the_version_is_that_of_the_project() -> None:
    """The package says the version under which it is installed."""
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    assert runpy.run_path(str(verl_dump.__file__))["__version__"] == version


# The faults.


def rows_of_the_page(title: str) -> Iterator[list[str]]:
    """The rows of the table below a title of docs/mechanisms.md."""
    page = (CHECKOUT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    table = page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    for line in lines[1:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_faults_strike_where_the_page_says() -> None:
    """Each fault of the page is there with the meaning and the mechanisms that stand there, and there are no others."""
    told = {}
    for name, meaning, *where in rows_of_the_page("What strikes where"):
        told[name] = (
            meaning,
            {m for m, ops in zip(("memory", "disk", "kernel"), where, strict=False) if ops},
        )
    numbered = {kind.name: kind for kind in faults._errno_kinds()}
    for each in (numbered, CATALOGUE):
        assert {name: (kind.meaning, set(kind.mechanisms)) for name, kind in each.items()} == {
            name: told[name] for name in (ERRNO_FAULTS if each is numbered else told)
        }


# Scenarios.


def test_what_says_nothing_more_is_plain() -> None:
    """A scenario, a family and a unit that leave everything out are what the words of their arguments say first."""
    trial: Any = SimpleNamespace(target=SimpleNamespace())
    plain = Scenario("plain", frozenset({"D1"}), lambda *_: None)
    prepared(trial, plain, 0, Plan.parse("write#1:stuck"))
    assert vars(trial.target) == {"warn": False, "exit_deadline": None}
    assert (plain.place, plain.mechanism, plain.needs, plain.environment) == ("here", "disk", frozenset(), ())
    assert (plain.prior, plain.prepare, plain.after, plain.menu) == ("", None, None, Menu((Plan(),), ()))
    assert plain.counts_open is False
    full = Family("bytes", Fault("ENOSPC"))
    assert full == Family("bytes", Fault("ENOSPC", 0), stays=False, stride=0)
    assert [str(full.plan(k)) for k in (1, 3)] == ["bytes>0#1:ENOSPC"] * 2
    assert Unit("plain") == Unit("plain", plan=None, family=None, start=1, most=0)
    assert Unit("plain").ks == range(1, MOST_K)


def test_a_worker_also_meets_a_disk_that_is_full_for_good() -> None:
    """Who tries again for ever is found by a fault that stays."""
    families = scenarios.SCENARIOS["worker-dies"].menu.families
    assert [f.op for f in families if f.fault.name == "ENOSPC" and f.stays] == ["write"]


@pytest.mark.parametrize(
    "file", sorted(Path(str(scenarios.__file__)).parent.glob("[a-z]*.py")), ids=lambda p: p.stem
)
def test_scenarios_are_consistent(file: Path) -> None:
    """Each scenario has laws and faults that exist, and what its laws, its needs and its place ask for."""
    found = runpy.run_path(str(file))["SCENARIOS"]
    assert {scenario.name for scenario in found} <= scenarios.SCENARIOS.keys()
    for scenario in found:
        warns, dies = "E9" in scenario.laws, scenario.place in {"fork", "power"}
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", scenario.name)
        assert scenario.laws
        assert scenario.laws <= LAWS.keys()
        assert scenario.warn == ("warn" in scenario.needs) == warns
        assert (scenario.after is not None) == dies
        assert not scenario.counts_open or (scenario.place, scenario.mechanism) == ("here", "disk")
        assert scenario.exit_deadline is None or scenario.place in {"spawn", "ray"}
        assert all(isinstance(plan, Plan) for plan in scenario.menu.plans)
        for family in scenario.menu.families:
            assert family.op in {*CATALOGUE[family.fault.name].ops, "any", "bytes"}
            assert (family.stride > 0) == (family.op == "bytes")
            # The disk of the fake file system is full once and for all.
            assert family.stays or scenario.mechanism != "memory"


@pytest.mark.skipif(sys.platform != "linux", reason="the calls are those of Linux")
def test_each_system_call_is_the_operation_of_its_name() -> None:
    """A call that the kernel asks about is an operation, and where its name begins with that of one, this one."""
    from fault_injection.mechanisms.kernel import notify, supervisor

    found = runpy.run_path(str(supervisor.__file__))
    kinds = {**found["_BY_DESCRIPTOR"], **{name: kind for name, (kind, _) in found["_BY_NAME"].items()}}
    assert kinds.keys() <= notify.CALLS.keys()
    assert set(kinds.values()) <= set(OPS)
    named = {name: [op for op in OPS if name.startswith(op)] for name in kinds}
    assert {name: kinds[name] for name in kinds if named[name]} == {
        n: ops[0] for n, ops in named.items() if ops
    }


# The strategies.


def test_what_json_has_no_word_for_can_be_made_and_cannot_be_written() -> None:
    """Each object of the strategy is of a type that Python's JSON refuses."""
    objects = pytest.importorskip("fault_injection.strategies.objects", reason="needs numpy")
    for make in objects._UNKNOWN:
        with pytest.raises(TypeError, match="not JSON serializable"):
            json.dumps(make())


# The judge.


def test_the_rules_are_those_of_laws() -> None:
    """Each rule of the judge is that of a law, and a history in which nothing happened breaks none."""
    assert set(RULES) <= set(LAWS)
    assert judge(History("told", "none", "disk", 0, (Final(()),)), frozenset(LAWS)) == ()


# `verl-dump verify`.


def test_every_kind_of_finding_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """The help says of every kind, in a few words, what is the matter, and of no two the same."""
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out.split("\nerrors:\n", 1)[1]
    means = dict(re.findall(r"^  (\S+) {2,}(\S.*)$", shown, re.MULTILINE))
    table = runpy.run_path(str(kinds.__file__))["KINDS"]
    assert means == {name: kind.means for name, kind in table.items()}
    assert list(means) == list(KINDS)
    assert min(len(words.split()) for words in means.values()) >= 4
    assert len(set(means.values())) == len(means)


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_the_module_runs_as_a_program(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damaged: bool,
) -> None:
    """`python -m verl_dump.verify DIR` says whether the directory is whole and ends with that code; an import does not."""
    (tmp_path / "1.jsonl").write_text('{"step": 2}\n' if damaged else '{"step": 1}\n')
    monkeypatch.setattr(sys, "argv", ["verify", str(tmp_path)])
    # By its file: where the package is installed, pytest's own importer has it, which runs no modules.
    program = str(Path(verl_dump.__file__).parent / "verify" / "__main__.py")
    runpy.run_path(program)
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(program, run_name="__main__")
    assert caught.value.code == int(damaged)
    assert ("NOT WHOLE" if damaged else "whole; 1 file, 1 row") in capsys.readouterr().out


def test_three_findings_of_a_kind_are_kept(tmp_path: Path) -> None:
    """Of the findings of a kind and file three are kept, unless more are asked for, and all are counted."""
    (tmp_path / "1.jsonl").write_text("".join(f'{{"step": 2, "n": {n}}}\n' for n in range(5)))
    place = find_place(str(tmp_path))
    (default,), (more,) = verify(place).groups, verify(place, show=4).groups
    assert (default.count, len(default.examples), len(more.examples)) == (5, 3, 4)


def test_letters_are_no_line_separators(tmp_path: Path) -> None:
    """A row of letters, ASCII and others, is whole: none of them ends a line for any reader."""
    letters = "".join(
        chr(code) for code in range(0x21, 0x250) if chr(code).isprintable() and chr(code) not in '"\\'
    )
    (tmp_path / "1.jsonl").write_text(f'{{"step": 1, "a": "{letters}"}}\n', encoding="utf-8")
    assert verify(find_place(str(tmp_path))).groups == []


@pytest.mark.skipif(os.name == "nt", reason="has no such flags")
def test_what_takes_the_place_of_a_dump_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe in a dump's place would not be waited for, and a terminal there would not become the program's."""
    (tmp_path / "1.jsonl").write_text('{"step": 1}\n')
    place, flags = find_place(str(tmp_path)), []
    real = os.open

    def opened(path: Any, given: int, *more: Any, **options: Any) -> int:
        flags.append(given)
        return real(path, given, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        verify(place)
    assert [each & (os.O_NONBLOCK | os.O_NOCTTY) for each in flags] == [os.O_NONBLOCK | os.O_NOCTTY]


def test_a_long_line_is_one_of_the_length_that_the_help_says() -> None:
    """A line of as many MiB as the help says is held whole, and one byte more makes it come in pieces."""
    (mebibytes,) = re.findall(r"over (\d+) MiB", KINDS["long-line"].means)
    limit = bytes(int(mebibytes) << 20)
    assert [piece.last for piece in cut([limit])] == [True]
    assert not next(cut([limit, b"0", b"1"])).last


def test_three_million_rows_of_a_file_are_compared() -> None:
    """The table of the rows that were seen is full with three quarters of 48 MiB, twelve bytes for each."""
    assert Seen().room * 12 == (48 << 20) * 3 // 4


@pytest.mark.parametrize("bit", [0, 1, 31, 62, 63])
def test_rows_are_told_apart_by_every_bit_of_their_prints(bit: int) -> None:
    """Fingerprints that differ in one bit are those of two rows."""
    seen = Seen()
    prints = [0x5A5A5A5A5A5A5A5A, 0x5A5A5A5A5A5A5A5A ^ 1 << bit]
    assert [seen.earlier(print_, line) for line, print_ in enumerate(prints * 2, 1)] == [0, 0, 1, 2]


@pytest.mark.parametrize("fast", [False, True], ids=["without-orjson", "as-installed"])
def test_the_fastest_parser_that_is_installed_is_used(monkeypatch: pytest.MonkeyPatch, fast: bool) -> None:
    """The parser is orjson where it is installed, and otherwise that of the standard library."""
    if not fast:
        monkeypatch.setitem(sys.modules, "orjson", None)
    there = ["json", "orjson"] if fast and find_spec("orjson") else ["json"]
    found = runpy.run_path(str(rows.__file__))
    assert (list(found["PARSERS"]), found["PARSER"]) == (there, there[-1])


WORDS = {"true": [], "false": [], "null": []} | {
    word: [("non-finite", 6, f"a bare {word}")] for word in ("NaN", "Infinity", "-Infinity", "-NaN")
}


def problems(line: bytes) -> list[tuple[str, int, str]]:
    """What is wrong with a line."""
    return [(each.kind, each.position, each.message) for each in rows.close(line).problems]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_read_to_its_last_letter(word: str) -> None:
    """Each word is known, is torn where the line ends inside it, and is no word with another letter."""
    assert problems(b'{"a": %s}' % word.encode()) == WORDS[word]
    for end in range(1, len(word)):
        if word[:end] not in WORDS:
            assert [kind for kind, *_ in problems(b'{"a": %s' % word[:end].encode())] == ["torn-line"]
            (wrong,) = problems(b'{"a": %s!}' % word[:end].encode())
            assert wrong[0] == "not-json"


def test_a_line_is_ten_thousand_levels_deep_at_most() -> None:
    """The level that is one too many is the first thing that is wrong with a line."""
    assert problems(b"[" * 10_001) == [("not-json", 10_000, "nested deeper than 10,000 levels")]


def test_keys_are_compared_up_to_the_number_that_is_told() -> None:
    """Of the keys of a line 100,000 are compared, and those of over 4,096 bytes by a digest."""
    checker = Checker()
    checker._keys = 99_999  # as where objects around this one have so many
    checker.feed(b'{"a": 1, "b": 2}')
    (found,) = checker.end().problems
    assert (found.kind, found.position) == ("not-compared", 12)
    assert found.message == "of more than 100,000 keys, the others were not compared"
    for size in (4_096, 4_097):
        key = "k" * size
        assert (rows.close(f'{{"{key}": 1}}'.encode()).keys == {key}) == (size == 4_096)


def test_escapes_are_those_of_json() -> None:
    """Of all letters behind a backslash eight are an escape, and u with four digits."""
    known = {chr(c) for c in range(0x20, 0x7F) if not problems(b'{"a": "\\%c"}' % c)}
    assert known == set('"\\/bfnrt')
    assert problems(b'{"a": "\\u00e9"}') == []


def test_halves_of_pairs_are_told_apart() -> None:
    """Each half of a pair is one, in letters of either size; two first halves, or two second ones, are no pair."""
    high, low = range(0xD800, 0xDC00, 0x100), range(0xDC00, 0xE000, 0x100)
    for first, second in ((first, second) for first in (*high, *low) for second in (*high, *low)):
        for digits in (b"%04x", b"%04X"):
            line = b'{"a": "\\u' + digits % first + b"\\u" + digits % second + b'"}'
            alone = 0 if first in high and second in low else 2
            assert [kind for kind, *_ in problems(line)] == ["lone-surrogate"] * alone


def test_what_is_not_known_of_a_directory_is_null() -> None:
    """Of a directory of which nothing is known yet, the report has nulls and zeros."""
    outcome = Outcome("rollouts")
    (told,) = json.loads(as_json([outcome], strict=False))["directories"]
    assert outcome.seconds == 0.0
    assert told.pop("steps") == {"first": None, "last": None, "stride": None, "missing": 0}
    assert Example("it is empty") == Example("it is empty", None, None)
