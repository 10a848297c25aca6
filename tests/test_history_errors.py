"""What is written down of a raised exception: everything the user can reach from it, and nothing else."""

from __future__ import annotations

import errno
import sys

import pytest

from fault_injection.errors import Registry, reachable
from fault_injection.history import Failure, History, Link, Mark

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup


def _raised(make: object) -> BaseException:
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def _from_cause() -> None:
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ValueError("outer") from error


def _in_context() -> None:
    try:
        raise KeyError("inner")
    except KeyError:
        raise ValueError("outer")


def _from_none() -> None:
    try:
        raise KeyError("inner")
    except KeyError:
        raise ValueError("outer") from None


@pytest.mark.parametrize(
    ("make", "types"),
    [
        pytest.param(_from_cause, [ValueError, KeyError], id="cause"),
        pytest.param(_in_context, [ValueError, KeyError], id="context"),
        pytest.param(_from_none, [ValueError], id="suppressed-context"),
    ],
)
def test_causes_and_contexts_are_reachable_unless_suppressed(make: object, types: list[type]) -> None:
    """Causes and contexts count as the interpreter would show them; `raise … from None` hides."""
    assert [type(error) for error in reachable(_raised(make))] == types


def test_a_cause_set_by_hand_with_a_context_of_its_own_shows_both() -> None:
    """Where the context is not suppressed, cause and context are both reachable."""
    error = ValueError()
    error.__cause__ = KeyError()
    error.__context__ = IndexError()
    assert [type(each) for each in reachable(error)] == [ValueError, KeyError]
    error.__suppress_context__ = False
    assert [type(each) for each in reachable(error)] == [ValueError, KeyError, IndexError]


def test_members_of_groups_and_their_chains_are_reachable() -> None:
    """Groups are searched at any depth, and so are the chains of their members."""
    inner = _raised(_from_cause)
    group = BaseExceptionGroup("all", [ExceptionGroup("some", [inner, OSError()]), KeyboardInterrupt()])
    found = {type(each) for each in reachable(group)}
    assert found >= {ValueError, KeyError, OSError, KeyboardInterrupt}
    assert len(reachable(group)) == 6


def test_circles_end() -> None:
    """A chain that closes a circle is walked once."""
    first, second = ValueError("1"), ValueError("2")
    first.__context__, second.__context__ = second, first
    assert reachable(first) == [first, second]
    first.__cause__ = first
    assert reachable(first)[0] is first


def test_an_attribute_called_exceptions_that_holds_something_else_is_passed_over() -> None:
    """Only exceptions are followed, whatever an error calls its attributes."""
    error = ValueError()
    for value in (None, 3, "text", [1, "two"], {"a": ValueError()}):
        error.exceptions = value
        assert reachable(error) == [error]


def test_the_same_object_keeps_its_number_and_another_gets_its_own() -> None:
    """Equal exceptions are told apart, and one that comes again is recognised."""
    registry = Registry("/data")
    first, twin = OSError(28, "full"), OSError(28, "full")
    assert registry.serial(first) == registry.serial(first) == 1
    assert registry.serial(twin) == 2
    assert registry.failure(first).links[0].serial == 1
    # Kept, so that a new object in the same place is not taken for it.
    numbers = {registry.serial(ValueError(i)) for i in range(50)}
    assert numbers == set(range(3, 53))


def test_a_link_says_what_the_exception_says() -> None:
    """Type and bases, message, errno, notes, attributes and the mark of the fault layer are written down."""
    error = PermissionError(errno.EACCES, "denied", "/data/dump/7.jsonl")
    error.__notes__ = ["step 7", "in /data/dump"]
    error.injected = 3
    error.step, error.accepted = 7, False
    (link,) = Registry("/data").failure(error).links
    assert link.types[:3] == ("PermissionError", "OSError", "Exception")
    assert link.text == "[Errno 13] denied: 'ROOT/dump/7.jsonl'"
    assert link.errno == errno.EACCES
    assert link.notes == ("step 7", "in ROOT/dump")
    assert dict(link.attributes) == {
        "step": "7",
        "accepted": "False",
        "filename": "ROOT/dump/7.jsonl",
        "errno": "EACCES",
    }
    assert link.strike == 3
    assert link.words == (
        "[Errno 13] denied: 'ROOT/dump/7.jsonl'\nstep 7\nin ROOT/dump\n7\nROOT/dump/7.jsonl\nFalse\nEACCES"
    )


def test_the_traceback_is_kept_by_names_the_innermost_last() -> None:
    """The frames end where the exception was raised, also in a stack deeper than what is kept."""

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        bottom()

    def bottom() -> None:
        raise ValueError

    (link,) = Registry("/").failure(_raised(lambda: deep(3))).links
    assert link.frames == ("_raised", "<lambda>", "deep", "deep", "deep", "deep", "bottom")
    (link,) = Registry("/").failure(_raised(lambda: deep(200))).links
    assert len(link.frames) == 40
    assert link.frames[-1] == "bottom"
    assert Registry("/").failure(ValueError()).links[0].frames == ()


class HostileError(Exception):
    """An exception that breaks whatever is asked of it."""

    @property
    def step(self) -> int:
        raise ValueError("no step")

    @property
    def exceptions(self) -> tuple[()]:
        raise RuntimeError("no members")

    @property
    def errno(self) -> str:
        return "not a number"

    @property
    def path(self) -> Unprintable:
        return Unprintable()

    def __str__(self) -> str:
        raise OSError("no text")


class Unprintable:
    """An object without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_exception_that_breaks_when_it_is_looked_at_is_written_down_all_the_same() -> None:
    """A user's class may raise from its properties and its text; the trial goes on."""
    error = HostileError()
    error.__notes__ = "not a list"
    (link,) = Registry("/data").failure(error).links
    assert link.text == "<its text cannot be shown: OSError>"
    assert link.errno is None
    assert link.notes == ()
    assert dict(link.attributes) == {
        "path": "<its text cannot be shown: ValueError>",
        "errno": "not a number",
    }


def test_a_failure_is_shown_by_its_first_line() -> None:
    """In sentences a failure is its type and the first line of its message."""
    failure = Failure((Link(1, ("ValueError", "Exception"), "first\nsecond"), Link(2, ("OSError",), "below")))
    assert str(failure) == "ValueError: first"
    assert failure.words == "first\nsecond\nbelow"
    assert str(Failure((Link(1, ("KeyError",), ""),))) == "KeyError: "


def test_a_history_is_asked_by_kind_and_by_mark() -> None:
    """Events are found by their kind in order, and marks by their name."""
    history = History("s", "none", "disk", 0, (Mark("a"), Mark("b", "text")))
    assert [mark.name for mark in history.of(Mark)] == ["a", "b"]
    assert history.marked("b")
    assert not history.marked("text")
