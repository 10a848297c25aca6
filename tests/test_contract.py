"""The contract as pytest: what the plugin adds, what it costs, and that its verdicts are those of the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

WRITER = """
import json, os

class {name}:
    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        os.makedirs(dump_path, exist_ok=True)
        columns = dict(input=inputs, output=outputs, gts=gts, score=scores, **reward_extra_infos_dict)
        rows = [dict({{k: v[i] for k, v in columns.items()}}, step=self.global_steps) for i in range(len(inputs))]
        path = os.path.join(dump_path, f"{{self.global_steps}}.jsonl")
        {body}
"""
DIRECT = "open(path, 'w').write(''.join(json.dumps(row) + '\\\\n' for row in rows))"


def _pytest(*arguments: str, alone: bool = False) -> subprocess.CompletedProcess[str]:
    by_entry_point = os.environ.get("VERL_DUMP_INSTALLED") and not alone
    installed = [] if by_entry_point else ["-p", "fault_injection.plugin"]
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    # The modules that these tests write are imported from the working directory, which must stay clean.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if alone:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            *installed,
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )


def test_one_law_of_the_reference_writer_holds() -> None:
    """The contract runs by `--pyargs`, shows what it judges in the header, and passes on the reference writer."""
    run = _pytest("--pyargs", "fault_injection.contract", "--dump-law", "Q5", "--dump-seed", "3")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\b[1-9]\d* passed\b", run.stdout)
    header = next(line for line in run.stdout.splitlines() if line.startswith("verl-dump: target"))
    assert "ReferenceTrainer" in header
    assert "seed 3" in header
    assert f"uid {os.geteuid()}" in header
    assert re.search(r"verl-dump: verl_dump.trainer:ReferenceTrainer: [1-9]\d* trials?", run.stdout)


def test_broken_writer_fails_with_its_replay() -> None:
    """A law that is violated fails its test with the sentence of what happened and the command that replays it."""
    Path("writer.py").write_text(WRITER.format(name="Direct", body=DIRECT))
    target = "writer.py:Direct"
    run = _pytest("--pyargs", "fault_injection.contract", "--dump-target", target, "--dump-law", "S2")
    Path("writer.py").unlink()
    assert run.returncode == 1, run.stdout + run.stderr
    assert "S2 is violated in" in run.stdout
    assert (
        "verl-dump check writer.py:Direct --law S2 --scenario non-finite-numbers --plan example:"
        in run.stdout
    )


def test_laws_of_the_queue_are_skipped_for_a_synchronous_writer() -> None:
    """A law that the target does not claim is skipped with the reason, not passed."""
    Path("writer.py").write_text(WRITER.format(name="Direct", body=DIRECT))
    run = _pytest(
        "--pyargs", "fault_injection.contract", "--dump-target", "writer.py:Direct", "--dump-law", "Q5", "-rs"
    )
    Path("writer.py").unlink()
    assert run.returncode == 0
    assert re.search(r"\b[1-9]\d* skipped\b", run.stdout)
    assert " passed" not in run.stdout
    assert "the target writes within the call" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--dump-target", "no_such_module:Writer"], 2, "no_such_module"),
        (["--dump-target", "json:JSONDecoder"], 2, "no writer"),
        (["--dump-source", "nowhere.whl"], 2, "nowhere.whl"),
        (["--dump-class", "Writer"], 2, "--dump-source"),
        (["--dump-target", "a:B", "--dump-source", "c"], 2, "not both"),
        (["--dump-law", "Z9"], 4, "unknown law 'Z9'"),
    ],
    ids=["no-module", "no-writer", "no-wheel", "class-alone", "target-and-source", "unknown-law"],
)
def test_bad_options_give_one_line(arguments: list[str], code: int, said: str) -> None:
    """What cannot be judged ends the run with one line that says why, without a traceback."""
    run = _pytest("--pyargs", "fault_injection.contract", *arguments)
    text = run.stdout + run.stderr
    assert run.returncode == code, text
    assert said in text
    assert "Traceback" not in text


def test_plugin_costs_nothing_where_it_is_not_used() -> None:
    """A suite that does not use the contract sees no header line and imports neither the engine nor its dependencies."""
    Path("test_plain.py").write_text(
        "import sys\n\n"
        "def test_plain():\n"
        "    heavy = {'fault_injection.engine', 'fault_injection.judge', 'pyfakefs', 'numpy', 'torch', 'verl_dump'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    run = _pytest("test_plain.py", alone=True)
    Path("test_plain.py").unlink()
    assert run.returncode == 0, run.stdout
    assert "verl-dump: " not in run.stdout


def test_law_marker_selects_tests_of_other_suites() -> None:
    """`--dump-law` chooses among a suite's own tests by their marker and leaves unmarked ones alone."""
    Path("test_mine.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.law('E2')\ndef test_two():\n    pass\n\n"
        "@pytest.mark.law('D1')\ndef test_one():\n    pass\n\n"
        "def test_unmarked():\n    pass\n"
    )
    run = _pytest("test_mine.py", "--dump-law", "E", "--strict-markers")
    Path("test_mine.py").unlink()
    assert run.returncode == 0, run.stdout
    assert "2 passed, 1 deselected" in run.stdout


def test_command_and_contract_agree() -> None:
    """The command and the pytest form give one and the same verdict of a law."""
    Path("writer.py").write_text(WRITER.format(name="Direct", body=DIRECT))
    command = [
        sys.executable,
        "-m",
        "fault_injection.cli",
        "check",
        "writer.py:Direct",
        "--law",
        "S2",
        "--json",
        "-",
    ]
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    # The modules that these tests write are imported from the working directory, which must stay clean.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    run = _pytest(
        "--pyargs", "fault_injection.contract", "--dump-target", "writer.py:Direct", "--dump-law", "S2"
    )
    Path("writer.py").unlink()
    law = json.loads(shown.stdout)["laws"][0]
    assert (law["id"], law["status"]) == ("S2", "violated")
    for violation in law["violations"]:
        assert violation["message"] in run.stdout
