"""What an error says of itself."""

import errno
import os
import pickle

import pytest

from verl_dump import DrainTimeout, DumpError
from verl_dump.errors import attach, failed, refused


def test_an_error_shows_what_it_was_made_of():
    """The arguments of an error, which logs and debuggers show, are all that it knows, also after pickling."""
    error = DumpError("message", 3, "/d/3.jsonl", errno.EIO, accepted=False)
    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert one.args == ("message", 3, "/d/3.jsonl", errno.EIO, False)
        assert (one.message, one.step, one.path, one.errno, one.accepted) == one.args
    late = DrainTimeout(2.5, [(3, "/d/3.jsonl")], [error])
    assert late.args == (2.5, ((3, "/d/3.jsonl"),), (error,))


def test_a_late_drain_tells_of_failures_only_where_there_are_some():
    """The text of a drain that ran out of time counts the dumps that failed besides, or says nothing of any."""
    quiet = str(DrainTimeout(2.5, [(3, "/d/3.jsonl")]))
    assert quiet == (
        "1 dump not on disk after 2.5 s: step 3 (/d/3.jsonl); the writes go on: look at the disk, then drain again"
    )
    loud = str(DrainTimeout(2.5, [(3, "/d/3.jsonl")], [failed(2, "/d/2.jsonl", ValueError("x"))]))
    assert loud == quiet.replace("; the writes", "; 1 dump failed besides; the writes")


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        pytest.param(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "free space on that disk", id="known"),
        pytest.param(
            OSError(errno.EINTR, os.strerror(errno.EINTR)),
            "mend the cause and dump the step again",
            id="errno",
        ),
        pytest.param(OSError("no number"), "mend the cause and dump the step again", id="no-errno"),
        pytest.param(ValueError("x"), "mend the cause and dump the step again", id="no-os-error"),
    ],
)
def test_every_failure_ends_with_advice(cause, advice):
    """The text of a failed dump ends with what to do, whatever the cause, and the cause stays reachable."""
    error = failed(3, "/d/3.jsonl", cause)
    assert str(error) == f"dump of step 3 to /d/3.jsonl failed: {type(cause).__name__}: {cause}; {advice}"
    assert error.__cause__ is cause
    assert (error.step, error.path, error.errno) == (3, "/d/3.jsonl", getattr(cause, "errno", None))
    assert error.accepted is True


def test_a_refusal_says_that_nothing_was_accepted():
    """The error of a dump that was refused tells step, path and reason, and that the batch is still the caller's."""
    error = refused(3, "/d/3.jsonl", "the queue is full")
    assert (error.step, error.path, error.errno, error.accepted) == (3, "/d/3.jsonl", None, False)
    assert str(error) == "dump of step 3 to /d/3.jsonl was not accepted: the queue is full"


class AskedError(ValueError):
    """An exception in a circle, which gives up on whoever goes round for ever."""

    following = None
    left = 10

    @property
    def __context__(self):
        self.left -= 1
        assert self.left, "asked again and again"
        return self.following


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_that_the_error_is_not_in_is_walked_once(length):
    """Where a context chain ends in a circle the failure is noted and kept, and the chain is left as it is."""
    primary, circle = ValueError("primary"), [AskedError() for _ in range(length)]
    for one, other in zip(circle, circle[1:] + circle[:1], strict=True):
        one.following = other
    primary.__context__ = circle[0]
    failure = failed(3, "/d/3.jsonl", ValueError("x"))
    assert attach(primary, failure) == (str(failure),)
    assert primary.dump_failures == (failure,)
    assert primary.__context__ is circle[0]


def test_a_failure_is_linked_once():
    """A failure that is in the context chain already does not become its own context."""
    primary, failure = ValueError("primary"), failed(3, "/d/3.jsonl", ValueError("x"))
    primary.__context__ = failure
    attach(primary, failure)
    assert primary.__context__ is failure
    assert failure.__context__ is None


def test_a_late_drain_is_attached_with_its_failures():
    """An exception that meets a late drain has a note for each dump that failed besides, and one for the rest."""
    primary, failure = ValueError("primary"), failed(2, "/d/2.jsonl", ValueError("x"))
    late = DrainTimeout(2.5, [(3, "/d/3.jsonl")], [failure])
    assert attach(primary, late) == (str(failure), str(late))
    assert primary.__notes__ == [str(failure), str(late)]
