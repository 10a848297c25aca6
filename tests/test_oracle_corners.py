"""The oracle at its edges: packages that are only recognised, and what a refusal rests on."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from fault_injection.oracle import Policies, native
from fault_injection.oracle.values import Expecting

if TYPE_CHECKING:
    import pytest


class Series:
    """As much of a Series as is looked at."""

    def __init__(self, *values: object) -> None:
        self.iloc = values

    def __len__(self) -> int:
        return len(self.iloc)


class Unnamed:
    """A key that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("it has none")


class Opaque:
    """A tensor that cannot make another."""

    def new_zeros(self, shape: object) -> None:
        """Fail as torch does for types that are no numbers."""
        raise NotImplementedError(shape)


def test_what_is_of_pandas_is_known_by_the_loaded_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Series is a column of its rows, a missing value is one of pandas, and anything else is neither."""
    missing, not_a_time = object(), object()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(Series=Series, NA=missing, NaT=not_a_time))
    assert native.rows(Series("a", 2)) == ["a", 2]
    assert native.rows("a") is None
    assert [native.is_native(value) for value in (Series(), missing, not_a_time, object())] == [
        True,
        True,
        True,
        False,
    ]


def test_a_key_without_a_text_is_refused_by_the_law_of_keys() -> None:
    """The refusal says what its own method raised, and S5 is at stake."""
    expecting = Expecting(Policies())
    assert expecting.key(Unnamed()) is None
    (refusal,) = expecting.refusals
    assert (refusal.reason, refusal.laws) == ("as a key it has no text: RuntimeError", ("S5",))


def test_what_cannot_make_a_zero_has_no_numbers() -> None:
    """A tensor of a type that cannot be asked for an element is not taken for numbers."""
    assert not native._has_numbers(Opaque())


def test_a_nested_tensor_may_be_written_as_a_list_of_its_own() -> None:
    """A nested tensor is its tensors, and why it may be refused is said."""
    pair = (SimpleNamespace(), SimpleNamespace())
    nested = SimpleNamespace(device=SimpleNamespace(type="cpu"), is_nested=True, unbind=lambda: pair)
    nested.detach = lambda: nested
    assert native._dense(nested) == ([*pair], "it is nested")
