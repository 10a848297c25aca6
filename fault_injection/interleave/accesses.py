"""Uses of attributes that threads share: where they are in the code, and which are made without a common lock.

Locks are points of choice anyway. An attribute that several threads use, one of them to change it, and that no lock
protects in all of its uses (Eraser's rule: Savage et al., SOSP 1997) becomes one too, at each bytecode that uses it.
"""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from fault_injection.interleave.scheduler import Scheduler, Task

MUTATORS = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem",
        "popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update",
    }
)  # fmt: skip
"""Methods that change what they are called on."""
_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_STORES = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_GLOBALS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_ITEMS = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
_READS = frozenset({"BINARY_SUBSCR", "BINARY_SLICE"})
_MAKERS = frozenset({"__init__", "__new__", "__post_init__"})
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STDLIB = tuple(
    os.path.abspath(path) + os.sep
    for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)}
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@dataclass(frozen=True)
class Access:
    """One use of an attribute or global.

    Args:
        name: of the attribute.
        writes: whether it, or what it holds, is changed.
        owner: the local variable whose attribute it is, or the path to it from one (`self`, `self._queue`), or empty.
    """

    name: str
    writes: bool
    owner: str


@dataclass(frozen=True)
class Territory:
    """Whose code is looked at: the target's, and what is neither Python's, nor installed, nor the harness.

    Args:
        packages: names of packages that count wherever they are installed.
    """

    packages: frozenset[str]

    def has(self, filename: str) -> bool:
        """Whether a file is part of it."""
        if filename.startswith("<"):
            return False
        path = os.path.abspath(filename)
        if path.startswith(_OWN + os.sep):
            return False
        if any(place in path for place in _INSTALLED):
            return any(f"{os.sep}{package}{os.sep}" in path for package in self.packages)
        return not path.startswith(_STDLIB)


def territory_of(*classes: type) -> Territory:
    """The territory of a target's classes: the packages of these and of their bases."""
    modules = {base.__module__.partition(".")[0] for cls in classes for base in cls.__mro__}
    own = {"fault_injection", "builtins", "__main__"}
    return Territory(frozenset(modules - own - set(sys.stdlib_module_names)))


def modules_of(territory: Territory) -> list[ModuleType]:
    """The imported modules whose file is part of a territory."""
    found = list(sys.modules.values())
    return [
        m for m in found if isinstance(m, ModuleType) and territory.has(getattr(m, "__file__", None) or "<")
    ]


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module and of its classes."""
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from _methods(value)


def _methods(cls: type) -> Iterator[FunctionType]:
    for value in list(vars(cls).values()):
        if isinstance(value, type) and value.__qualname__.startswith(cls.__qualname__ + "."):
            yield from _methods(value)
        inner = getattr(value, "__func__", value)
        for each in (
            inner,
            *(getattr(inner, name, None) for name in ("fget", "fset", "func", "__wrapped__")),
        ):
            if isinstance(each, FunctionType):
                yield each


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def candidates(functions: Iterable[FunctionType]) -> frozenset[str]:
    """The names of attributes and globals that some function changes, other than where objects are made."""
    names: set[str] = set()
    for function in functions:
        for code in _codes(function.__code__):
            for _, access in _uses(code):
                if access.writes and (code.co_name not in _MAKERS or access.owner != "self"):
                    names.add(access.name)
    return frozenset(names)


def _uses(code: CodeType) -> Iterator[tuple[int, Access]]:
    """Every use of an attribute or a global of its own module in a code object, by offset."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    owner, owners = "", {}
    for i, (before, step, after) in enumerate(zip([None, *steps], steps, [*steps[1:], None], strict=False)):
        at = before.offset if before is not None and before.opname == "EXTENDED_ARG" else step.offset
        changed = after is not None and after.opname in _LOADS and after.argval in MUTATORS
        if step.opname in _LOADS | _STORES:
            owner = f"{owner}.{path}" if (path := _attribute(before)) and owner else _variable(before)
            owners[step.offset] = owner
            yield at, Access(str(step.argval), step.opname in _STORES or changed, owner)
        elif step.opname in _GLOBALS or step.opname == "LOAD_GLOBAL":
            yield at, Access(str(step.argval), step.opname in _GLOBALS or changed, "")
        elif step.opname in _ITEMS and (container := _container(steps[:i])) is not None:
            yield at, Access(str(container.argval), True, owners.get(container.offset, ""))


def _container(steps: list[dis.Instruction]) -> dis.Instruction | None:
    """What loads the attribute or global in which an item is about to be set: below its key on the stack."""
    found = steps
    if steps and not steps[-1].opname.startswith(("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF")):
        # The item was changed in place: its container was loaded when the item was.
        reads = [i for i, step in enumerate(steps[-12:], max(len(steps) - 12, 0)) if step.opname in _READS]
        found = [s for s in steps[: reads[-1]] if not s.opname.startswith(("COPY", "DUP"))] if reads else []
    below = found[-2] if len(found) > 1 else None
    named = below is not None and (below.opname in _LOADS or below.opname == "LOAD_GLOBAL")
    return below if named else None


def _attribute(before: dis.Instruction | None) -> str:
    return str(before.argval) if before is not None and before.opname in _LOADS else ""


def _variable(before: dis.Instruction | None) -> str:
    if before is None or not before.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return ""
    value = before.argval
    return str(value[-1] if isinstance(value, tuple) else value)


