"""Scheduled threads at their edges: what cannot be scheduled, what strikes nothing, and what is looked at."""

from __future__ import annotations

import io
import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fault_injection.interleave import accesses, serve
from fault_injection.interleave.accesses import Atlas, territory_of
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.wire import Reply
from tests.test_interleavings import Counter, job, once


def test_an_empty_queue_is_not_waited_for() -> None:
    """To take from an empty queue without waiting fails at once, in a scheduled thread as everywhere."""
    found = []

    def body() -> None:
        simple: queue.SimpleQueue[int] = queue.SimpleQueue()
        for _ in range(2):
            try:
                found.append(simple.get_nowait())
            except queue.Empty:
                found.append(-1)
            simple.put(5)

    assert not once(body).hung
    assert found == [-1, 5]


def test_a_plan_that_strikes_nothing_is_replayed_without_a_result(tmp_path: Path) -> None:
    """A schedule with a fault whose operation never comes gives the history, and no result."""
    reply = serve.reply_to(
        job("switch:|plan=rmdir#1:EIO", tmp_path), load_subject(Spec(DEFAULT)), io.BytesIO()
    )
    assert (reply.results, reply.refusal) == ((), "")
    assert [history.plan for history in reply.histories] == ["switch:|plan=rmdir#1:EIO"]


@pytest.mark.parametrize("history", [True, False], ids=["replay", "run"])
def test_a_thread_that_is_lost_is_told_before_the_process_ends(
    history: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose thread waits for what nobody can schedule says so, and that it will not be there again."""

    class GoneError(Exception):
        """The process has ended."""

    def lose(*given: Any) -> None:
        given[-1]()

    def leave(code: int) -> None:
        raise GoneError(code)

    sent: list[Reply] = []
    monkeypatch.setattr(serve, "Bench", lose)
    monkeypatch.setattr(serve, "send", lambda answers, reply: sent.append(reply))
    monkeypatch.setattr(serve, "os", SimpleNamespace(_exit=leave))
    with pytest.raises(GoneError, match="0"):
        serve.reply_to(job("none", tmp_path, history=history), load_subject(Spec(DEFAULT)), io.BytesIO())
    (reply,) = sent
    why = "a thread waits in something that the harness cannot schedule"
    assert reply.tired
    assert reply.refusal.startswith(f"interleaved-drain: {why}" if history else "")
    assert [result.schedules.unknown[: len(why)] for result in reply.results] == [why] * (not history)


def _counting() -> Any:
    count = Counter()

    def add() -> None:
        nonlocal count
        count.count = 1
        count = count

    return add


@pytest.mark.parametrize(("version", "seen"), [((3, 12, 9), False), ((3, 13, 0), True)], ids=["3.12", "3.13"])
def test_inner_functions_that_rebind_are_looked_at_where_python_can(
    version: tuple[int, ...], seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to Python 3.12 a function that rebinds an outer variable is let alone, from 3.13 on it is like any other."""
    atlas = Atlas(territory_of(Counter), frozenset({"count"}))
    monkeypatch.setattr(accesses, "sys", SimpleNamespace(version_info=version))
    table, _ = atlas.of(_counting().__code__)
    assert bool(table) is seen
