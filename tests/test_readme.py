"""What the README shows is true: its examples run, its options exist, its report is what a run says."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fault_injection.laws import LAWS
from fault_injection.op import OPS
from fault_injection.options import parser
from fault_injection.plan import Plan

CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT", Path(__file__).parent.parent))
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    # The modules that these tests write are imported from the working directory, which must stay clean.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "fault_injection.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )


def _block(part: str) -> str:
    return next(block for block in BLOCKS if part in block)


def test_every_python_example_is_python() -> None:
    """Each example in the README can be read by Python."""
    assert len(BLOCKS) >= 4
    for block in BLOCKS:
        ast.parse(block)


def test_adapter_example_judges_a_writer() -> None:
    """The adapter of the README, at most 15 lines, puts a foreign writer under test."""
    adapter = _block("JsonlTarget")
    body = adapter[adapter.index("class JsonlTarget") :].strip()
    assert len(body.splitlines()) <= 15
    Path("my_package.py").write_text(
        "import json, os\n\n"
        "class JsonlWriter:\n"
        "    def write(self, directory, step, columns):\n"
        "        os.makedirs(directory, exist_ok=True)\n"
        "        n = len(columns['input'])\n"
        "        with open(os.path.join(directory, f'{step}.jsonl'), 'w') as file:\n"
        "            for i in range(n):\n"
        "                file.write(json.dumps(dict({k: v[i] for k, v in columns.items()}, step=step)) + '\\n')\n\n"
        "    def flush(self):\n"
        "        pass\n"
    )
    Path("adapter.py").write_text(adapter)
    run = _run("check", "adapter.py:JsonlTarget", "--law", "D1,D2", "--scenario", "restarted", "--json", "-")
    for name in ("my_package.py", "adapter.py"):
        Path(name).unlink()
    report = json.loads(run.stdout)
    status = {law["id"]: law["status"] for law in report["laws"]}
    assert status == {"D1": "holds", "D2": "violated"}, run.stderr


def test_fault_layer_example_runs(tmp_path: Path) -> None:
    """The example of a test with a fault layer fires its fault."""
    source = _block("def test_full_disk")
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)
    names["test_full_disk"](tmp_path)  # type: ignore[operator]


def test_writer_example_writes() -> None:
    """The example of the reference writer leaves the file it promises."""
    exec(compile(_block("with GenerationDumper()"), "README.md", "exec"), {})
    path = Path("rollouts/7.jsonl")
    row = json.loads(path.read_text())
    path.unlink()
    path.parent.rmdir()
    assert row == {"input": "1+1=", "output": "2", "gts": "2", "score": 1.0, "step": 7, "acc": True}


def test_every_plan_shown_is_a_plan() -> None:
    """Each plan in the table of plans parses, and prints as it is written."""
    table = README[README.index("| plan |") : README.index("Rules are joined")]
    plans = [
        p for line in table.splitlines()[2:] if line for p in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]
    assert len(plans) >= 14
    for text in plans:
        assert str(Plan.parse(text)) == text


def test_every_operation_is_named() -> None:
    """The README lists every operation that a plan can strike."""
    listed = re.search(r"The operations are `([^`]+)`", README)
    assert listed is not None
    assert set(listed[1].split()) == set(OPS)


def test_every_option_is_named() -> None:
    """The README names every option of the command."""
    check = parser()._subparsers._group_actions[0].choices["check"]  # type: ignore[union-attr,index]
    options = [
        option for action in check._actions for option in action.option_strings if option.startswith("--")
    ]
    missing = [option for option in options if option not in README and option not in {"--help", "--quiet"}]
    assert missing == []


@pytest.mark.skipif(
    "VERL_DUMP_WHEELS" not in os.environ, reason="set VERL_DUMP_WHEELS to a folder with verl's wheels"
)
def test_report_shown_is_true_of_the_wheel() -> None:
    """Every violation in the README's report is found again by its own replay command, word for word."""
    wheel = next(Path(os.environ["VERL_DUMP_WHEELS"]).glob("verl-0.9.1-*.whl"))
    block = README[README.index("$ verl-dump check -q") :].partition("\n```")[0]
    shown = [line for line in block.splitlines()[1:-1] if line != "…"]
    found = 0
    for law, message, command in zip(shown[::3], shown[1::3], shown[2::3], strict=True):
        identifier = law.split()[0]
        assert LAWS[identifier].sentence in law
        words = [str(wheel) if w.endswith(".whl") else w for w in shlex.split(command.strip())]
        run = _run(*words[1:])
        assert run.returncode == 1, run.stdout + run.stderr
        assert f"{identifier} VIOLATED: {message.strip()}" in run.stdout
        found += 1
    assert found == 3
