"""What the command says of a law that a replay does not bear on, and of what it cannot do without."""

from __future__ import annotations

import pytest

from fault_injection import cli
from fault_injection.engine import Checked
from fault_injection.options import UNUSABLE
from fault_injection.subject import DEFAULT
from fault_injection.verdict import Verdict


@pytest.mark.parametrize(
    ("law", "plan", "words"),
    [
        pytest.param("E1", "write#1:ENOSPC", "held E1", id="held"),
        pytest.param(
            "D1", "write#1:ENOSPC", "not judged, since the trial does not bear on it: D1", id="asked"
        ),
        pytest.param(
            "D1,E1", "none", "held D1; not judged, since the trial does not bear on it: E1", id="both"
        ),
    ],
)
def test_a_replay_names_the_laws_that_were_asked_for(
    law: str, plan: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A law that was asked for is said to have held, or not to have been judged."""
    assert cli.main(["check", "--law", law, "--scenario", "three-dumps", "--plan", plan]) == cli.OK
    assert f"{DEFAULT}: {words}; 1 trial in " in capsys.readouterr().out.splitlines()[-1]


def test_the_last_line_names_the_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report ends with a line that says of which target it is."""
    monkeypatch.setattr(
        cli.engine, "check", lambda *_, **__: Checked((Verdict("D1", "holds", 3),), trials=3, exits=())
    )
    assert cli.main(["check", "-q", "--law", "D1"]) == cli.OK
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{DEFAULT}: 1 held; 3 trials in ")


@pytest.mark.parametrize("missing", [["numpy"], ["hypothesis", "pyfakefs"]], ids=" ".join)
def test_what_a_run_needs_is_named_before_it_begins(
    missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a library of the extra `check`, a run ends at once with one line that says what to install."""
    find = cli.find_spec
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name in missing else find(name))
    assert cli.main(["check", "--quick"]) == UNUSABLE
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"verl-dump: check needs {' and '.join(missing)}, not installed here; "
        "pip install with the extra check brings all that it needs\n"
    )
