"""One example of every kind of value that a reward function may return, for the documentation of a writer."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import importlib
import pathlib
import uuid
from collections import UserDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Example:
    """One kind of value.

    Args:
        label: what it is, in words.
        code: the expression, as a reader of the documentation writes it.
        make: makes one; raises ImportError where the package is not installed.
    """

    label: str
    code: str
    make: Callable[[], Any]


@dataclass(frozen=True)
class BatchExample:
    """One kind of column: what is handed over as the extras of a batch of two rows."""

    label: str
    code: str
    make: Callable[[], dict[Any, Any]]


class Verdict(enum.Enum):
    """An enum of no JSON type."""

    RIGHT = "right"


class Grade(enum.IntEnum):
    """An enum of integers."""

    FULL = 1


class Point(NamedTuple):
    """A tuple with names."""

    x: float
    y: float


@dataclass(frozen=True)
class Record:
    """A dataclass."""

    name: str = "n"


def _of(package: str, make: Callable[[Any], Any]) -> Callable[[], Any]:
    """Import the package only when the example is made."""
    return lambda: make(importlib.import_module(package))


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


VALUES: tuple[Example, ...] = (
    Example("None", "None", lambda: None),
    Example("bool", "True", lambda: True),
    Example("int", "3", lambda: 3),
    Example("int beyond 64 bits", "2**70", lambda: 2**70),
    Example("float", "0.1", lambda: 0.1),
    Example("NaN", 'float("nan")', lambda: float("nan")),
    Example("infinity", 'float("inf")', lambda: float("inf")),
    Example("str", '"答"', lambda: "答"),
    Example("lone surrogate", r'"a\ud800"', lambda: "a\ud800"),
    Example("line separator", r'"a\u2028b"', lambda: "a\u2028b"),
    Example("list, tuple", '[1, ("a", None)]', lambda: [1, ("a", None)]),
    Example("range, deque", "deque([1, 2])", lambda: deque([1, 2])),
    Example("dict and other mappings", 'UserDict({"a": 1})', lambda: UserDict({"a": 1})),
    Example(
        "keys that are no text", '{1: "a", None: "b", (1, 2): "c"}', lambda: {1: "a", None: "b", (1, 2): "c"}
    ),
    Example("keys that are one as text", '{1: "a", "1": "b"}', lambda: {1: "a", "1": "b"}),
    Example("named tuple", "Point(1.0, 2.0)", lambda: Point(1.0, 2.0)),
    Example("IntEnum, StrEnum", "Grade.FULL", lambda: Grade.FULL),
    Example("other Enum", "Verdict.RIGHT", lambda: Verdict.RIGHT),
    Example("dataclass", "Record()", Record),
    Example("set, frozenset", "{1}", lambda: {1}),
    Example("bytes", 'b"b"', lambda: b"b"),
    Example("complex", "1j", lambda: 1j),
    Example("Decimal", 'Decimal("0.1")', lambda: decimal.Decimal("0.1")),
    Example("datetime", "date(2026, 1, 2)", lambda: dt.date(2026, 1, 2)),
    Example("Path", 'PurePosixPath("a/b")', lambda: pathlib.PurePosixPath("a/b")),
    Example("UUID", "UUID(int=1)", lambda: uuid.UUID(int=1)),
    Example("contains itself", "a = []; a.append(a)", _circle),
    Example("numpy bool", "np.bool_(True)", _of("numpy", lambda np: np.bool_(True))),
    Example("numpy integer", "np.int64(3)", _of("numpy", lambda np: np.int64(3))),
    Example("numpy float", "np.float32(0.1)", _of("numpy", lambda np: np.float32(0.1))),
    Example("numpy array", "np.eye(2)", _of("numpy", lambda np: np.eye(2))),
    Example("numpy 0-d array", "np.array(3)", _of("numpy", lambda np: np.array(3))),
    Example(
        "numpy object array",
        'np.array([{"a": 1}, None], dtype=object)',
        _of("numpy", lambda np: np.array([{"a": 1}, None], dtype=object)),
    ),
    Example(
        "numpy masked array",
        "np.ma.masked_array([1, 2], mask=[0, 1])",
        _of("numpy", lambda np: np.ma.masked_array([1, 2], mask=[0, 1])),
    ),
    Example(
        "numpy datetime, complex, bytes, record",
        'np.array(["2026-01-01"], dtype="M8[D]")',
        _of("numpy", lambda np: np.array(["2026-01-01"], dtype="M8[D]")),
    ),
    Example("torch tensor", "torch.ones(2)", _of("torch", lambda torch: torch.ones(2))),
    Example("torch 0-d tensor", "torch.tensor(3)", _of("torch", lambda torch: torch.tensor(3))),
    Example(
        "torch bfloat16, float8",
        "torch.ones(2, dtype=torch.bfloat16)",
        _of("torch", lambda torch: torch.ones(2, dtype=torch.bfloat16)),
    ),
    Example(
        "torch nested, jagged",
        "torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged)",
        _of(
            "torch",
            lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged),
        ),
    ),
    Example(
        "torch sparse, quantized",
        "torch.eye(2).to_sparse()",
        _of("torch", lambda torch: torch.eye(2).to_sparse()),
    ),
    Example(
        "torch on the meta device",
        'torch.ones(2, device="meta")',
        _of("torch", lambda torch: torch.ones(2, device="meta")),
    ),
    Example(
        "torch complex",
        "torch.ones(2, dtype=torch.complex64)",
        _of("torch", lambda torch: torch.ones(2, dtype=torch.complex64)),
    ),
    Example("pandas Series", "pd.Series([1, 2])", _of("pandas", lambda pd: pd.Series([1, 2]))),
    Example("pandas NA, NaT", "pd.NA", _of("pandas", lambda pd: pd.NA)),
    Example(
        "pandas Timestamp", 'pd.Timestamp("2026-01-01")', _of("pandas", lambda pd: pd.Timestamp("2026-01-01"))
    ),
)
"""Values of one row."""

COLUMNS: tuple[BatchExample, ...] = (
    BatchExample("a value for each row", '{"acc": [True, False]}', lambda: {"acc": [True, False]}),
    BatchExample(
        "array or tensor, rows first",
        '{"x": np.eye(2)}',
        lambda: {"x": importlib.import_module("numpy").eye(2)},
    ),
    BatchExample("fewer values than rows", '{"acc": [True]}', lambda: {"acc": [True]}),
    BatchExample("more values than rows", '{"acc": [1, 2, 3]}', lambda: {"acc": [1, 2, 3]}),
    BatchExample("named like a base column", '{"score": [1, 2]}', lambda: {"score": [1, 2]}),
    BatchExample("a name that is no text", "{1: [True, False]}", lambda: {1: [True, False]}),
    BatchExample("a number", '{"mean": 0.5}', lambda: {"mean": 0.5}),
    BatchExample("a text", '{"note": "ok"}', lambda: {"note": "ok"}),
    BatchExample("a dict", '{"info": {"a": 1}}', lambda: {"info": {"a": 1}}),
    BatchExample("None", '{"acc": None}', lambda: {"acc": None}),
)
"""Extras of a batch of two rows."""