@dataclass(frozen=True)
class _Use:
    task: int
    at: int
    locks: frozenset[int]
    writes: bool


class Watch:
    """Follows what the threads of a run use, and finds what they share without a lock.

    Two uses by different threads, one of which changes, race when the threads hold no lock in common and neither
    could know of the other by a thread's start or end, an event, a notification or a queue. That one happened to come
    before the other by a lock does not count: in another schedule it comes after.

    Args:
        scheduler: of the run.
        atlas: where the uses are in the code.
    """

    def __init__(self, scheduler: Scheduler, atlas: Atlas) -> None:
        self._scheduler = scheduler
        self._atlas = atlas
        self._uses: dict[tuple[int, str], list[_Use]] = {}
        self._owners: dict[int, object] = {}
        self._makers: dict[int, int] = {}
        self.racy: dict[str, None] = {}
        """Their names, in the order in which they were found."""

    def trace(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        """The trace function of every thread of the run; see `sys.settrace`."""
        table, lines = self._atlas.of(frame.f_code)
        if not table:
            return None
        get, used = table.get, self._used

        def at(frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line":
                # Most lines use nothing of the kind, and to stop at each of their bytecodes takes most of a run.
                frame.f_trace_opcodes = frame.f_lineno in lines
            elif event == "opcode" and (access := get(frame.f_lasti)) is not None:
                used(access, frame)
            return at

        return at

    def _used(self, access: Access, frame: FrameType) -> None:
        scheduler, task = self._scheduler, self._scheduler.task()
        if task is None or scheduler.over:
            return
        if access.name in scheduler.watched:
            scheduler.reach(task, f"{access.name} is {'changed' if access.writes else 'used'}")
            scheduler.did(task, access.name)
            scheduler.hear(task, access.name)
            scheduler.tell(task, access.name)
            return
        scheduler.step()
        if len(scheduler.tasks) > 1 and access.name not in self.racy:
            self._compare(task, access, _owner(access, frame), frame)

    def _compare(self, task: Task, access: Access, owner: object, frame: FrameType) -> None:
        number = id(owner) if owner is not None else 0
        if owner is not None and self._is_alone(task, owner, number, frame):
            return
        uses = self._uses.setdefault((number, access.name), [])
        locks = frozenset(map(id, task.held))
        use = _Use(task.number, task.clock[task.number], locks, access.writes)
        for other in uses:
            if (
                other.task != use.task
                and (other.writes or use.writes)
                and not other.locks & locks
                and task.clock.get(other.task, 0) < other.at
            ):
                self.racy[access.name] = None
                return
        if use not in uses:
            uses.append(use)

    def _is_alone(self, task: Task, owner: object, number: int, frame: FrameType) -> bool:
        """Whether an object was made by this thread and no other has used it yet."""
        if number not in self._owners:
            # Kept, so that no other object gets its id.
            self._owners[number] = owner
            if _is_made(frame):
                self._makers[number] = task.number
        if self._makers.get(number) == task.number:
            return True
        self._makers.pop(number, None)
        return False


def _is_made(frame: FrameType | None) -> bool:
    for _ in range(3):
        if frame is None:
            return False
        if frame.f_code.co_name in _MAKERS:
            return True
        frame = frame.f_back
    return False


def _owner(access: Access, frame: FrameType) -> object:
    """The object whose attribute is used, without running any of its code; None where it cannot be told."""
    first, *path = access.owner.split(".")
    found = frame.f_locals.get(first)
    for name in path:
        found = getattr(found, "__dict__", {}).get(name)
    return found


class Atlas:
    """Where the candidates are used in the code of a territory.

    Args:
        territory: whose code.
        names: the candidates.
    """

    def __init__(self, territory: Territory, names: frozenset[str]) -> None:
        self._territory = territory
        self._names = names
        # By identity, since to compare code objects takes longer than to run most of them; kept alive for that.
        self._tables: dict[int, tuple[CodeType, dict[int, Access], frozenset[int]]] = {}

    def only(self, names: frozenset[str]) -> Atlas:
        """The same for some of the candidates."""
        return Atlas(self._territory, self._names & names)

    def of(self, code: CodeType) -> tuple[dict[int, Access], frozenset[int]]:
        """The uses in a code object, by offset, and the lines that they are in."""
        known = self._tables.get(id(code))
        if known is None:
            table = self._table(code)
            known = self._tables[id(code)] = (code, table, _lines(code, table))
        return known[1:]

    def _table(self, code: CodeType) -> dict[int, Access]:
        # To trace a module's own code could hold the lock of an import; and up to Python 3.12 a trace function that
        # waits writes old values back into variables that an inner function shares (bpo-30744).
        if not self._names or code.co_name == "<module>" or not _is_in(self._territory, code.co_filename):
            return {}
        if sys.version_info < (3, 13) and code.co_freevars and _rebinds(code):
            return {}
        return {offset: access for offset, access in _uses(code) if access.name in self._names}


def _lines(code: CodeType, table: dict[int, Access]) -> frozenset[int]:
    return frozenset(
        line
        for start, end, line in code.co_lines()
        if line is not None and any(start <= offset < end for offset in table)
    )


@lru_cache(maxsize=4096)
def _is_in(territory: Territory, filename: str) -> bool:
    return territory.has(filename)


def _rebinds(code: CodeType) -> bool:
    stored = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    return bool(stored & set(code.co_freevars))
