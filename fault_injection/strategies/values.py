"""Values of one row: nested lists and dicts, messages and tool calls, with leaves of any kind."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from fault_injection.strategies.arrays import (
    long_arrays,
    masked_arrays,
    number_arrays,
    object_arrays,
    strange_arrays,
    text_arrays,
)
from fault_injection.strategies.keys import keys, plain_names, text_keys
from fault_injection.strategies.objects import (
    broken_objects,
    circular_objects,
    deep_objects,
    like_json,
    unknown_objects,
)
from fault_injection.strategies.scalars import (
    number_scalars,
    numpy_scalars,
    python_scalars,
    strange_numpy_scalars,
)
from fault_injection.strategies.tensors import dense_tensors, tensors
from fault_injection.strategies.text import texts


def nested(
    leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any] | None = None, *, max_leaves: int = 4
) -> st.SearchStrategy[Any]:
    """Lists, tuples and dicts of leaves, at any depth; they shrink to a leaf.

    Args:
        leaves: what is at the bottom.
        keys: the keys of dicts; None: plain names.
        max_leaves: leaves in one value, about.
    """
    names = plain_names() if keys is None else keys

    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(inner, max_size=3)
        return st.one_of(lists, st.dictionaries(names, inner, max_size=2), lists.map(tuple))

    return st.recursive(leaves, extend, max_leaves=max_leaves)


def tool_calls() -> st.SearchStrategy[dict[str, Any]]:
    """Calls of a tool as an assistant makes them: the arguments a JSON text, not always a whole one."""
    arguments = st.one_of(
        st.dictionaries(plain_names(), st.one_of(st.integers(0, 9), texts(surrogates=False)), max_size=2).map(
            json.dumps
        ),
        st.sampled_from(('{"expr": "1+', "", "null")),
    )
    function = st.fixed_dictionaries({"name": st.sampled_from(("search", "python")), "arguments": arguments})
    return st.fixed_dictionaries({"id": st.just("call_0"), "type": st.just("function"), "function": function})


def messages() -> st.SearchStrategy[list[dict[str, Any]]]:
    """A conversation: roles, contents of text, of parts or None, and calls of tools."""
    part = st.fixed_dictionaries({"type": st.just("text"), "text": texts()})
    content = st.one_of(texts(), st.none(), st.lists(part, max_size=2))
    message = st.fixed_dictionaries(
        {"role": st.sampled_from(("user", "assistant", "system", "tool")), "content": content},
        optional={"tool_calls": st.lists(tool_calls(), max_size=2)},
    )
    return st.lists(message, max_size=3)


def json_values() -> st.SearchStrategy[Any]:
    """What Python's own JSON takes and reads back: nested values with text keys."""
    return st.one_of(nested(python_scalars(), text_keys()), messages())


def array_values() -> st.SearchStrategy[Any]:
    """Numpy scalars and arrays whose elements JSON has a type for, at any depth and in object arrays."""
    return nested(
        st.one_of(
            number_scalars(),
            number_arrays(),
            text_arrays(),
            long_arrays(),
            masked_arrays(),
            object_arrays(nested(st.one_of(number_scalars(), python_scalars()))),
        )
    )


def tensor_values() -> st.SearchStrategy[Any]:
    """Torch tensors of every dtype and layout, at any depth."""
    return nested(tensors(), max_leaves=2)


def writable_values(*, torch: bool = False) -> st.SearchStrategy[Any]:
    """Values that must be read back: JSON's own, numpy's, with keys of every kind, and what derives from these.

    Args:
        torch: whether dense tensors are among them.
    """
    leaves = [python_scalars(), number_scalars(), number_arrays(), like_json()]
    leaves += [dense_tensors()] if torch else []
    return st.one_of(json_values(), nested(st.one_of(leaves), keys()))


def refused_values() -> st.SearchStrategy[Any]:
    """Values that cannot be written: unknown types, numpy's of no JSON type, broken, circular and too deep ones."""
    leaves = st.one_of(
        unknown_objects(), strange_numpy_scalars(), strange_arrays(), broken_objects(), circular_objects()
    )
    return st.one_of(nested(leaves, max_leaves=2), deep_objects())


def values(*, torch: bool = False) -> st.SearchStrategy[Any]:
    """Values of every kind, at any depth.

    Args:
        torch: whether tensors are among them.
    """
    found = [writable_values(torch=torch), numpy_scalars(), array_values(), refused_values()]
    return st.one_of([*found, tensor_values()] if torch else found)
