"""Forks: when a child is taken to sleep."""

from __future__ import annotations

from pathlib import Path

import pytest

from fault_injection import forks


@pytest.mark.parametrize(
    ("states", "sleeps"),
    [("SS", True), ("SR", False), ("RS", False), ("R", False), ("D", False), ("", False)],
    ids=["all", "not-the-last", "not-the-first", "runs", "on-disk", "no-thread"],
)
def test_a_process_sleeps_if_all_its_threads_do(
    states: str, sleeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread that runs or waits for a disk is enough for a process that does not sleep, and so is none at all."""
    tasks = tmp_path / "proc/7/task"
    tasks.mkdir(parents=True)
    for number, state in enumerate(states):
        (tasks / str(number)).mkdir()
        (tasks / str(number) / "stat").write_text(f"{number} (a) S) {state} 1 7 7 0 -1 4194304")
    monkeypatch.setattr(forks, "Path", lambda path: tmp_path / str(path).lstrip("/"))
    assert forks._sleeps(7) is sleeps
    assert not forks._sleeps(8)
