"""A worker: what it answers where the target hangs, or leaves too many threads."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fault_injection import worker
from fault_injection.history import Final, History
from fault_injection.scenario import Unit
from fault_injection.subject import DEFAULT, Spec
from fault_injection.wire import Job, Reply


class GoneError(BaseException):
    """The process has ended."""


def job(scenario: str, scratch: Path) -> Job:
    """A unit of one plan of the reference writer."""
    return Job(Spec(DEFAULT), 0, str(scratch), Unit(scenario, "none"), frozenset({"D1"}))


@pytest.mark.parametrize("more", [0, 1], ids=["some", "too-many"])
def test_a_worker_that_has_too_many_threads_asks_to_be_replaced(
    more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker in which more threads are left than a bound says that it is tired, beside its results."""
    history = History("three-dumps", "none", "disk", 0, (Final(()),))
    monkeypatch.setattr(worker, "run_trial", lambda *_: history)
    monkeypatch.setattr(threading, "active_count", lambda: worker.CROWD + more)
    reply = worker._serve(job("three-dumps", tmp_path), io.BytesIO())
    assert (len(reply.results), reply.error, reply.refusal) == (1, "", "")
    assert reply.tired is bool(more)


def test_a_writer_that_hangs_in_memory_is_left_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that hangs in the fake file system is told of by no result there, and the worker ends."""
    sent: list[Reply] = []

    def leave(code: int) -> NoReturn:
        raise GoneError(code)

    def trial(*given: Any) -> None:
        given[-1](History("three-dumps-in-memory", "none", "memory", 0, ()))

    monkeypatch.setattr(worker, "_IN_MEMORY", {})
    monkeypatch.setattr(worker, "run_trial", trial)
    monkeypatch.setattr(worker, "send", lambda answers, reply: sent.append(reply))
    monkeypatch.setattr(worker, "os", SimpleNamespace(_exit=leave))
    with pytest.raises(GoneError, match="0"):
        worker._works_in_memory(job("three-dumps-in-memory", tmp_path), SimpleNamespace(), io.BytesIO())  # type: ignore[arg-type]
    assert sent == [Reply(tired=True)]
