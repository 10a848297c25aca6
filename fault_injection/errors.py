"""Looks at a raised exception from outside and writes down all that can be reached from it."""

from __future__ import annotations

import errno as errnos
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from fault_injection.history import Failure, Link

ATTRIBUTES = (
    "step",
    "steps",
    "global_step",
    "global_steps",
    "path",
    "filename",
    "filename2",
    "accepted",
    "pending",
    "errno",
)


class Registry:
    """Numbers the exception objects of a trial, so that the same object is recognised when it comes again.

    Args:
        root: the directory of the trial, which texts show as `ROOT`, so that equal trials tell equal stories.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # The objects are kept, since a freed object's id could come again.
        self._known: dict[int, tuple[int, BaseException]] = {}
        self._lock = threading.Lock()

    def serial(self, error: BaseException) -> int:
        """The number of an exception object, from 1."""
        with self._lock:
            return self._known.setdefault(id(error), (len(self._known) + 1, error))[0]

    def plain(self, text: str) -> str:
        """A text without the name of the trial's directory."""
        return text.replace(self._root, "ROOT")

    def failure(self, error: BaseException) -> Failure:
        """Write down the exception and everything reachable from it."""
        return Failure(tuple(self._link(each) for each in reachable(error)))

    def _link(self, error: BaseException) -> Link:
        number, strike = _get(error, "errno"), _get(error, "injected")
        notes = _get(error, "__notes__")
        # Of a deep stack the end is kept: the place where the operation failed. No source file is looked at, as `extract_tb`
        # does: pyfakefs turns to the real files for that, in every thread at once, and the writer would meet them too.
        stack = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)][-40:]
        return Link(
            serial=self.serial(error),
            types=tuple(cls.__name__ for cls in type(error).__mro__),
            text=self.plain(_text(error)),
            errno=number if isinstance(number, int) else None,
            notes=tuple(self.plain(_text(note)) for note in notes)
            if isinstance(notes, (list, tuple))
            else (),
            attributes=tuple((name, self.plain(value)) for name, value in _attributes(error)),
            strike=strike if isinstance(strike, int) else None,
            frames=tuple(stack),
        )


def reachable(error: BaseException) -> list[BaseException]:
    """The exception, the members of its groups, its causes and contexts, each once, nearest first."""
    found: list[BaseException] = []
    queue: list[BaseException] = [error]
    while queue:
        each = queue.pop(0)
        if any(each is other for other in found):
            continue
        found.append(each)
        members = _get(each, "exceptions")
        if isinstance(members, (tuple, list)):
            queue.extend(member for member in members if isinstance(member, BaseException))
        if each.__cause__ is not None:
            queue.append(each.__cause__)
        # A suppressed context (`raise … from None`) is hidden from the user and so does not count.
        if each.__context__ is not None and not each.__suppress_context__:
            queue.append(each.__context__)
    return found


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as broken:  # noqa: BLE001 - the user's class may do anything
        return f"<its text cannot be shown: {type(broken).__name__}>"


def _get(error: BaseException, name: str) -> Any:
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - a property of the user's class may do anything
        return None


def _attributes(error: BaseException) -> Iterator[tuple[str, str]]:
    for name in ATTRIBUTES:
        value = _get(error, name)
        if value is None or callable(value):
            continue
        if name == "errno":
            yield name, errnos.errorcode.get(value, str(value)) if isinstance(value, int) else _text(value)
        else:
            yield name, _text(value)
