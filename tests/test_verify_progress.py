"""`verl_dump.verify.progress`: what is said of a run while it goes on."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from verl_dump.verify.progress import Progress


class Clock:
    """A clock that the test winds on."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the progress."""
    clock = Clock()
    monkeypatch.setattr("verl_dump.verify.progress.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


class Stream(io.StringIO):
    """A stream that may be a terminal, and counts how often it was flushed."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.flushed = 0

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.flushed += 1


@pytest.mark.parametrize(
    ("planned", "done", "seconds", "text"),
    [
        pytest.param([1000], 995, 100, " 99 %  995 bytes of 1.0 kB, 10 bytes/s, 0:00 left", id="nearly"),
        pytest.param(
            [600, 400], 500, 50, " 50 %  500 bytes of 1.0 kB, 10 bytes/s, 0:50 left", id="two-places"
        ),
        pytest.param([10], 20, 40, "100 %  20 bytes of 20 bytes, 0 bytes/s, 0:00 left", id="grown"),
        pytest.param([10], 1, 30, " 10 %  1 bytes of 10 bytes, 0 bytes/s, 4:30 left", id="slow"),
        pytest.param([3661], 0, 30, "  0 %  0 bytes of 3.7 kB, 0 bytes/s, ", id="stalled"),
        pytest.param([3690], 30, 30, "  0 %  30 bytes of 3.7 kB, 1 bytes/s, 1:01:00 left", id="hour"),
        pytest.param([3629], 30, 30, "  0 %  30 bytes of 3.6 kB, 1 bytes/s, 59:59 left", id="below-an-hour"),
        pytest.param([36030], 30, 30, "  0 %  30 bytes of 36.0 kB, 1 bytes/s, 10:00:00 left", id="ten-hours"),
    ],
)
def test_a_line_says_how_far_a_run_is(
    clock: Clock, planned: list[int], done: int, seconds: int, text: str
) -> None:
    """A line has the part of all bytes that were planned, their number, the rate and the time left."""
    stream = Stream(terminal=False)
    progress = Progress(stream)
    for size in planned:
        progress.plan(size)
    clock.now += seconds
    progress.tell(done)
    assert stream.getvalue().startswith(text)
    assert stream.getvalue().count("\n") == 1
    assert stream.flushed == 1


def test_a_terminal_is_found_out(clock: Clock) -> None:
    """On a stream that is a terminal there is a bar from a tenth of a second on, each one in its place."""
    stream = Stream(terminal=True)
    progress = Progress(stream)
    progress.plan(1_000_000)
    for seconds in (0.09, 0.41, 0.05, 0.45):
        clock.now += seconds
        progress.tell(250_000)
    begin = "\r\x1b[K"
    assert stream.getvalue() == (
        f"{begin}[############............]  50 %  500.0 kB of 1.0 MB, 1.0 MB/s, 0:00 left"
        f"{begin}[########################] 100 %  1.0 MB of 1.0 MB, 1.0 MB/s, 0:00 left"
    )
    assert stream.flushed == 2


def test_a_terminal_that_went_away_stops_nothing(clock: Clock) -> None:
    """That the progress cannot be shown does not end the run."""

    class Gone(Stream):
        def write(self, text: str) -> int:
            tried.append(text)
            raise OSError(5, "Input/output error")

    tried: list[str] = []
    progress = Progress(Gone(terminal=True))
    clock.now += 1
    progress.tell(5)
    progress.clear()
    assert len(tried) == 2
