"""What must be read back for a value: a tree of JSON values, each with the laws it is at stake for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

Json = Any
"""A value as a JSON reader returns it: None, bool, int, float, str, list or dict with str keys."""


@dataclass(frozen=True)
class Leaf:
    """A scalar that must be read back, equal and of the same JSON type.

    Args:
        value: None, bool, int, float (finite) or str.
        laws: what is violated where it is not.
        kind: the type of what was handed over.
    """

    value: bool | int | float | str | None
    laws: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Items:
    """A list that must be read back, whole and in order."""

    nodes: tuple[Node, ...]
    laws: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Field:
    """One key of an object: its text, the laws at stake for it, the type of the key, its value, and other texts it may have."""

    name: str
    laws: tuple[str, ...]
    kind: str
    node: Node
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fields:
    """An object that must be read back with these keys and no others."""

    nodes: tuple[Field, ...]
    laws: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Unjudged:
    """A place at which any value may be read back: the rest of what is nested too deeply, or what is refused."""

    kind: str
    laws: tuple[str, ...] = ()


Node = Union[Leaf, Items, Fields, Unjudged]  # noqa: UP007 - evaluated at run time, before all four exist


@dataclass(frozen=True)
class Refusal:
    """An error that must come, or may come, instead of the file.

    Args:
        reason: why, in words that finish the sentence "it cannot be written: ...".
        types: names of which the error must say one: the type of the value, its dtype, or what holds it.
        laws: what is violated where the error does not come or does not tell.
        must: whether nothing else is right; False: the value may be written as well.
        column: the column that the error must name; None: any.
        row: the row that it must name, from 0; None: the column as a whole is refused.
        at_call: whether the call itself must raise it, since the caller can mend it.
        others: other names of the column, of which the error may use any.
        lengths: the base columns with their lengths, where these differ; of them the error must tell.
    """

    reason: str
    types: tuple[str, ...]
    laws: tuple[str, ...]
    must: bool = True
    column: str | None = None
    row: int | None = None
    at_call: bool = False
    others: tuple[str, ...] = ()
    lengths: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What must come of one value.

    Args:
        node: what a reader must get back, where it is written.
        refusals: the errors that may come instead; of those with `must` one has to come.
    """

    node: Node
    refusals: tuple[Refusal, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the value must not be written."""
        return any(refusal.must for refusal in self.refusals)


def plain(node: Node) -> Json:
    """The JSON value that must be read back.

    Raises:
        ValueError: there is none, as a part of it is refused or nested too deeply.
    """
    if isinstance(node, Leaf):
        return node.value
    if isinstance(node, Items):
        return [plain(each) for each in node.nodes]
    if isinstance(node, Fields):
        return {field.name: plain(field.node) for field in node.nodes}
    raise ValueError(f"what comes of a {node.kind} is not declared")


def walk(node: Node) -> Iterator[Node | Field]:
    """The node, its keys and everything below, outermost first."""
    yield node
    if isinstance(node, Items):
        for each in node.nodes:
            yield from walk(each)
    elif isinstance(node, Fields):
        for field in node.nodes:
            yield field
            yield from walk(field.node)
