"""How far a run is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

from verl_dump.verify.words import sized

_REDRAW = 0.1
_BEAT = 30.0
"""Seconds between two lines where stderr is no terminal."""
_WIDTH = 24


class Progress:
    """Shows the bytes read of all, the rate and the time that is left.

    Args:
        stream: stderr.
        terminal: whether the line can be written over.
    """

    def __init__(self, stream: TextIO | None = None, *, terminal: bool | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty() if terminal is None else terminal
        self._begin = self._shown = time.monotonic()
        self._total = self._done = 0
        self._drawn = False

    def plan(self, size: int) -> None:
        """Say how many bytes more there are to read."""
        self._total += size

    def tell(self, size: int) -> None:
        """So many bytes more were read."""
        self._done += size
        now = time.monotonic()
        if now - self._shown < (_REDRAW if self._terminal else _BEAT):
            return
        self._shown = now
        text = self._text(now - self._begin)
        if self._terminal:
            self._write(f"\r\x1b[K{text}")
            self._drawn = True
        else:
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Take the bar away, so that something else can be written."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _text(self, seconds: float) -> str:
        total = max(self._total, self._done)
        rate = self._done / max(seconds, 1e-9)
        left = (total - self._done) / max(rate, 1e-9)
        filled = _WIDTH * self._done // total
        bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] " if self._terminal else ""
        return (
            f"{bar}{100 * self._done // total:>3} %  {sized(self._done)} of {sized(total)}, "
            f"{sized(rate)}/s, {_clock(left)} left"
        )

    def _write(self, text: str) -> None:
        # A terminal that has gone away is no reason to stop reading.
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
