"""Puts a mutant into a process that has imported its module already."""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType


class Functions:
    """The functions of this process by the file and the name of their code, as they are now."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                self._found[thing.__code__.co_filename, thing.__qualname__].append(thing)

    def patch(self, file: Path, name: str, old: str, new: str) -> bool:
        """Give the functions of a name, and those made inside of them, the code of another text of the module.

        Args:
            file: of the module.
            name: of the function, qualified.
            old: the text that the module was imported from.
            new: the other text.

        Returns:
            Whether it could be done; where not, nothing has been changed.
        """
        before, after = _codes(file, old, name), _codes(file, new, name)
        changes: list[tuple[FunctionType, CodeType]] = []
        for qualified, codes in before.items():
            for function in self._found[str(file), qualified]:
                code = function.__code__
                twins = [twin for twin in codes if twin.co_firstlineno == code.co_firstlineno]
                position = codes.index(twins[0]) if len(twins) == 1 else -1
                others = after.get(qualified, [])
                if position < 0 or len(others) != len(codes):
                    return False
                if others[position].co_freevars != code.co_freevars:
                    return False
                changes.append((function, others[position]))
        for function, code in changes:
            function.__code__ = code
        return bool(changes)


def _codes(file: Path, text: str, name: str) -> dict[str, list[CodeType]]:
    found: dict[str, list[CodeType]] = defaultdict(list)
    for qualified, code in _all(compile(text, str(file), "exec", dont_inherit=True), ""):
        if qualified == name or qualified.startswith(f"{name}.<locals>."):
            found[qualified].append(code)
    return found


def _all(code: CodeType, prefix: str) -> Iterator[tuple[str, CodeType]]:
    """Each piece of code inside of another, with the name that a function of it has (PEP 3155)."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            name = prefix + constant.co_name
            yield name, constant
            yield from _all(
                constant, f"{name}.<locals>." if constant.co_flags & inspect.CO_OPTIMIZED else f"{name}."
            )
