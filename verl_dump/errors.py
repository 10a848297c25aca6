"""What a failed dump raises, and how failures are joined and attached."""

from __future__ import annotations

import errno as codes
import sys
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

_ADVICE: dict[int | None, str] = {
    codes.ENOSPC: "free space on that disk",
    codes.EDQUOT: "free space within the quota",
    codes.EFBIG: "raise the file size limit",
    codes.EACCES: "make the directory writable or dump elsewhere",
    codes.EPERM: "make the directory writable or dump elsewhere",
    codes.EROFS: "make the directory writable or dump elsewhere",
    codes.ENOTDIR: "remove the file that stands where a directory belongs",
    codes.EMFILE: "raise the limit of open files",
    codes.ENFILE: "raise the limit of open files",
}
_OTHERWISE = "mend the cause and dump the step again"


class DumpError(RuntimeError):
    """One dump failed; the original exception, with its traceback, is the cause.

    Attributes:
        step: the step of the dump that failed.
        path: the file that it was to become.
        errno: the number of the operating system's error, None when it was no `OSError`.
        accepted: False when the batch handed over by the very call that raised was not accepted.
    """

    def __init__(
        self, message: str, step: int, path: str, errno: int | None = None, accepted: bool = True
    ) -> None:
        # All arguments go to the base class, which is what makes the error survive pickling (Ray).
        super().__init__(message, step, path, errno, accepted)
        self.message = message
        self.step = step
        self.path = path
        self.errno = errno
        self.accepted = accepted

    def __str__(self) -> str:
        return self.message


class DumpErrorGroup(ExceptionGroup[DumpError]):  # type: ignore[misc, unused-ignore]
    """Several dumps failed: `exceptions` holds a `DumpError` for each, in the order of the dumps."""

    def derive(self, excs: Sequence[DumpError]) -> DumpErrorGroup:  # type: ignore[override, unused-ignore]
        """Keep the type when `except*` or `split` takes a part."""
        return DumpErrorGroup(self.message, excs)


class DrainTimeout(RuntimeError):  # noqa: N818
    """The deadline of a drain has passed with dumps that are not on disk.

    Failures found on the way are the cause, and count as raised.

    Attributes:
        pending: (step, path) of each dump that is not on disk, in order.
        failures: the failures found, in order.
    """

    def __init__(
        self, timeout: float, pending: Sequence[tuple[int, str]], failures: Sequence[DumpError] = ()
    ) -> None:
        super().__init__(timeout, tuple(pending), tuple(failures))
        self.timeout = timeout
        self.pending = tuple(pending)
        self.failures = tuple(failures)

    def __str__(self) -> str:
        places = ", ".join(f"step {step} ({path})" for step, path in self.pending)
        failed = f"; {count(self.failures)} failed besides" if self.failures else ""
        return (
            f"{count(self.pending)} not on disk after {self.timeout:g} s: {places}{failed}; "
            "the writes go on: look at the disk, then drain again"
        )


def count(dumps: Sequence[object]) -> str:
    """Say how many dumps these are."""
    return f"{len(dumps)} dump{'' if len(dumps) == 1 else 's'}"


def failed(step: int, path: str, cause: BaseException) -> DumpError:
    """Return the error of a dump that failed while it was written."""
    number = cause.errno if isinstance(cause, OSError) else None
    advice = _ADVICE.get(number, _OTHERWISE)
    error = DumpError(
        f"dump of step {step} to {path} failed: {type(cause).__name__}: {cause}; {advice}", step, path, number
    )
    error.__cause__ = cause
    return error


def refused(step: int, path: str, reason: str, cause: BaseException | None = None) -> DumpError:
    """Return the error of a dump that was never accepted."""
    error = DumpError(f"dump of step {step} to {path} was not accepted: {reason}", step, path, accepted=False)
    error.__cause__ = cause
    return error


def joined(failures: Sequence[DumpError], postscript: str = "") -> DumpError | DumpErrorGroup:
    """Return one exception from which all of `failures` (at least one) can be reached."""
    if len(failures) == 1:
        failures[0].message += postscript
        return failures[0]
    steps = ", ".join(str(failure.step) for failure in failures)
    return DumpErrorGroup(f"{count(failures)} failed (steps {steps}){postscript}", failures)


def attach(primary: BaseException, failure: DumpError | DumpErrorGroup | DrainTimeout) -> tuple[str, ...]:
    """Attach what went wrong with the dumps to the exception that is already on its way.

    A note for each failure is added to `primary.__notes__`, the exception itself to `primary.dump_failures`,
    and it is linked at the end of the `__context__` chain of `primary`, whose type and cause stay as they are.

    Returns:
        The notes that were added.
    """
    # Python has linked the primary as the context of what was raised while it was handled: the chain
    # built below would close a circle through that link.
    failure.__context__ = None
    notes = tuple(str(part) for part in _parts(failure))
    primary.__notes__ = [*getattr(primary, "__notes__", ()), *notes]  # type: ignore[attr-defined, unused-ignore]
    primary.dump_failures = (*getattr(primary, "dump_failures", ()), failure)  # type: ignore[attr-defined]
    seen = {id(failure)}
    last = primary
    while last.__context__ is not None and id(last.__context__) not in seen:
        last = last.__context__
        seen.add(id(last))
    if last.__context__ is None:
        last.__context__ = failure
    return notes


def _parts(failure: DumpError | DumpErrorGroup | DrainTimeout) -> Sequence[BaseException]:
    if isinstance(failure, DumpErrorGroup):
        return tuple(failure.exceptions)
    if isinstance(failure, DrainTimeout):
        return (*failure.failures, failure)
    return (failure,)
