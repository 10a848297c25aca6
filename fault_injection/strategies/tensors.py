"""Torch tensors of every dtype and layout; torch is imported when the first tensor is made."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.vendor import pretty

_DENSE = ("float32", "int64", "bool", "bfloat16", "float16", "float64", "int8", "uint8", "int16", "int32")
_NEWER = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "uint16", "uint32", "uint64")
_NO_NUMBERS = ("complex64", "complex128", "complex32", "bits8", "bits16", "int4", "uint4", "float4_e2m1fn_x2")
_VALUES = (0.0, 1.0, 2.0, 0.5, 100.0)
_LAYOUTS = ("coo", "csr", "csc", "bsr", "nested", "jagged", "meta", "quantized", "conj", "neg")


def _show(tensor: Any, printer: Any, cycle: bool) -> None:  # noqa: ARG001 - the hook's own signature
    try:
        text = repr(tensor)
    except RuntimeError:
        # Torch cannot print the packed dtypes, which would end Hypothesis' report of a failure.
        text = f"<tensor of {tensor.dtype}>"
    printer.text(text)


pretty.for_type_by_name("torch", "Tensor", _show)


def has_torch() -> bool:
    """Whether torch is installed; it is not imported to find out."""
    return importlib.util.find_spec("torch") is not None


def dense_tensors(rows: int | None = None) -> st.SearchStrategy[Any]:
    """Strided tensors of every dtype of numbers: 0-d, empty, non-contiguous, with gradients, NaN among the values.

    Args:
        rows: the size of the first dimension; None: any shape from rank 0.
    """
    inner = st.lists(st.integers(0, 3), max_size=2)
    shapes = (
        st.lists(st.integers(1, 3), max_size=2) if rows is None else inner.map(lambda tail: [rows, *tail])
    )
    return st.builds(
        _dense,
        st.sampled_from(_DENSE + _NEWER),
        shapes,
        st.sampled_from(_VALUES),
        st.sampled_from(("plain", "strided", "gradient", "parameter", "expanded", "nan")),
    )


def strange_tensors() -> st.SearchStrategy[Any]:
    """Tensors that `tolist` refuses or gives no JSON numbers for: sparse, nested, meta, quantized, complex, packed."""
    return st.one_of(
        st.builds(_with_layout, st.sampled_from(_LAYOUTS)), st.builds(_packed, st.sampled_from(_NO_NUMBERS))
    )


def tensors() -> st.SearchStrategy[Any]:
    """Tensors of every dtype and layout that the installed torch has."""
    return st.one_of(dense_tensors(), strange_tensors())


def _torch() -> Any:
    return importlib.import_module("torch")


def _dense(name: str, shape: list[int], value: float, how: str) -> Any:
    torch = _torch()
    # An older torch has fewer dtypes.
    dtype = getattr(torch, name, torch.float32)
    if how == "expanded" and shape:
        return torch.full(shape[:1] + [1] * (len(shape) - 1), value).to(dtype).expand(shape)
    if how == "strided" and shape:
        # Every second element of a transposed one.
        wide = torch.full([2 * size for size in reversed(shape)], value).to(dtype)
        return wide.permute(list(reversed(range(len(shape)))))[tuple(slice(None, None, 2) for _ in shape)]
    tensor = torch.full(shape, value).to(dtype)
    if how in {"gradient", "parameter"} and name in {"float32", "float64", "float16", "bfloat16"}:
        return torch.nn.Parameter(tensor) if how == "parameter" else tensor.requires_grad_(True)
    if how == "nan" and name in {"float32", "float64", "float16", "bfloat16"}:
        return tensor.fill_(float("nan"))
    return tensor


def _packed(name: str) -> Any:
    torch = _torch()
    return _quietly(lambda: torch.zeros(2, dtype=getattr(torch, name, torch.complex64)))


def _with_layout(name: str) -> Any:
    return _quietly(lambda: _MAKERS[name](_torch()))


def _quietly(make: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        # Torch calls most of these a prototype when they are first used.
        warnings.simplefilter("ignore")
        return make()


def _square(torch: Any) -> Any:
    return torch.tensor([[1.0, 0.0], [0.0, 2.0]])


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "coo": lambda torch: _square(torch).to_sparse(),
    "csr": lambda torch: _square(torch).to_sparse_csr(),
    "csc": lambda torch: _square(torch).to_sparse_csc(),
    "bsr": lambda torch: _square(torch).to_sparse_bsr((1, 1)),
    "nested": lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
    "jagged": lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged),
    "meta": lambda torch: torch.zeros(2, device="meta"),
    "quantized": lambda torch: torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8),
    "conj": lambda torch: torch.zeros(2, dtype=torch.complex64).conj(),
    "neg": lambda torch: torch.tensor([1 + 2j]).conj().imag,
}
