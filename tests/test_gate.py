"""Gates: who comes to a closed one waits until it is opened."""

import threading

import pytest

from fault_injection.gate import Gate


def arrive(gate: Gate, passed: list[bool], timeout: float | None = None) -> threading.Thread:
    """A thread that waits at the gate and notes whether it was open."""
    thread = threading.Thread(target=lambda: passed.append(gate.wait(timeout)))
    thread.start()
    return thread


@pytest.mark.parametrize("count", [1, 3], ids=["one", "three"])
def test_everybody_at_a_closed_gate_waits_until_it_is_opened(count: int) -> None:
    """Nobody passes a closed gate, the gate knows who waits, and opening it lets all of them through."""
    gate, passed = Gate(), []
    threads = [arrive(gate, passed) for _ in range(count)]
    assert gate.await_arrival(count)
    assert gate.waiting == {thread.ident for thread in threads}
    assert passed == []
    gate.open()
    for thread in threads:
        thread.join()
    assert passed == [True] * count
    assert gate.waiting == frozenset()


def test_an_open_gate_holds_nobody() -> None:
    """Who comes to an open gate passes at once, and is counted as an arrival."""
    gate = Gate()
    gate.open()
    assert gate.is_open
    assert gate.wait() is True
    assert gate.arrivals == 1


def test_a_closed_gate_makes_those_wait_who_come_later() -> None:
    """Closing holds who comes from then on."""
    gate, passed = Gate(), []
    gate.open()
    assert gate.wait() is True
    gate.close()
    assert not gate.is_open
    thread = arrive(gate, passed)
    assert gate.await_arrival(2)
    assert passed == []
    gate.open()
    thread.join()
    assert passed == [True]


def test_a_wait_with_a_time_says_that_the_gate_was_closed() -> None:
    """When the time runs out the thread passes with False and no longer counts as waiting."""
    gate = Gate()
    assert gate.wait(timeout=0.001) is False
    assert gate.waiting == frozenset()
    assert gate.arrivals == 1


def test_awaiting_an_arrival_that_does_not_come_gives_up() -> None:
    """`await_arrival` tells that nobody came instead of waiting for ever."""
    gate = Gate()
    assert gate.await_arrival(timeout=0.001) is False


def test_arrivals_are_counted_since_the_gate_was_made() -> None:
    """A thread that has passed already still counts as having arrived."""
    gate = Gate()
    gate.open()
    for _ in range(3):
        gate.wait()
    assert gate.await_arrival(3, timeout=0)
    assert not gate.await_arrival(4, timeout=0)
