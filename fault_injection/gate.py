"""Gates: a slow or stuck operation waits here, so that a test chooses the interleaving instead of hoping."""

from __future__ import annotations

import threading


class Gate:
    """A door that operations wait at until the test opens it.

    A gate counts who waits, so that a test can wait until the worker has truly arrived.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._open = False
        self._waiting: set[int] = set()
        self.arrivals = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Block the calling thread until the gate is open.

        Args:
            timeout: seconds after which the thread passes although the gate is closed; None waits for ever.

        Returns:
            Whether the gate was open (False: the time ran out).
        """
        me = threading.get_ident()
        with self._condition:
            self.arrivals += 1
            self._waiting.add(me)
            self._condition.notify_all()
            try:
                return self._condition.wait_for(lambda: self._open, timeout)
            finally:
                self._waiting.discard(me)

    def open(self) -> None:
        """Let everybody through, now and later."""
        with self._condition:
            self._open = True
            self._condition.notify_all()

    def close(self) -> None:
        """Make everybody who comes from now on wait."""
        with self._condition:
            self._open = False

    @property
    def is_open(self) -> bool:
        """Whether operations pass without waiting."""
        with self._condition:
            return self._open

    @property
    def waiting(self) -> frozenset[int]:
        """The identifiers of the threads that wait at the gate now."""
        with self._condition:
            return frozenset(self._waiting)

    def await_arrival(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Block until `count` threads have arrived since the gate was made.

        Args:
            count: number of arrivals to wait for.
            timeout: seconds after which to give up.

        Returns:
            Whether they arrived in time.
        """
        with self._condition:
            return self._condition.wait_for(lambda: self.arrivals >= count, timeout)
