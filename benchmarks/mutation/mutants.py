"""Makes the mutants of a module, each with a name that stays the same while its function does."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import (
    CodeRange,
    MetadataWrapper,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)

from benchmarks.mutation.operators import OPERATORS

MODULE = "<module>"
"""The scope of what belongs to no function."""


@dataclass(frozen=True)
class Mutant:
    """The code of a module with one defect.

    Attributes:
        path: of the module, relative to the repository, with slashes.
        scope: the function that it is in, as `Class.method` or `function.inner`, or `<module>`.
        operator: the kind of defect.
        number: its position among those of this operator in this scope, from 1.
        first: line of the statement that is changed.
        last: line of what is changed.
        start: offset of what is replaced in the text of the module, in characters.
        end: offset behind it.
        new: what replaces it.
        function: the outermost function that it is in the body of, or "" where none is.
        digest: of the text of that function, or of the statement, with the change.
    """

    path: str
    scope: str
    operator: str
    number: int
    first: int
    last: int
    start: int
    end: int
    new: str
    function: str
    digest: str

    @property
    def name(self) -> str:
        """What it is called in reports and in the list of equivalents."""
        return f"{self.path}::{self.scope}::{self.operator}::{self.number}"

    def apply(self, source: str) -> str:
        """Put the defect into the text of the module."""
        return source[: self.start] + self.new + source[self.end :]


def mutants_of(repository: Path, path: str, cache: Path | None = None) -> list[Mutant]:
    """Make every mutant of a module.

    Args:
        repository: the folder that `path` is relative to.
        path: of the module.
        cache: a folder that keeps what has been made, since it takes long.
    """
    source = (repository / path).read_text(encoding="utf-8")
    if cache is None:
        return _made(path, source)
    own = [
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("mutants.py", "operators.py")
    ]
    key = hashlib.sha256("\0".join([path, source, *own]).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    file = cache / f"{key}.json"
    if file.exists():
        return [Mutant(*values) for values in json.loads(file.read_text(encoding="utf-8"))]
    made = _made(path, source)
    cache.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([astuple(mutant) for mutant in made]), encoding="utf-8")
    return made


def _made(path: str, source: str) -> list[Mutant]:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    visitor = _Visitor(path, source, wrapper)
    wrapper.module.visit(visitor)
    return visitor.found


class _Visitor(cst.CSTVisitor):
    def __init__(self, path: str, source: str, wrapper: MetadataWrapper) -> None:
        super().__init__()
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._module = wrapper.module
        self._inner = wrapper.resolve(PositionProvider)
        self._outer = wrapper.resolve(WhitespaceInclusivePositionProvider)
        self._offsets = [0]
        for line in source.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._scopes: list[str] = []  # names of the classes and functions around
        self._function: list[
            str
        ] = []  # name of the outermost function whose body is visited, once for each around
        self._statements: list[cst.CSTNode] = []
        self._numbers: Counter[tuple[str, str]] = Counter()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_no_code(node):
            return False
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            self._statements.append(node)
        if isinstance(node, cst.ClassDef | cst.FunctionDef):
            self._scopes.append(node.name.value)
        for kind, part, name, operator in OPERATORS:
            if isinstance(node, kind):
                old = getattr(node, part) if part else node
                if old is not None:
                    for new in operator(node):
                        self._add(name, old, new)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if self._statements and self._statements[-1] is original_node:
            self._statements.pop()
            if isinstance(original_node, cst.ClassDef | cst.FunctionDef):
                self._scopes.pop()

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        if isinstance(node, cst.FunctionDef) and attribute == "body":
            self._function.append(self._function[0] if self._function else ".".join(self._scopes))

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        if isinstance(original_node, cst.FunctionDef) and attribute == "body":
            self._function.pop()

    def _add(self, operator: str, old: cst.CSTNode, new: cst.CSTNode) -> None:
        where = self._outer[old]
        start, end = self._span(where)
        text = self._module.code_for_node(new)
        if text == self._source[start:end]:
            return
        scope = ".".join(self._scopes) or MODULE
        self._numbers[scope, operator] += 1
        number = self._numbers[scope, operator]
        statement = self._inner[self._statements[-1]]
        around = self._inner[self._statements[0]]
        if self._scopes:
            # The function, not the class: another method of it is another matter.
            around = next(
                (self._inner[s] for s in self._statements if isinstance(s, cst.FunctionDef)), statement
            )
        content = "\0".join(
            (self._slice(around), f"{start - self._span(around)[0]}", self._source[start:end], text)
        )
        # What a handler does not catch is of no matter where nothing is raised.
        first = where.start.line if operator == "uncaught" else min(statement.start.line, where.start.line)
        self.found.append(
            Mutant(
                self._path,
                scope,
                operator,
                number,
                first,
                where.end.line,
                start,
                end,
                text,
                self._function[0] if self._function else "",
                hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:12],
            )
        )

    def _span(self, where: CodeRange) -> tuple[int, int]:
        return (
            self._offsets[where.start.line - 1] + where.start.column,
            self._offsets[where.end.line - 1] + where.end.column,
        )

    def _slice(self, where: CodeRange) -> str:
        start, end = self._span(where)
        return self._source[start:end]


def _is_no_code(node: cst.CSTNode) -> bool:
    """Whether a node is for readers and type checkers: annotations, aliases of types, `__all__`, docstrings.

    So is that a dataclass is frozen, which forbids what nobody does.
    """
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom):
        return True
    if isinstance(node, cst.Decorator):
        return m.matches(node.decorator, m.Call(m.Name("dataclass")))
    if isinstance(node, cst.If):
        return m.matches(node.test, m.Name("TYPE_CHECKING") | m.Attribute(attr=m.Name("TYPE_CHECKING")))
    if not isinstance(node, cst.Assign | cst.AnnAssign | cst.Expr):
        return False
    types = m.Subscript(m.Name("Literal") | m.Name("TypeVar") | m.Name("Union") | m.Name("Callable"))
    alias = m.Call(m.Name("TypeVar") | m.Name("NewType") | m.Name("cast") | m.Name("ParamSpec"))
    return m.matches(
        node,
        m.Assign(targets=[m.AssignTarget(m.Name("__all__"))])
        | m.Assign(value=types | alias)
        | m.AnnAssign(annotation=m.Annotation(m.Name("TypeAlias")))
        | m.Expr(m.SimpleString()),
    )


def each_module(repository: Path, *folders: str) -> Iterator[str]:
    """The modules below folders, or the modules named, relative to the repository."""
    for folder in folders:
        if folder.endswith(".py"):
            yield folder
        else:
            for file in sorted((repository / folder).rglob("*.py")):
                yield file.relative_to(repository).as_posix()
