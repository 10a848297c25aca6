"""The differences between the tree that must be read back and what was read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fault_injection.oracle.names import assigned
from fault_injection.oracle.outcome import Fields, Items, Json, Leaf, Node, plain

_SHOWN = 60


def show(value: Any) -> str:
    """A short ASCII text of what was read or had to be."""
    try:
        text = json.dumps(value, ensure_ascii=True, default=lambda other: f"<{type(other).__name__}>")
    except (ValueError, TypeError, RecursionError):
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def json_type(value: Any) -> str:
    """The name of the JSON type that a value was read as, integers and other numbers apart."""
    if value is None:
        return "null"
    for kind, name in ((bool, "a boolean"), (int, "an integer"), (float, "a float"), (str, "a string")):
        if isinstance(value, kind):
            return name
    return "a list" if isinstance(value, list) else "an object"


def differences(node: Node, got: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """List what was read otherwise than it must be.

    Args:
        node: what must be read back.
        got: what was read.
        path: where, in the words of a message.

    Yields:
        (law, message): the message goes on after the name of row and key.
    """
    at = f" at {path}" if path else ""
    if isinstance(node, Leaf):
        yield from _leaf(node, got, at)
    elif isinstance(node, Items):
        yield from _items(node, got, path, at)
    elif isinstance(node, Fields):
        yield from _fields(node, got, path, at)


def _leaf(node: Leaf, got: Any, at: str) -> Iterator[tuple[str, str]]:
    if type(got) is type(node.value):
        # repr tells -0.0 from 0.0, and is exact for floats.
        if got == node.value and (not isinstance(got, float) or repr(got) == repr(node.value)):
            return
        laws = node.laws
    else:
        # Another JSON type is S1; S4 is about the digits, which only an integer beyond 64 bits loses with its type.
        kept = (law for law in node.laws if law != "S4" or isinstance(node.value, int))
        laws = tuple(dict.fromkeys((*kept, *(() if "S2" in node.laws else ("S1",)))))
    yield from ((law, f"the {node.kind}{at} is read back as {_instead(got, node.value)}") for law in laws)


def _instead(got: Any, right: Any) -> str:
    if type(got) is not type(right):
        return f"{_described(got)} instead of {_described(right)}"
    return f"{show(got)} instead of {show(right)}"


def _described(value: Any) -> str:
    return "null" if value is None else f"{json_type(value)} {show(value)}"


def _items(node: Items, got: Any, path: str, at: str) -> Iterator[tuple[str, str]]:
    if not isinstance(got, list):
        what = f"{json_type(got)} {show(got)} instead of a list of {len(node.nodes)}"
        yield from ((law, f"the {node.kind}{at} is read back as {what}") for law in node.laws)
        return
    if len(got) != len(node.nodes):
        what = f"a list of {len(got)} instead of {len(node.nodes)}"
        yield from ((law, f"the {node.kind}{at} is read back as {what}") for law in node.laws)
    for i, (each, value) in enumerate(zip(node.nodes, got, strict=False)):
        yield from differences(each, value, f"{path}[{i}]")


def _fields(node: Fields, got: Any, path: str, at: str) -> Iterator[tuple[str, str]]:
    if not isinstance(got, dict):
        what = f"{json_type(got)} {show(got)} instead of an object of {len(node.nodes)} keys"
        yield from ((law, f"the {node.kind}{at} is read back as {what}") for law in node.laws)
        return
    names = assigned([(field.name, *field.others) for field in node.nodes], got)
    known = set(names)
    strange = [name for name in got if name not in known]
    for field, name in zip(node.nodes, names, strict=True):
        if name is not None:
            yield from differences(field.node, got[name], f"{path}[{show(name)}]")
            continue
        instead = f"; there is {show(strange[0])} instead" if strange else ""
        what = f"the {field.kind} key {show(field.name)} of the {node.kind}{at} is lost{instead}"
        yield from ((law, what) for law in field.laws)
    if strange and len(got) > len(node.nodes):
        yield "S9", f"the {node.kind}{at} has a key {show(strange[0])} that was not handed over"


def as_spelled(node: Node, got: Any) -> Json:
    """The JSON value that must be read back, with its keys as they are spelled in what was read.

    Raises:
        ValueError: there is none, as a part of it is refused or nested too deeply.
    """
    if isinstance(node, Items) and isinstance(got, list) and len(got) == len(node.nodes):
        return [as_spelled(each, value) for each, value in zip(node.nodes, got, strict=True)]
    if isinstance(node, Fields) and isinstance(got, dict):
        names = assigned([(field.name, *field.others) for field in node.nodes], got)
        return {
            field.name if name is None else name: as_spelled(field.node, None if name is None else got[name])
            for field, name in zip(node.nodes, names, strict=True)
        }
    return plain(node)
