"""What the processes of one trial tell each other: events, and how a child ended."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO

from fault_injection.history import Event


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    Args:
        code: the exit code, minus the number of the signal, or None where it slept for ever and was killed.
        told: the events that it told, pickled one after the other.
        stderr: what it said.
        error: the traceback of a defect of the harness, in the nursery itself.
        driver: what Ray told the driver, for a trial in an actor.
    """

    code: int | None
    told: bytes
    stderr: str
    error: str = ""
    driver: str = ""


def telling(write: int) -> Callable[[Event], None]:
    """A sink that sends each event through a pipe at once, so that nothing is lost with the process."""

    def tell(event: Event) -> None:
        data = pickle.dumps(event)
        while data:
            data = data[os.write(write, data) :]

    return tell


def unpickled(data: bytes) -> list[Event]:
    """The events that came through a pipe; a torn one at the end is left out."""
    stream, events = BytesIO(data), []
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            events.append(pickle.load(stream))  # noqa: S301 - written by this package's own child
    return events
