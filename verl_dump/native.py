"""Values of numpy, torch and pandas as Python's own; none of the three is imported, only recognised."""

from __future__ import annotations

import sys
from typing import Any

NO_FORM = object()
"""What stands for a value of a dtype without a JSON form."""


def as_python(value: Any) -> Any:
    """Return an array, tensor, Series or numpy scalar as Python's own lists and scalars, or `NO_FORM`."""
    if is_a(value, "torch", "Tensor"):
        value = value.detach()
        # The parts of a nested tensor differ in length, which `tolist` does not know.
        return list(value.unbind()) if value.is_nested else value.cpu().tolist()
    if is_a(value, "numpy", "ndarray", "generic"):
        value = _as_doubles(value)
        # The others come out of `tolist` changed (datetime64[ns] as a number) or not at all.
        if value.size and not is_plain(value.dtype):
            return NO_FORM
    return value.tolist()


def described(value: Any) -> str:
    """Name the type of a value, and what else says why an array or tensor is no list of numbers."""
    kind = type(value).__name__
    if is_a(value, "torch", "Tensor"):
        return f"{kind} of {value.dtype}, {value.layout}, on {value.device}"
    return f"{kind} of dtype {value.dtype}" if is_a(value, "numpy", "ndarray", "generic") else kind


def is_a(value: Any, package: str, *names: str) -> bool:
    """Say whether a value is of one of these classes of a package that need not be there."""
    module = sys.modules.get(package)  # None has no such attribute either
    classes = [getattr(module, name, None) for name in names]
    return any(isinstance(cls, type) and isinstance(value, cls) for cls in classes)


def is_array(value: Any) -> bool:
    """Say whether a value is an array, a tensor or a Series."""
    return (
        is_a(value, "numpy", "ndarray") or is_a(value, "torch", "Tensor") or is_a(value, "pandas", "Series")
    )


def is_missing(value: Any) -> bool:
    """Say whether a value is what pandas marks a hole with, which is null elsewhere too."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and any(value is getattr(pandas, name, pandas) for name in ("NA", "NaT"))


def is_plain(dtype: Any) -> bool:
    """Say whether `tolist` gives Python's own values for that numpy dtype, unchanged."""
    return dtype.kind in "biufOUT" and dtype.char != "g"


def _as_doubles(array: Any) -> Any:
    """Return long doubles as doubles where these hold them exactly, all else as it is."""
    if array.dtype.char != "g":
        return array
    doubles = array.astype("d")
    return doubles if ((doubles == array) | (array != array)).all() else array  # noqa: PLR0124 - NaN is not itself
