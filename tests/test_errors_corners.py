"""What an error says of itself."""

import errno
import os
import pickle

import pytest

from verl_dump import DrainTimeout, DumpError
from verl_dump.errors import failed, refused


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
    assert error.accepted is True


def test_a_refusal_says_that_nothing_was_accepted():
    """The error of a dump that was refused tells step, path and reason, and that the batch is still the caller's."""
    error = refused(3, "/d/3.jsonl", "the queue is full")
    assert (error.step, error.path, error.errno, error.accepted) == (3, "/d/3.jsonl", None, False)
    assert str(error) == "dump of step 3 to /d/3.jsonl was not accepted: the queue is full"
