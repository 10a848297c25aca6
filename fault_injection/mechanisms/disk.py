"""The disk mechanism: the file operations of this process below one root, struck over a real directory.

While armed, the names `open`, `io.open`, `io.FileIO` and the functions of `os` that touch files stand for watched ones, in
every module that holds them; disarmed, every name holds the original object again.
"""

from __future__ import annotations

import _thread
import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fault_injection.fault import CATALOGUE
from fault_injection.injector import Injector, Strike
from fault_injection.mechanisms import guard, originals
from fault_injection.mechanisms.bindings import Binding, Bindings
from fault_injection.mechanisms.calls import CALLS, OPEN, THREAD_CALLS
from fault_injection.mechanisms.guard import STATE, bypass
from fault_injection.mechanisms.layer import Layer
from fault_injection.mechanisms.rawfile import RawFile
from fault_injection.op import OPS, Op
from fault_injection.plan import Plan

__all__ = ["CAPABILITIES", "DiskInjector", "armed", "bypass", "originals", "supports"]

CAPABILITIES: dict[str, tuple[str, ...]] = {
    name: tuple(op for op in OPS if op in kind.ops)
    for name, kind in CATALOGUE.items()
    if "disk" in kind.mechanisms
}
"""For each fault that the disk mechanism makes real, the operations it can strike."""

_DEADLY = frozenset({"kill", "torn"})

_REPLACEMENTS: list[tuple[Any, Any]] = [
    (originals.open, OPEN),
    (originals.FileIO, RawFile),
    *((call.real, call) for call in (*CALLS.values(), *THREAD_CALLS.values())),
]

_MAIN: list[tuple[Any, str, Any, Any]] = [
    (builtins, "open", originals.open, OPEN),
    (io, "open", originals.open, OPEN),
    (io, "FileIO", originals.FileIO, RawFile),
    *((os, name, call.real, call) for name, call in CALLS.items()),
    *((_thread, name, call.real, call) for name, call in THREAD_CALLS.items()),
]

_FEATURES: list[tuple[set[Any], Any]] = [
    (features, call)
    for features in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)
    for call in CALLS.values()
    if call.real in features
]

_bindings = Bindings(_REPLACEMENTS)


class DiskInjector(Injector):
    """The injector of a trial on the disk.

    Args:
        root: the directory below which operations count.
        plan: the plan of the trial.
        observe: called with every operation and its strike before it happens; what it does itself is not counted.
    """

    def __init__(self, root: str, plan: Plan, observe: Callable[[Op, Strike], None] | None = None) -> None:
        super().__init__(plan, observe)
        self.layer = Layer(root, self)

    def unseen(self) -> tuple[str, ...]:
        """The files below the root that were made, moved or grown past the layer, by C code or a child process.

        A run that leaves any has had operations that no fault could strike, and proves nothing about them. Bytes changed in
        place, at an unchanged size (through `mmap`), cannot be told.
        """
        return self.layer.ledger.unseen()


def supports(plan: Plan, *, deadly: bool = False) -> str:
    """Why a plan cannot be made real on the disk, in one line, or the empty text when it can.

    Args:
        plan: the plan.
        deadly: whether the trial runs in a process of its own that may be killed.
    """
    for rule in plan.rules:
        if rule.fault.name not in CAPABILITIES:
            return f"rule {rule}: the disk mechanism has no fault {rule.fault.name}"
        if rule.fault.name in _DEADLY and not deadly:
            return (
                f"rule {rule} kills the process; it runs in a child process only, as the scenarios killed do"
            )
    return ""


@contextmanager
def armed(
    root: str,
    plan: Plan,
    *,
    observe: Callable[[Op, Strike], None] | None = None,
    deadly: bool = False,
) -> Iterator[DiskInjector]:
    """Strike the file operations of this process, in all its threads, below one directory.

    Args:
        root: an existing directory.
        plan: what fails, and how.
        observe: called with every operation and its strike before it happens.
        deadly: whether faults that kill the process are allowed.

    Yields:
        The injector; its `gate` holds slow and stuck operations. The thread that arms is the caller of `Op.caller`.

    Raises:
        ValueError: the plan kills and `deadly` is not set.
        NotADirectoryError: the root is no directory.
        RuntimeError: a trial is armed already.
    """
    reason = supports(plan, deadly=deadly)
    if reason:
        raise ValueError(reason)
    if not os.path.isdir(root):
        raise NotADirectoryError(f"the root of a trial must be an existing directory: {root}")
    lock = guard.ARMING
    if not lock.acquire(blocking=False):
        raise RuntimeError("a trial is armed already in this process; run one trial after the other")
    try:
        if builtins.open is not originals.open:
            raise RuntimeError(
                f"something else has replaced open() by {builtins.open!r}; undo that before a trial"
            )
        injector = DiskInjector(root, plan, observe)
        bindings = _bindings.refresh()
        try:
            _patch(bindings)
            STATE.layer = injector.layer
            yield injector
        finally:
            STATE.layer = None
            injector.layer.active = False
            _restore(bindings)
    finally:
        lock.release()


def _patch(bindings: list[Binding]) -> None:
    for owner, name, _, watched in _MAIN:
        setattr(owner, name, watched)
    for features, call in _FEATURES:
        features.add(call)
    for binding in bindings:
        binding.put(binding.watched)


def _restore(bindings: list[Binding]) -> None:
    for owner, name, original, _ in _MAIN:
        setattr(owner, name, original)
    for features, call in _FEATURES:
        features.discard(call)
    for binding in bindings:
        binding.put(binding.original)
