"""Which names a piece of source binds and uses, and its rewriting so that it runs without its packages."""

from __future__ import annotations

import ast
import builtins
import copy
import dis
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

IMPORT_HOOK = "__dump_import__"
CATCH_HOOK = "__dump_catch__"
DECORATE_HOOK = "__dump_decorate__"
"""Global names by which rewritten source reaches its imports, `catchable` and `lenient`."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORES = frozenset({"STORE_NAME", "STORE_GLOBAL"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_scope(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that belong to its own scope, not to a function, class or comprehension in it."""
    pending = [statement]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement binds in the scope it stands in."""
    names: set[str] = set()
    for node in own_scope(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, _SCOPES):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
    return names


def filled_names(statement: ast.stmt) -> set[str]:
    """The names whose object a statement changes by assigning to an item or attribute of it."""
    names: set[str] = set()
    for node in own_scope(statement):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            root: ast.expr = node
            while isinstance(root, (ast.Subscript, ast.Attribute)):
                root = root.value
            if isinstance(root, ast.Name):
                names.add(root.id)
    return names


def used_names(code: CodeType) -> tuple[set[str], set[str]]:
    """The global names that compiled code reads.

    The compiler's own opcodes are read, not the syntax tree, so scoping is exactly Python's.

    Returns:
        Names that must be global, and names that the code or a class body in it also binds itself.
    """
    hard: set[str] = set()
    soft: set[str] = set()
    stored_globally: set[str] = set()
    pending = [code]
    while pending:
        each = pending.pop()
        loads: set[str] = set()
        stores: set[str] = set()
        for instruction in dis.get_instructions(each):
            if instruction.opname in _LOADS:
                loads.add(instruction.argval)
            elif instruction.opname in _STORES:
                stores.add(instruction.argval)
            if instruction.opname == "STORE_GLOBAL":
                stored_globally.add(instruction.argval)
        hard |= loads - stores
        soft |= loads & stores
        pending.extend(constant for constant in each.co_consts if isinstance(constant, CodeType))
    return hard - stored_globally, soft | (hard & stored_globally)


def class_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes of a module by qualified name, those in classes and in `if` or `try` blocks included."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield prefix + statement.name, statement
            yield from class_definitions(statement.body, f"{prefix}{statement.name}.")
        elif not isinstance(statement, _SCOPES):
            for inner in ("body", "handlers", "orelse", "finalbody"):
                for child in getattr(statement, inner, []):
                    yield from class_definitions(
                        child.body if isinstance(child, ast.ExceptHandler) else [child], prefix
                    )


def member_uses(statement: ast.stmt, classes: Collection[str]) -> set[str]:
    """The members of its own class that a statement of a class body reaches.

    Args:
        statement: a method or an assignment.
        classes: names of the class and its bases, by which methods may call each other.
    """
    owners = {"self", "cls", "__class__", *classes}
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            owners.update(argument.arg for argument in [*node.args.posonlyargs, *node.args.args][:1])
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and _is_owner(node.value, owners):
            names.add(node.attr)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"getattr", "hasattr"}
        ):
            names.update(
                a.value for a in node.args[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)
            )
    for outer in _class_level(statement):
        names.update(node.id for node in ast.walk(outer) if isinstance(node, ast.Name))
    return names


def _is_owner(value: ast.expr, owners: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in owners
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in {"super", "type"}
    return isinstance(value, ast.Attribute) and value.attr == "__class__"


def _class_level(statement: ast.stmt) -> list[ast.AST]:
    """What of a statement is evaluated while the class body runs."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = statement.args
        return [
            *statement.decorator_list,
            *arguments.defaults,
            *(d for d in arguments.kw_defaults if d is not None),
        ]
    return [statement]


