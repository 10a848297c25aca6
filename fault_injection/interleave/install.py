"""Puts the stand-ins in the place of the real things for the length of one run."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from fault_injection.interleave import primitives, threads
from fault_injection.interleave.accesses import functions_of
from fault_injection.interleave.primitives import CURRENT
from fault_injection.interleave.real import FUTURES, REAL
from fault_injection.interleave.scheduler import Scheduler
from fault_injection.mechanisms.bindings import Bindings

_REPLACEMENTS: list[tuple[Any, Any]] = [
    (REAL["lock"], primitives.make_lock),
    # Since Python 3.13 threading.Lock is the type itself.
    (REAL["lock-type"], primitives.make_lock),
    (REAL["rlock"], primitives.make_rlock),
    (REAL["condition"], primitives.Condition),
    (REAL["event"], primitives.Event),
    (REAL["simple-queue"], primitives.SimpleQueue),
    (REAL["sleep"], primitives.sleep),
    (REAL["monotonic"], primitives.monotonic),
]
_HELD = tuple(REAL[name] for name in ("lock-type", "rlock", "condition", "event"))
_bindings = Bindings(_REPLACEMENTS)
_METHODS = {"start": threads.start, "join": threads.join, "is_alive": threads.is_alive}


class Holdings:
    """What a target's modules have made or bound for good when they were imported: locks, and factories in closures.

    Args:
        modules: of the target.
    """

    def __init__(self, modules: list[ModuleType]) -> None:
        self._locks: list[tuple[Any, str, Any]] = []
        self._cells: list[tuple[Any, Any, Any]] = []
        replacements = {id(real): stand_in for real, stand_in in _REPLACEMENTS}
        for module in modules:
            owners = [module, *(v for v in vars(module).values() if isinstance(v, type))]
            for owner in owners:
                self._locks += [
                    (owner, name, value) for name, value in list(vars(owner).items()) if type(value) in _HELD
                ]
            # The generated __init__ of a dataclass keeps the factories of its fields in a closure.
            for function in functions_of(module):
                for cell in function.__closure__ or ():
                    value = _content(cell)
                    if id(value) in replacements:
                        self._cells.append((cell, value, replacements[id(value)]))

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """While this lasts, each is a stand-in; to be entered by a thread of the run."""
        for owner, name, value in self._locks:
            setattr(owner, name, _fresh(value))
        for cell, _, stand_in in self._cells:
            cell.cell_contents = stand_in
        try:
            yield
        finally:
            for owner, name, value in self._locks:
                setattr(owner, name, value)
            for cell, value, _ in self._cells:
                cell.cell_contents = value


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _fresh(value: Any) -> Any:
    if type(value) is REAL["lock-type"]:
        return primitives.Lock()
    if type(value) is REAL["rlock"]:
        return primitives.RLock()
    if type(value) is REAL["condition"]:
        return primitives.Condition()
    event = primitives.Event()
    event._flag = value.is_set()
    return event


@contextmanager
def scheduled(scheduler: Scheduler, holdings: Holdings, trace: Callable[..., Any] | None) -> Iterator[None]:
    """Run what the calling thread does, and every thread it starts, under a scheduler; the run ends with this.

    Args:
        scheduler: of the run.
        holdings: what the target's modules hold.
        trace: the trace function of every thread of the run.
    """
    bindings = _bindings.refresh()
    hook, tracer, collects = threading.excepthook, sys.gettrace(), gc.isenabled()
    # What the collector finds would otherwise be let go at another point in each run.
    gc.disable()
    CURRENT.scheduler, scheduler.trace = scheduler, trace
    try:
        for binding in bindings:
            binding.put(binding.watched)
        for name, method in _METHODS.items():
            setattr(threading.Thread, name, method)
        threading.excepthook = threads.quietly
        shared = FUTURES._global_shutdown_lock  # type: ignore[attr-defined]
        FUTURES._global_shutdown_lock = primitives.Lock()  # type: ignore[attr-defined,assignment]
        try:
            with holdings.replaced():
                prime()
                sys.settrace(None)
                try:
                    yield
                finally:
                    sys.settrace(tracer)
                    scheduler.finish()
        finally:
            FUTURES._global_shutdown_lock = shared  # type: ignore[attr-defined]
    finally:
        CURRENT.scheduler = None
        threading.excepthook = hook
        for name in _METHODS:
            setattr(threading.Thread, name, REAL[name])
        for binding in bindings:
            binding.put(binding.original)
        if collects:
            gc.enable()


def prime() -> None:
    """Ask for bytecode events once before tracing starts: Python 3.12 looks whether anybody has when it does."""
    sys._getframe().f_trace_opcodes = True
