"""Takes single classes out of a Python file, with the module-level names they use, without running the file."""

from __future__ import annotations
import __future__

import ast
import builtins
import importlib
import io
import linecache
import sys
import warnings
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from fault_injection.targets import names as scopes
from fault_injection.targets.errors import TargetError, UnavailableError, one_line
from fault_injection.targets.outline import CLAIMS, SURFACE, Outline, Unit
from fault_injection.targets.standin import StandIn, available, catchable, lenient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class LazyModule(ModuleType):
    """Holds what was taken out of a file, and takes out more when it is asked for by attribute."""

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["__dump_extract__"].attribute(name)


class Extract(Outline):
    """The names taken out of one file so far, and what is needed to take out more.

    Args:
        unit: the file.
        inside: gives the extract of another module of the same root by its dotted name, or None.
        covers: whether a dotted name is a module or package of the same root.
    """

    def __init__(
        self, unit: Unit, inside: Callable[[str], Extract | None], covers: Callable[[str], bool]
    ) -> None:
        super().__init__(unit, inside)
        self._inside, self._covers = inside, covers
        self._codes: dict[int, CodeType] = {}
        self._done: set[int] = set()
        self._rewriter = scopes.Rewriter(unit.package, self._is_real, self.trim)
        self.module = LazyModule(unit.private, f"Names taken out of {unit.filename}.")
        self._globals = self.module.__dict__
        self._globals.update(
            {
                "__builtins__": builtins,  # the module itself, so that a patched `open` is seen
                "__file__": unit.filename,
                "__package__": unit.private.rpartition(".")[0],
                "__dump_extract__": self,
                scopes.IMPORT_HOOK: self._import,
                scopes.CATCH_HOOK: catchable,
                scopes.DECORATE_HOOK: lenient,
            }
        )

    def build(self, qualname: str) -> type:
        """Make the class with its dump methods, all that they call on it, and the names that they use."""
        wanted = self.reached(qualname, [*SURFACE, *CLAIMS])
        for outline, name in self.lineage(qualname):
            outline.widen(name, wanted)
        top, *rest = qualname.split(".")
        self.require([top])
        built: Any = self._globals.get(top)
        for part in rest:
            built = getattr(built, part, None)
        if not isinstance(built, type):
            reason = f": {built._why}" if type(built) is StandIn else ""
            raise TargetError(
                f"{self.unit.filename}: the class {qualname} cannot be built from its source{reason}"
            )
        built.dump_source_label = f"{self.unit.label}:{qualname}"  # type: ignore[attr-defined]
        return built

    def widen(self, qualname: str, wanted: set[str]) -> bool:
        """Let a class that was built with fewer members be built again."""
        changed = super().widen(qualname, wanted)
        if changed:
            for index in self.bindings[qualname.partition(".")[0]]:
                self._done.discard(index)
                self._codes.pop(index, None)
        return changed

    def require(self, wanted: Iterable[str]) -> None:
        """Run the statements that bind some names and, before them, those that bind what these use.

        Raises:
            TargetError: a name is bound nowhere, or the value of one cannot be computed.
        """
        self._register()
        for index in sorted(self._closure(wanted)):
            if index not in self._done:
                self._done.add(index)
                self._run(index)

    def attribute(self, name: str) -> Any:
        """A name of this module, or a submodule; raises AttributeError where there is none."""
        if not (name.startswith("__") and name.endswith("__")):
            if name in self.bindings:
                self.require([name])
            if name in self._globals or self._from_star(name):
                return self._globals[name]
            child = self._inside(f"{self.unit.module}.{name}")
            if child is not None:
                child._register()
                return child.module
        raise AttributeError(f"{self.unit.label} has no name {name!r}")

    def _closure(self, wanted: Iterable[str]) -> set[int]:
        """The statements, not run yet, that bind these names and all that they use."""
        pending = list(wanted)
        seen: set[str] = set()
        statements: set[int] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            for index in self.bindings.get(name, ()):
                if index in statements or index in self._done:
                    continue
                statements.add(index)
                hard, soft = scopes.used_names(self._code(index))
                pending.extend(use for use in hard | soft if use in self.bindings)
                for use in sorted(hard - self.bindings.keys()):
                    self._check_resolves(use, index)
        return statements

    def _check_resolves(self, name: str, index: int) -> None:
        if (
            name in self._globals
            or hasattr(builtins, name)
            or (name.startswith("__") and name.endswith("__"))
        ):
            return
        if not self._from_star(name):
            where = f"{self.unit.filename}:{self.statements[index].lineno}"
            raise TargetError(
                f"{where}: the global name {name!r} is used there, but the file binds it nowhere"
            )

    def _from_star(self, name: str) -> bool:
        """Take a name from the `from … import *` statements of the file, if one may have it."""
        absent: StandIn | None = None
        for statement in self.statements:
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                module = scopes.absolute_name(statement, self.unit.package)
                value = self._import(module, name, strict=False)
                if type(value) is not StandIn:
                    self._globals[name] = value
                    return True
                if not self._covers(module) and not available(module):
                    absent = value
        if absent is not None:
            self._globals[name] = absent
        return absent is not None

    def _code(self, index: int) -> CodeType:
        if index not in self._codes:
            node = self._rewriter.rewrite(self.statements[index])
            tree = ast.Module(body=[node], type_ignores=[])
            # Annotations stay text: they name what only the whole package can import.
            flags = __future__.annotations.compiler_flag
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._codes[index] = compile(tree, self.unit.filename, "exec", flags, dont_inherit=True)
        return self._codes[index]

    def _run(self, index: int) -> None:
        statement = self.statements[index]
        try:
            exec(self._code(index), self._globals)  # noqa: S102 - only the statements that the dump needs
        except UnavailableError as error:
            self._replace(statement, str(error))
        except Exception as error:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._replace(statement, f"its import failed with {one_line(error)}")
                return
            bound = ", ".join(sorted(scopes.bound_names(statement)))
            where = f"{self.unit.filename}:{statement.lineno}"
            raise TargetError(
                f"{where}: the value of {bound} cannot be computed: {one_line(error)}"
            ) from error

    def _replace(self, statement: ast.stmt, why: str) -> None:
        for name in scopes.bound_names(statement):
            self._globals.setdefault(name, StandIn(name, why))

    def _is_real(self, module: str) -> bool:
        return not self._covers(module) and available(module)

    def _import(self, module: str, attribute: str | None, strict: bool) -> Any:
        """Meet an import from the same source, really, or with a stand-in.

        Args:
            module: absolute dotted name.
            attribute: the name taken from it, or None for the module itself.
            strict: whether the source expects that the import may fail.
        """
        try:
            return self._fetch(module, attribute)
        except (ImportError, AttributeError, TargetError) as error:
            if strict:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module) from error
            full = module if attribute is None else f"{module}.{attribute}"
            return StandIn(full, str(error), module, attribute or "")

    def _fetch(self, module: str, attribute: str | None) -> Any:
        if self._covers(module):
            extract = self._inside(module)
            if extract is None:
                raise ImportError(f"{module} is not in the source")
            extract._register()
            return extract.module if attribute is None else extract.attribute(attribute)
        top = module.partition(".")[0]
        if not available(module):
            raise ImportError(
                f"{top or module} is not imported for a check of source text; "
                "check the class itself, as package.module:Class, where it is installed"
            )
        found = importlib.import_module(module)
        return found if attribute is None else getattr(found, attribute)

    def _register(self) -> None:
        """Make the module known to whoever walks `sys.modules`, and its text to tracebacks."""
        if self.unit.private not in sys.modules:
            root = self.unit.private.partition(".")[0]
            sys.modules.setdefault(root, ModuleType(root, "Parent of the modules of one source target."))
            sys.modules[self.unit.private] = self.module
            lines = io.StringIO(self.unit.text).readlines()
            # Without a modification time `linecache` neither looks for the file nor drops the entry.
            linecache.cache[self.unit.filename] = (len(self.unit.text), None, lines, self.unit.filename)
