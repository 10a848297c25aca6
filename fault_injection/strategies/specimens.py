"""The classes of which `objects` makes its objects."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn


class Verdict(enum.Enum):
    """An enum of no JSON type."""

    RIGHT = "right"
    WRONG = 0


class Grade(enum.IntEnum):
    """An enum whose members are integers."""

    NONE = 0
    FULL = 1


class Role(str, enum.Enum):
    """An enum whose members are text."""

    USER = "user"
    ASSISTANT = "assistant"


class Point(NamedTuple):
    """A tuple with names."""

    x: float
    y: float


@dataclass(frozen=True)
class Record:
    """A dataclass."""

    name: str = "n"
    value: int = 1


class _Shown:
    """Lets Hypothesis report an object that cannot show itself."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - the hook's own signature
        printer.text(f"{type(self).__name__}()")


class BrokenText(_Shown):
    """An object that can be neither shown nor measured nor iterated."""

    def _raise(self, *_: Any) -> NoReturn:
        raise RuntimeError("this object raises")

    __str__ = __repr__ = __len__ = __getitem__ = __iter__ = _raise


class BrokenSequence(_Shown, Sequence[Any]):
    """A sequence that raises when it is read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> NoReturn:
        raise RuntimeError("this sequence raises")


class BrokenLength(_Shown, list[Any]):
    """A list whose length cannot be had."""

    def __len__(self) -> int:
        raise RuntimeError("this length raises")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("this list raises")


class BrokenMapping(_Shown, Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["k"])

    def __getitem__(self, key: str) -> NoReturn:
        raise RuntimeError("this mapping raises")


class BrokenKey(_Shown):
    """A key that cannot be shown."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("this key raises")

    __repr__ = __str__


class _Deep(_Shown):
    """Lets a report show what is nested deeper than Python can show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DeepList(_Deep, list[Any]):
    """The outermost of many lists, one in another."""


class DeepDict(_Deep, dict[str, Any]):
    """The outermost of many dicts, one in another."""


class DeepTuple(_Deep, tuple[Any, ...]):
    """The outermost of many tuples, one in another."""

    __slots__ = ()


class LoudText(str):
    """A text whose `str()` is not itself, as of classes that mask secrets."""

    __slots__ = ()

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__
