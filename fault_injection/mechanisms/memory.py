"""The memory mechanism: a fake file system (pyfakefs) in which the disk is full or a directory may not be written.

A plan is made real by the state of the fake file system, not by a schedule of operations, so few plans have an exact
meaning here:

| plan | the state |
|---|---|
| `none` | an empty directory that belongs to the user |
| `bytes>N:ENOSPC` | the root is a mount of N bytes; a write that does not fit whole fails, and none of it is taken |
| `open#1+:EACCES` | the dump directory exists, belongs to another user and has mode 0555: no file can be made in it |
| `mkdir#1+:EACCES` | the dump directory does not exist, and the directory above it is such a one |

The user of the fake file system is never root, whoever runs the process.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fault_injection.injector import Injector, Strike
from fault_injection.mechanisms import guard
from fault_injection.op import Op
from fault_injection.plan import Plan, Rule, Span

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CAPABILITIES", "FOLDER", "ROOT", "Memory", "MemoryInjector", "armed", "supports"]

ROOT = "/proc/dump"
"""The root of every trial; no real directory can be made there, should a thread outlive its trial."""

FOLDER = f"{ROOT}/steps"
"""The directory to dump into; what the plans about permissions are about."""

CAPABILITIES: dict[str, tuple[str, ...]] = {"ENOSPC": ("write",), "EACCES": ("open", "mkdir")}
"""For each fault that the memory mechanism makes real, the operations it can strike."""

_USER, _OTHER = 1000, 0
_ALWAYS = Span(1)
_OWN = "fault_injection.mechanisms"


def supports(plan: Plan) -> str:
    """Why a plan cannot be made real in memory, in one line, or the empty text when it can.

    Args:
        plan: the plan.
    """
    if len(plan.rules) > 1:
        return "the memory mechanism takes one rule at a time"
    for rule in plan.rules:
        known = ("bytes", "ENOSPC"), ("open", "EACCES"), ("mkdir", "EACCES")
        if (rule.op, rule.fault.name) not in known or rule.span != _ALWAYS or rule.glob:
            return f"rule {rule}: the memory mechanism has bytes>N:ENOSPC, open#1+:EACCES and mkdir#1+:EACCES"
    return ""


class MemoryInjector(Injector):
    """The injector of a trial in memory: counts what the fake file system refused.

    Args:
        plan: the plan of the trial, with one rule or none.
        observe: called with each refused operation and its strike.
    """

    root = ROOT
    folder = FOLDER

    def __init__(self, plan: Plan, observe: Callable[[Op, Strike], None] | None = None) -> None:
        super().__init__(plan, observe)
        self._caller = threading.get_ident()

    def refused(self, error: OSError, rule: Rule) -> None:
        """Note that the fake file system refused an operation, and mark the error as injected."""
        path = str(error.filename or "").removeprefix(ROOT).lstrip("/") or "."
        kind = "write" if rule.op == "bytes" else rule.op
        with self._lock:
            self.operations += 1
            self.fired += 1
            number = self.operations
        error.injected = number  # type: ignore[attr-defined]
        if self._observe is not None:
            self._observe(
                Op(kind, path, caller=threading.get_ident() == self._caller), Strike(number, rule.fault)
            )

    def unseen(self) -> tuple[str, ...]:
        """Nothing: C code and child processes cannot reach the fake file system at all."""
        return ()


class Memory:
    """A fake file system for any number of trials; the real one is in force between them.

    Setting it up looks through every imported module, which takes 0.1 s once; a trial takes under a millisecond.
    """

    def __init__(self) -> None:
        self._patcher: Any = None
        self._known: set[int] = set()

    def __enter__(self) -> Self:
        self._set_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._tear_down()

    @contextmanager
    def trial(
        self, plan: Plan, *, observe: Callable[[Op, Strike], None] | None = None
    ) -> Iterator[MemoryInjector]:
        """Put the fake file system in the place of the real one, in the state that a plan describes.

        Args:
            plan: what fails.
            observe: called with each operation that was refused, and its strike.

        Yields:
            The injector; its `root` and `folder` are the paths to work in.

        Raises:
            ValueError: the plan has no exact meaning in memory.
            RuntimeError: a trial is armed already.
        """
        from pyfakefs import helpers

        reason = supports(plan)
        if reason:
            raise ValueError(reason)
        lock = guard.ARMING
        if not lock.acquire(blocking=False):
            raise RuntimeError("a trial is armed already in this process; run one trial after the other")
        try:
            if {id(module) for module in sys.modules.values()} - self._known:
                self._tear_down()
                self._set_up()
            injector = MemoryInjector(plan, observe)
            user, group = helpers.get_uid(), helpers.get_gid()
            try:
                self._patcher.start_patching()
                _prepare(self._patcher.fs, injector)
                helpers.set_uid(_USER)
                helpers.set_gid(_USER)
                yield injector
            finally:
                helpers.set_uid(user)
                helpers.set_gid(group)
                self._patcher.fs.__dict__.pop("raise_os_error", None)
                self._patcher.stop_patching()
        finally:
            lock.release()

    def _set_up(self) -> None:
        from pyfakefs.fake_filesystem_unittest import Patcher

        if Patcher.REF_COUNT:
            raise RuntimeError(
                "pyfakefs is in use already in this process; leave it before a trial in memory"
            )
        own: list[Any] = [name for name in sys.modules if name == _OWN or name.startswith(f"{_OWN}.")]
        self._patcher = Patcher(additional_skip_names=own, patch_default_args=True, use_dynamic_patch=False)
        self._patcher.setUp()
        # Not `pause`: pyfakefs's own pytest plugin resumes whatever is paused after each test.
        self._patcher.stop_patching()
        self._known = {id(module) for module in sys.modules.values()}

    def _tear_down(self) -> None:
        self._patcher.tearDown()
        self._patcher = None


@contextmanager
def armed(plan: Plan, *, observe: Callable[[Op, Strike], None] | None = None) -> Iterator[MemoryInjector]:
    """One trial in memory, set up and taken down; for many of them, use `Memory`.

    Args:
        plan: what fails.
        observe: called with each operation that was refused, and its strike.

    Yields:
        The injector.
    """
    with Memory() as memory, memory.trial(plan, observe=observe) as injector:
        yield injector


def _prepare(fs: Any, injector: MemoryInjector) -> None:
    """Empty the fake file system, build the state of the plan, and watch for what is refused."""
    from pyfakefs import helpers

    helpers.set_uid(_OTHER)
    helpers.set_gid(_OTHER)
    fs.reset()
    fs.add_mount_point(ROOT, *(rule.limit for rule in injector.plan.rules if rule.op == "bytes"))
    _own(fs, ROOT, 0o755, _USER)
    for rule in injector.plan.rules:
        if rule.op == "mkdir":
            _own(fs, ROOT, 0o555, _OTHER)
        elif rule.op == "open":
            fs.create_dir(FOLDER)
            _own(fs, FOLDER, 0o555, _OTHER)
        fs.raise_os_error = _watch(injector, rule)


def _own(fs: Any, path: str, mode: int, user: int) -> None:
    fs.chmod(path, mode, force_unix_mode=True)
    owned = fs.get_object(path)
    owned.st_uid = owned.st_gid = user


def _watch(injector: MemoryInjector, rule: Rule) -> Callable[..., None]:
    def raise_os_error(number: int, filename: Any = None, winerror: int | None = None) -> None:
        error = OSError(number, os.strerror(number), filename, winerror)
        if number == rule.fault.kind.errno:
            cause = getattr(sys.exc_info()[1], "injected", 0)
            if cause:
                # pyfakefs raises its own error again on the way out: one refusal, not two.
                error.injected = cause  # type: ignore[attr-defined]
            else:
                injector.refused(error, rule)
        if number == errno.ENOSPC:
            # A real write knows no path; a writer must not be given one by the fake.
            error.filename = None
        raise error

    return raise_os_error
