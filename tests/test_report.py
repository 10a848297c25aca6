"""Reports: the same verdicts for people and for programs, each violation with a command that replays it."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from fault_injection.history import Exited, Final, Hung, Mark, Older, Threads
from fault_injection.laws import LAWS
from fault_injection.report import (
    FORMAT,
    Report,
    as_json,
    as_story,
    as_text,
    header,
    replay_command,
    versions,
    write_json,
)
from fault_injection.subject import DEFAULT, Spec
from fault_injection.verdict import Found, Verdict
from tests.histories import Story, failed

TORN = Found("before operation 3, x held nothing", "three-dumps", "*.tmp@write#1:ENOSPC;close#2:EIO")
VERDICTS = (
    Verdict("D1", "holds", 5),
    Verdict("D2", "violated", 7, 2, (TORN,)),
    Verdict("E9", "not claimed", reason="the target does not claim 'warn'"),
    Verdict("Q1", "skipped", reason="no trial of this run bears on it"),
)


def report(spec: Spec | None = None, seed: int = 0) -> Report:
    """A report with one verdict of every kind."""
    return Report(spec or Spec("a.b:C"), "a.b:C", seed, VERDICTS, 1234, 5.678)


@pytest.mark.parametrize(
    ("spec", "seed", "words"),
    [
        pytest.param(Spec(DEFAULT), 0, [], id="reference"),
        pytest.param(Spec("a.b:C"), 0, ["a.b:C"], id="module"),
        pytest.param(Spec("my files/it's.py:C"), 7, ["my files/it's.py:C"], id="file-with-spaces"),
        pytest.param(
            Spec("a $b.whl", source=True, class_name="m:C"),
            0,
            ["--source", "a $b.whl", "--class", "m:C"],
            id="source",
        ),
    ],
)
def test_a_replay_command_survives_the_shell(spec: Spec, seed: int, words: list[str]) -> None:
    """A shell takes the command apart into the words that were meant, whatever they hold."""
    command = replay_command(report(spec, seed), "D2", TORN)
    seeds = ["--seed", str(seed)] if seed else []
    rest = ["--law", "D2", *seeds, "--scenario", TORN.scenario, "--plan", TORN.plan]
    assert shlex.split(command) == ["verl-dump", "check", *words, *rest]
    assert "\n" not in command


def test_the_json_report_holds_what_it_documents() -> None:
    """The fields of the JSON report are those that the README documents, with plain values."""
    value = json.loads(json.dumps(as_json(report(seed=3))))
    assert value.keys() == {"format", "target", "versions", "seed", "uid", "trials", "seconds", "laws"}
    assert (value["format"], value["target"], value["seed"], value["trials"]) == (FORMAT, "a.b:C", 3, 1234)
    assert value["seconds"] == 5.678
    assert value["uid"] == os.geteuid()
    assert {"python", "system"} <= value["versions"].keys()
    assert [law["id"] for law in value["laws"]] == ["D1", "D2", "E9", "Q1"]
    held, violated, unclaimed, skipped = value["laws"]
    assert held == {"id": "D1", "status": "holds", "trials": 5, "violations": []}
    assert (violated["status"], violated["trials"], violated["violated"]) == ("violated", 7, 2)
    assert violated["violations"] == [
        {
            "message": TORN.message,
            "scenario": TORN.scenario,
            "plan": TORN.plan,
            "replay": replay_command(report(seed=3), "D2", TORN),
        }
    ]
    assert (unclaimed["status"], unclaimed["reason"]) == ("not claimed", VERDICTS[2].reason)
    assert (skipped["status"], skipped["reason"]) == ("skipped", VERDICTS[3].reason)


@pytest.mark.parametrize("count", [1, 2])
def test_the_json_report_is_one_object_for_one_subject_and_a_list_for_several(
    tmp_path: Path, count: int
) -> None:
    """One report is the object itself; several stand under `reports`, with the format on top."""
    file = tmp_path / "report.json"
    write_json([report()] * count, str(file))
    value = json.loads(file.read_bytes())
    assert value["format"] == FORMAT
    assert value.get("reports", [value]) == [as_json(report())] * count
    assert file.read_bytes().endswith(b"}\n")


def test_the_json_report_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """The file `-` is standard output."""
    write_json([report()], "-")
    assert json.loads(capsys.readouterr().out) == as_json(report())


def test_the_text_shows_every_law_and_the_sum() -> None:
    """The text has a line for each verdict, the sentence and the replay of a violation, and the sum last."""
    lines = as_text(report()).splitlines()
    assert lines[0].split(maxsplit=4)[:4] == ["D1", "holds", "5", "trials"]
    assert lines[0].endswith(LAWS["D1"].sentence)
    assert lines[1].startswith("D2   VIOLATED     2 of 7 trials")
    assert lines[2].strip() == TORN.message
    assert lines[3].strip() == replay_command(report(), "D2", TORN)
    assert lines[4].split(maxsplit=1) == ["E9", f"not claimed  {VERDICTS[2].reason}"]
    assert lines[5].split(maxsplit=2)[:2] == ["Q1", "skipped"]
    assert lines[6] == "a.b:C: 1 held, 1 violated, 1 not claimed, 1 skipped; 1,234 trials in 5.7 s"
    assert len(lines) == 7


def test_the_quiet_text_shows_violations_and_the_sum_only() -> None:
    """Quiet leaves out what holds, is not claimed or was skipped."""
    lines = as_text(report()).splitlines()
    assert as_text(report(), quiet=True).splitlines() == [*lines[1:4], lines[6]]


def test_the_header_says_what_is_tested_with_what() -> None:
    """Target, versions, seed and user stand in one line."""
    line = header("a.b:C", 7)
    assert line.startswith(f"target a.b:C; python {versions()['python']}")
    assert line.endswith(f"; seed 7; uid {os.geteuid()}")
    assert "\n" not in line


def test_a_violated_law_makes_a_violated_report() -> None:
    """A report is violated by one law."""
    assert report().violated
    assert not Report(Spec("a:B"), "a:B", 0, VERDICTS[:1] + VERDICTS[2:], 1, 1.0).violated


def test_a_story_tells_every_event_in_one_line() -> None:
    """Every kind of event has its words in the story of a trial, in order."""
    story = Story("write#1:ENOSPC")
    story.events.append(Older("dump/6.jsonl", b"{}\n"))
    story.end("open")
    number = story.dump(7)
    error = story.strike("write", "dump/.7.tmp")
    story.operate("rename", "dump/.7.tmp", "dump/7.jsonl")
    story.put("dump/7.jsonl", story.content(number))
    story.put("dump/7.jsonl", None)
    story.waited("drain")
    story.drain(failed(7, error), left=("dump-worker",))
    story.mark("twins", "0 1")
    story.log("step 7 failed\nmore")
    story.events += [
        Hung("drain"),
        Exited(-9, "killed\n"),
        Exited(0),
        Threads(()),
        Final((("a", b"123"),)),
        Mark("end"),
    ]
    told = as_story(story.history()).splitlines()
    assert told == [
        "scenario told, plan write#1:ENOSPC, seed 0",
        "  an earlier run left dump/6.jsonl (3 bytes)",
        "  open returned",
        "  dump 1: step 7, 2 rows, to dump/",
        "  dump 1 returned",
        "      1 worker write(dump/.7.tmp)  <-- ENOSPC",
        "      2 worker rename(dump/.7.tmp -> dump/7.jsonl)",
        f"    on disk: dump/7.jsonl ({len(story.content(number)):,} bytes)",
        "    on disk: dump/7.jsonl (gone)",
        "  drain waited for the held disk",
        "  drain raised DumpError: dump of step 7 to ROOT/dump/7.jsonl failed",
        "  threads left: dump-worker",
        "  -- twins 0 1",
        "  logged WARNING: step 7 failed",
        "  drain never returned",
        "  the process ended with -9; stderr: killed",
        "  the process ended with 0; stderr: empty",
        "  at the end: a (3 bytes)",
        "  -- end",
        "  at the end: no files",
    ]
