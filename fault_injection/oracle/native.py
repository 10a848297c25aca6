"""What must come of numpy's, torch's and pandas' values; none of the three is imported, only recognised."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fault_injection.oracle.outcome import Items, Leaf, Node

if TYPE_CHECKING:
    from fault_injection.oracle.values import Expecting

_NUMPY = ("ndarray", "generic")
_FLOATS_AS_DOUBLE = frozenset("efd")
_PLAIN_KINDS = "biufOUT"
_DENSE = "torch.strided"


def is_a(value: Any, package: str, *names: str) -> bool:
    """Whether a value is of one of these classes of a package that need not be there."""
    module = sys.modules.get(package)
    classes = (getattr(module, name, None) for name in names)
    return isinstance(value, tuple(cls for cls in classes if isinstance(cls, type)))


def is_native(value: Any) -> bool:
    """Whether a value belongs to numpy, torch or pandas."""
    return is_a(value, "numpy", *_NUMPY) or is_a(value, "torch", "Tensor") or _is_pandas(value)


def dtype_names(value: Any) -> tuple[str, ...]:
    """The dtype, and for torch the layout and device, of an array or tensor, as errors may name them."""
    if is_a(value, "torch", "Tensor"):
        words = (str(value.dtype), str(value.layout), str(value.device), "nested", "quantized", "Tensor")
        return (*(word.removeprefix("torch.") for word in words), "tensor")
    if is_a(value, "numpy", *_NUMPY):
        return (str(value.dtype), type(value.dtype).__name__)
    return ()


def as_python(key: Any) -> Any:
    """A numpy scalar as the Python scalar of the same JSON type, any other key as it is."""
    if is_a(key, "numpy", "bool_", "integer"):
        return key.item()
    if is_a(key, "numpy", "floating") and key.dtype.char in _FLOATS_AS_DOUBLE:
        return float(key)
    return key


def rows(values: Any) -> list[Any] | None:
    """The rows of an array, tensor or Series that stands for a column; None where it is none."""
    if is_a(values, "pandas", "Series"):
        return [values.iloc[row] for row in range(len(values))]
    if (is_a(values, "numpy", "ndarray") or is_a(values, "torch", "Tensor")) and values.ndim > 0:
        return [values[row] for row in range(values.shape[0])]
    return None


def expect(value: Any, expecting: Expecting) -> Node:
    """The tree of a value of one of the three packages."""
    if is_a(value, "torch", "Tensor"):
        return _tensor(value, expecting)
    if _is_pandas(value):
        return _pandas(value, expecting)
    if is_a(value, "numpy", "ndarray"):
        return expecting.inside(value, lambda: _array(value, expecting))
    return _numpy_scalar(value, expecting)


def _is_pandas(value: Any) -> bool:
    if is_a(value, "pandas", "Series"):
        return True
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is getattr(pandas, "NA", 0) or value is getattr(pandas, "NaT", 0))


def _pandas(value: Any, expecting: Expecting) -> Node:
    if is_a(value, "pandas", "Series"):
        elements = rows(value) or []
        return expecting.inside(value, lambda: Items(tuple(map(expecting.node, elements)), ("S1",), "Series"))
    # A missing value: null says so, and so does an error.
    expecting.refuse(value, "a missing value of pandas has no type", must=False)
    return Leaf(None, ("S1",), type(value).__name__)


def _array(value: Any, expecting: Expecting) -> Node:
    """Element by element, so that neither `tolist` nor printing has a say in it."""
    if value.size == 0 and value.dtype.kind not in _PLAIN_KINDS:
        expecting.refuse(value, "its elements would have no counterpart in JSON", must=False)
    return _nested(value, (), expecting)


def _nested(value: Any, index: tuple[int, ...], expecting: Expecting) -> Node:
    depth = len(index)
    if depth == value.ndim:
        return _element(value, index, expecting)
    nodes = tuple(_nested(value, (*index, i), expecting) for i in range(value.shape[depth]))
    return Items(nodes, ("S1",), f"{type(value).__name__} of {value.dtype}")


def _element(value: Any, index: tuple[int, ...], expecting: Expecting) -> Node:
    if value.dtype.kind == "V":
        return expecting.unknown(value)
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ma.MaskedArray):
        if numpy.ma.getmaskarray(value)[index]:
            return Leaf(None, ("S1",), "masked")
        value = value.data
    element = value[index]
    if value.dtype.kind != "O" and isinstance(element, numpy.generic):
        return _numpy_scalar(element, expecting, names=(type(value).__name__,))
    return expecting.node(element)


def _numpy_scalar(value: Any, expecting: Expecting, names: Sequence[str] = ()) -> Node:
    kind, char, name = value.dtype.kind, value.dtype.char, type(value).__name__
    if kind == "b":
        return Leaf(bool(value), ("S1",), name)
    if kind in "iu":
        return expecting.integer(int(value), name)
    if kind == "f" and char in _FLOATS_AS_DOUBLE:
        return expecting.floating(float(value), name)
    if kind == "U":
        return expecting.text(str.__str__(value), name)
    types = (*names, name, str(value.dtype))
    if kind == "f":
        # A long double that a double holds may be written; one that it does not hold may not be rounded.
        exact = bool(value == type(value)(float(value))) or value != value  # noqa: PLR0124
        node = expecting.refuse(value, "it has more digits than a double", "S4", must=not exact, types=types)
        return expecting.floating(float(value), name) if exact else node
    if expecting.policies.unknown == "repr":
        return expecting.unknown(value)
    return expecting.refuse(value, "JSON has no counterpart for it", types=types)


def _tensor(value: Any, expecting: Expecting) -> Node:
    """The numbers of a dense tensor; for every other layout these or an error (S6)."""
    dense, reason = _dense(value)
    if dense is None:
        return expecting.refuse(value, reason, "S6")
    if reason:
        expecting.refuse(value, reason, "S6", must=False)
    if isinstance(dense, list):
        return Items(tuple(_tensor(each, expecting) for each in dense), ("S6",), type(value).__name__)
    if dense.numel() == 0 and not _has_numbers(dense):
        expecting.refuse(value, "its elements would be no JSON numbers", "S6", must=False)
    return _numbers(dense, (), expecting)


def _has_numbers(dense: Any) -> bool:
    try:
        return isinstance(dense.new_zeros(()).item(), (int, float))
    except RuntimeError:
        return False


def _dense(value: Any) -> tuple[Any, str]:
    """The strided tensor of equal values, or the list of a nested one's; and why it may be refused, or empty."""
    value = value.detach()
    if value.device.type == "meta":
        return None, "a meta tensor has no values"
    with contextlib.suppress(RuntimeError, TypeError):
        if value.is_nested:
            return list(value.unbind()), "it is nested"
        if value.is_quantized:
            return value.dequantize().cpu(), "it is quantized"
        if str(value.layout) != _DENSE:
            return value.to_dense().cpu(), f"its layout is {value.layout}"
        return value.cpu(), ""
    return None, f"its values cannot be had ({value.layout}, {value.dtype})"


def _numbers(dense: Any, index: tuple[int, ...], expecting: Expecting) -> Node:
    depth = len(index)
    if depth < dense.ndim:
        nodes = tuple(_numbers(dense, (*index, i), expecting) for i in range(dense.shape[depth]))
        return Items(nodes, ("S1", "S6"), f"Tensor of {dense.dtype}")
    try:
        element = dense[index].item()
    except RuntimeError:
        return expecting.refuse(dense, "its elements cannot be had", "S6")
    if isinstance(element, complex):
        return expecting.refuse(
            dense, "JSON has no complex numbers", "S6", types=(*dtype_names(dense), "complex")
        )
    return expecting.node(element, "S6")
