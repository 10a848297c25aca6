"""What a Python file defines: its statements, the names they bind, and its classes cut down to some members."""

from __future__ import annotations

import ast
import builtins
import copy
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fault_injection.targets import names as scopes
from fault_injection.targets.errors import TargetError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SURFACE = ("_dump_generations", "_write_generations", "_init_dump_executor", "_shutdown_dump_executor")
"""The methods of verl's dump; only the first has always been there."""
CLAIMS = ("dump_capabilities", "dump_disclaims")
"""Class attributes by which a class says what else it promises, and what it does not."""


@dataclass(frozen=True)
class Unit:
    """One Python file of a source.

    Args:
        label: its path below the root, with slashes.
        module: its dotted name below the root.
        package: what its relative imports are relative to.
        filename: its path for tracebacks; inside an archive the archive's path comes first.
        private: the name under which its names are registered in `sys.modules`.
        text: its decoded text.
    """

    label: str
    module: str
    package: str
    filename: str
    private: str
    text: str


class Outline:
    """The text of one file, parsed but not run.

    Args:
        unit: the file.
        inside: gives another module of the same root by its dotted name, or None.
    """

    def __init__(self, unit: Unit, inside: Callable[[str], Outline | None]) -> None:
        self.unit = unit
        self._other = inside
        tree = _parse(unit)
        self.statements = [part for statement in tree.body for part in _parts(statement)]
        self.classes = dict(scopes.class_definitions(tree.body))
        self.bindings = self._index()
        self._kept: dict[tuple[int, int], frozenset[str]] = {}

    def own_names(self, qualname: str) -> set[str]:
        """The names bound in the body of a class."""
        return {name for statement in self.classes[qualname].body for name in scopes.bound_names(statement)}

    def surface(self, qualname: str) -> tuple[str, ...]:
        """The dump methods that a class has, of its own or from bases in the same source."""
        bound = {name for outline, each in self.lineage(qualname) for name in outline.own_names(each)}
        return tuple(name for name in SURFACE if name in bound)

    def _index(self) -> dict[str, list[int]]:
        bindings: dict[str, list[int]] = {}
        imported: set[str] = set()
        for index, statement in enumerate(self.statements):
            for name in scopes.bound_names(statement):
                bindings.setdefault(name, []).append(index)
                if isinstance(statement, (ast.Import, ast.ImportFrom)):
                    imported.add(name)
        # `TABLE[key] = value` belongs to the value of TABLE, but `os.environ[key] = value` is a side effect.
        for index, statement in enumerate(self.statements):
            for name in scopes.filled_names(statement) & (bindings.keys() - imported):
                if index not in bindings[name]:
                    bindings[name].append(index)
        return bindings

    def lineage(self, qualname: str) -> list[tuple[Outline, str]]:
        """A class and its bases as far as the source has them."""
        found: list[tuple[Outline, str]] = []
        pending: list[tuple[Outline, str]] = [(self, qualname)]
        while pending:
            outline, name = pending.pop(0)
            if (outline, name) not in found:
                found.append((outline, name))
                bases = (outline._class_of(base) for base in outline.classes[name].bases)
                pending[:0] = [base for base in bases if base is not None]
        return found

    def reached(self, qualname: str, first: Iterable[str]) -> set[str]:
        """The members of a class and its bases that some of them reach, through each other or through functions.

        Args:
            qualname: the class.
            first: names of the members to begin with; those that it does not have are passed over.
        """
        lineage = self.lineage(qualname)
        owners = {name.rpartition(".")[2] for _, name in lineage}
        members: dict[str, list[tuple[Outline, ast.stmt]]] = {}
        for outline, name in lineage:
            for statement in outline.classes[name].body:
                for bound in scopes.bound_names(statement):
                    members.setdefault(bound, []).append((outline, statement))
        wanted = {name for name in first if name in members}
        seen: list[ast.stmt] = []
        pending = [each for name in wanted for each in members[name]]
        while pending:
            outline, statement = pending.pop()
            if statement not in seen:
                seen.append(statement)
                uses = scopes.member_uses(statement, owners) & members.keys()
                wanted |= uses
                pending.extend(each for name in uses for each in members[name])
                pending.extend((outline, function) for function in outline._functions_in(statement))
        return wanted

    def _functions_in(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The functions of the file's top level that a statement names."""
        for name in {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}:
            for index in self.bindings.get(name, ()):
                if isinstance(self.statements[index], (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield self.statements[index]

    def _class_of(self, base: ast.expr) -> tuple[Outline, str] | None:
        if isinstance(base, ast.Subscript):
            base = base.value
        return self._find_class(base.id, set()) if isinstance(base, ast.Name) else None

    def _find_class(self, name: str, seen: set[tuple[str, str]]) -> tuple[Outline, str] | None:
        if name in self.classes:
            return self, name
        for index in self.bindings.get(name, ()):
            statement = self.statements[index]
            if isinstance(statement, ast.ImportFrom) and (self.unit.label, name) not in seen:
                seen.add((self.unit.label, name))
                other = self._other(scopes.absolute_name(statement, self.unit.package))
                if other is not None:
                    return other._find_class(statement.names[0].name, seen)
        return None

    def widen(self, qualname: str, wanted: set[str]) -> bool:
        """From now on cut a class down to these members and those of earlier calls; say whether that is more."""
        changed = False
        parts = qualname.split(".")
        for depth in range(1, len(parts) + 1):
            node = self.classes[".".join(parts[:depth])]
            members = wanted if depth == len(parts) else {parts[depth]}
            bound = self.own_names(".".join(parts[:depth]))
            place = (node.lineno, node.col_offset)
            kept = self._kept.get(place, frozenset()) | (members & bound)
            if self._kept.get(place) != kept:
                self._kept[place] = kept
                changed = True
        return changed

    def trim(self, node: ast.ClassDef) -> ast.ClassDef:
        """The class with its kept members only, or as it is if `widen` was never called for it."""
        kept = self._kept.get((node.lineno, node.col_offset))
        if kept is None:
            return node
        trimmed = copy.copy(node)
        trimmed.bases = [base for base in node.bases if self._keeps_base(base)]
        trimmed.keywords, trimmed.decorator_list = [], []
        trimmed.body = [s for s in node.body if scopes.bound_names(s) & kept] or [ast.Pass()]
        return trimmed

    def _keeps_base(self, base: ast.expr) -> bool:
        """Bases from this source and from the standard library stay; any other could drag a framework in."""
        if self._class_of(base) is not None:
            return True
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            base = base.value
        if not isinstance(base, ast.Name):
            return False
        for index in self.bindings.get(base.id, ()):
            statement = self.statements[index]
            if isinstance(statement, ast.Import):
                return _is_standard(statement.names[0].name)
            return (
                isinstance(statement, ast.ImportFrom)
                and not statement.level
                and _is_standard(statement.module)
            )
        return hasattr(builtins, base.id)


def _is_standard(module: str | None) -> bool:
    return (module or "").partition(".")[0] in sys.stdlib_module_names


def _parse(unit: Unit) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the source's own warnings are not the check's business
            return ast.parse(unit.text, unit.filename)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise TargetError(
            f"{unit.filename}:{error.lineno}: not valid Python {version}: {error.msg}"
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise TargetError(f"{unit.filename}: not a Python file: {one_line(error)}") from error


def _parts(statement: ast.stmt) -> list[ast.stmt]:
    """An import of several names as one import for each, so that only what is used gets imported."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)) or len(statement.names) == 1:
        return [statement]
    parts: list[ast.stmt] = []
    for alias in statement.names:
        part = copy.copy(statement)
        part.names = [alias]
        parts.append(part)
    return parts
