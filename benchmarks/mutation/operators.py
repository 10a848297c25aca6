"""The kinds of defects: mutmut's, and those that break the order of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import libcst as cst
import libcst.matchers as m
from mutmut.mutation.mutators import mutation_operators

_OPERATIONS = (
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.BooleanOperation,
    cst.ComparisonTarget,
    cst.AugAssign,
)

Operator = Callable[[Any], Iterable[cst.CSTNode]]


def _drop(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Leave a statement out: a call, a raise, a del."""
    if isinstance(node, cst.Raise | cst.Del) or (isinstance(node, cst.Expr) and not _is_text(node.value)):
        yield cst.Pass()


def _return(node: cst.Return) -> Iterator[cst.CSTNode]:
    """Return None instead of a value; where that is False, `name` turns it into True, which says more."""
    if node.value is not None and not m.matches(node.value, m.Name("None") | m.Name("False")):
        yield node.with_changes(value=cst.Name("None"))


def _negate(node: cst.If | cst.While | cst.CompIf) -> Iterator[cst.CSTNode]:
    """Ask the contrary, where no operator of mutmut does."""
    test = node.test
    compared = (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot, cst.In, cst.NotIn)
    if isinstance(test, cst.UnaryOperation):
        return
    if isinstance(test, cst.Comparison) and [c for c in test.comparisons if isinstance(c.operator, compared)]:
        return
    asked = test if test.lpar else test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield cst.UnaryOperation(cst.Not(), asked)


def _empty(_: cst.For | cst.CompFor) -> Iterator[cst.CSTNode]:
    """Loop over nothing."""
    yield cst.Tuple([])


def _uncaught(_: cst.ExceptHandler) -> Iterator[cst.CSTNode]:
    """Catch nothing."""
    yield cst.Tuple([])


def _unguarded(node: cst.WithItem) -> Iterator[cst.CSTNode]:
    """Enter no context: no lock, no suppression."""
    if node.asname is None:
        yield cst.parse_expression('__import__("contextlib").nullcontext()')


def _once(strings: Operator) -> Operator:
    """Change a text in one way of mutmut's three, and sentences not at all: how they read is no behaviour."""

    def changed(node: cst.BaseString) -> Iterator[cst.CSTNode]:
        if not isinstance(node, cst.SimpleString) or " " in node.value.strip():
            return
        for new in strings(node):
            yield new
            return

    return changed


def _is_text(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseString)


def _mutmuts() -> Iterator[tuple[type, str, str, Operator]]:
    for kind, function in mutation_operators:
        name = function.__name__.removeprefix("operator_").replace("_", "-")
        # Of every node it would only ask whether it is one of these, which takes long.
        for narrow in _OPERATIONS if name == "swap-op" else (kind,):
            yield narrow, "", name, _once(function) if name == "string" else function


OPERATORS: tuple[tuple[type, str, str, Operator], ...] = (
    *_mutmuts(),
    (cst.Expr, "", "drop", _drop),
    (cst.Raise, "", "drop", _drop),
    (cst.Del, "", "drop", _drop),
    (cst.Return, "", "return-none", _return),
    (cst.If, "test", "negate", _negate),
    (cst.While, "test", "negate", _negate),
    (cst.CompIf, "test", "negate", _negate),
    (cst.For, "iter", "empty-loop", _empty),
    (cst.CompFor, "iter", "empty-loop", _empty),
    (cst.ExceptHandler, "type", "uncaught", _uncaught),
    (cst.WithItem, "item", "unguarded", _unguarded),
)
"""For a kind of node: the part of it that is replaced ("" for the whole), the operator's name, and what makes new ones."""