class Rewriter(ast.NodeTransformer):
    """Replaces, in a private copy of a statement, what cannot run without the source's packages.

    Imports that must not be executed ask `IMPORT_HOOK` instead; decorators go through `DECORATE_HOOK`, which drops
    them when their package is absent; `except` types go through `CATCH_HOOK`, since a stand-in cannot be caught.

    Args:
        package: what relative imports are relative to.
        real: whether an absolute module name may be imported as it stands.
        trim: gives the shortened form of a class, or the class itself.
    """

    def __init__(
        self, package: str, real: Callable[[str], bool], trim: Callable[[ast.ClassDef], ast.ClassDef]
    ) -> None:
        self._package, self._real, self._trim = package, real, trim
        self._strict = False
        self._class_names: set[str] = set()

    def rewrite(self, statement: ast.stmt) -> ast.stmt:
        """The rewritten copy, with the line numbers of the original."""
        if isinstance(statement, ast.ClassDef):
            statement = self._trim(statement)  # before the copy: a whole trainer is expensive to copy
        node = self.visit(copy.deepcopy(statement))
        body = node if isinstance(node, list) else [node]
        whole = body[0] if len(body) == 1 else ast.If(test=ast.Constant(value=True), body=body, orelse=[])
        result: ast.stmt = ast.fix_missing_locations(ast.copy_location(whole, statement))
        return result

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """Keep or replace each `import a.b as c`."""
        out: list[ast.stmt] = []
        for alias in node.names:
            if self._real(alias.name):
                out.append(ast.copy_location(ast.Import(names=[alias]), node))
            else:
                top = alias.name.partition(".")[0]
                out.append(self._asked(node, alias.asname or top, alias.name if alias.asname else top, None))
        return out

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        """Keep or replace `from a import b as c`."""
        module = absolute_name(node, self._package)
        if node.level == 0 and self._real(module):
            return node
        out = [self._asked(node, a.asname or a.name, module, a.name) for a in node.names if a.name != "*"]
        return out or [ast.copy_location(ast.Pass(), node)]

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """Let imports in a `try` that expects them to fail fail, so that the author's own fallback is taken."""
        outer, self._strict = self._strict, self._strict or any(_catches_import(h) for h in node.handlers)
        node.body = self._all(node.body)
        self._strict = outer
        node.handlers = [self.visit(handler) for handler in node.handlers]
        node.orelse, node.finalbody = self._all(node.orelse), self._all(node.finalbody)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        """Let a stand-in catch nothing."""
        if node.type is not None and not (
            isinstance(node.type, ast.Name) and hasattr(builtins, node.type.id)
        ):
            node.type = ast.copy_location(_call(CATCH_HOOK, [node.type]), node.type)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Shorten the class, and guard its decorators."""
        node = self._trim(node)
        node.decorator_list = self._guarded(node.decorator_list)
        outer, self._class_names = self._class_names, {n for s in node.body for n in bound_names(s)}
        self.generic_visit(node)
        self._class_names = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Guard the decorators."""
        node.decorator_list = self._guarded(node.decorator_list)
        outer, self._class_names = self._class_names, set()
        self.generic_visit(node)
        self._class_names = outer
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815 - named by ast

    def _all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            out.extend(new if isinstance(new, list) else [new])
        return out

    def _asked(self, node: ast.stmt, name: str, module: str, attribute: str | None) -> ast.stmt:
        arguments: list[ast.expr] = [ast.Constant(value=each) for each in (module, attribute, self._strict)]
        target = ast.Name(id=name, ctx=ast.Store())
        return ast.copy_location(ast.Assign(targets=[target], value=_call(IMPORT_HOOK, arguments)), node)

    def _guarded(self, decorators: list[ast.expr]) -> list[ast.expr]:
        return [d if self._is_plain(d) else ast.copy_location(_guard(d), d) for d in decorators]

    def _is_plain(self, decorator: ast.expr) -> bool:
        # A lambda does not see the names of the class body, so `@x.setter` has to stay as it is.
        names = {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}
        return bool(names & self._class_names) or names <= {"staticmethod", "classmethod", "property"}


def absolute_name(node: ast.ImportFrom, package: str) -> str:
    """The absolute module name of a `from` import; a relative one that leaves the package keeps its dots."""
    if node.level == 0:
        return node.module or ""
    parts = package.split(".") if package else []
    if node.level > len(parts):
        return "." * node.level + (node.module or "")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def _call(hook: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=hook, ctx=ast.Load()), args=arguments, keywords=[])


def _guard(decorator: ast.expr) -> ast.Call:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return _call(DECORATE_HOOK, [ast.Lambda(args=nothing, body=decorator)])


def _catches_import(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
