"""Notes which real error the kernel gave to which operation, so that a history names it as if it had been injected.

The fault layer of the child is armed with an empty plan: it counts the writer's operations and strikes none. What is
wrapped here are the real calls under it. Only for a process that runs one trial and ends.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fault_injection.mechanisms.calls import CALLS
from fault_injection.mechanisms.guard import GUARD, current
from fault_injection.mechanisms.rawfile import RawFile

if TYPE_CHECKING:
    from fault_injection.injector import Strike
    from fault_injection.op import Op

Around = Callable[[str], AbstractContextManager[None]]
"""What surrounds a real call of a kind of operation."""

_METHODS = ("__init__", "write", "readinto", "read", "readall", "truncate", "close")


class Notes(threading.local):
    """The last operation of each thread."""

    number = 0
    kind = ""


class Note:
    """Notes the errors of one trial.

    Args:
        errors: the error numbers that the plan can cause; any other is the writer's own affair.
        struck: called with the number of the operation and the name of the error.
        around: surrounds each real call.
    """

    def __init__(
        self, errors: frozenset[int], struck: Callable[[int, str], None], around: Around | None = None
    ) -> None:
        self._errors, self._struck = errors, struck
        self._around = around or (lambda _: nullcontext())
        self._last = Notes()

    def observing(self, observe: Callable[[Op, Strike], None]) -> Callable[[Op, Strike], None]:
        """An observer that remembers the operation before it passes it on."""

        def noted(op: Op, strike: Strike) -> None:
            self._last.number, self._last.kind = strike.number, op.kind
            observe(op, strike)

        return noted

    def install(self) -> None:
        """Wrap the real calls of this process, for good."""
        for each in CALLS.values():
            each.real = self._wrapped(each.real)
        for name in _METHODS:
            setattr(RawFile, name, self._wrapped(getattr(RawFile, name)))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        # The judge takes a traceback that ends in a function of this name for that of the operation itself.
        def strike(*args: Any, **kwargs: Any) -> Any:
            if current() is None or GUARD.depth:
                return real(*args, **kwargs)
            before = self._last.number
            try:
                with self._around(getattr(real, "__name__", "")):
                    return real(*args, **kwargs)
            except OSError as error:
                self._note(error, before)
                raise

        strike.__name__ = "strike"
        return strike

    def _note(self, error: OSError, before: int) -> None:
        number = self._last.number
        if error.errno not in self._errors or hasattr(error, "injected") or not (number or before):
            return
        error.injected = number  # type: ignore[attr-defined]
        self._struck(number, errno.errorcode[error.errno])


@contextmanager
def lowered(limit: int) -> Iterator[None]:
    """While this lasts, the process may have no file descriptor of that number or above."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
