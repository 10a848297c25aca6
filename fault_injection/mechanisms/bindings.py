"""Finds the names under which modules hold the real functions, so that early imports are covered as well."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

_SKIPPED = {
    "_frozen_importlib", "_frozen_importlib_external", "_io", "_pyio", "_thread", "importlib", "nt", "posix",
    "_pytest", "coverage", "hypothesis", "mypy", "pip", "pluggy", "pyfakefs", "pytest", "pytest_randomly", "pytest_timeout",
    "ray", "setuptools", "torch", "transformers", "xdist", "numpy", "pandas", "pyarrow", "scipy",
}  # fmt: skip
"""Packages that are large or the harness's own; nothing that writes a dump binds the functions there."""

_OWN = "fault_injection.mechanisms"


@dataclass(frozen=True)
class Binding:
    """One place that holds a real function under a name of its own.

    Args:
        owner: the module, class or function, held weakly.
        name: the attribute.
        original: its value.
        watched: its value while a trial is armed.
    """

    owner: weakref.ref[Any]
    name: str
    original: Any
    watched: Any

    def put(self, value: Any) -> None:
        """Set the attribute, unless the owner is gone."""
        owner = self.owner()
        if owner is not None:
            setattr(owner, self.name, value)


class Bindings:
    """The bindings in all imported modules; each module is looked through once.

    Args:
        replacements: what takes the place of each real function.
    """

    def __init__(self, replacements: list[tuple[Any, Any]]) -> None:
        # Real functions live as long as the process, so their ids name them.
        self._watched = {id(real): watched for real, watched in replacements}
        self._known: set[int] = set()
        self._found: list[Binding] = []

    def refresh(self) -> list[Binding]:
        """Look through the modules that were imported since, and return all bindings."""
        fresh = [
            m for m in list(sys.modules.values()) if id(m) not in self._known and isinstance(m, ModuleType)
        ]
        if fresh:
            self._found = [binding for binding in self._found if binding.owner() is not None]
        for module in fresh:
            if id(module) not in self._known:
                self._known.add(id(module))
                # A module made for one trial goes away, and its id may come back as another one.
                weakref.finalize(module, self._known.discard, id(module)).atexit = False
                if module.__name__.partition(".")[0] not in _SKIPPED and not module.__name__.startswith(_OWN):
                    self._found.extend(self._in_module(module))
        return self._found

    def _in_module(self, module: ModuleType) -> Iterator[Binding]:
        for name, value in list(vars(module).items()):
            if id(value) in self._watched:
                yield self._binding(module, name, value, value)
            elif isinstance(value, FunctionType):
                yield from self._in_defaults(value)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                yield from self._in_class(value)

    def _in_class(self, owner: type) -> Iterator[Binding]:
        for name, value in list(vars(owner).items()):
            inner = value.__func__ if isinstance(value, staticmethod) else value
            if id(inner) in self._watched:
                yield self._binding(owner, name, value, inner)
            elif isinstance(inner, FunctionType):
                yield from self._in_defaults(inner)

    def _in_defaults(self, function: FunctionType) -> Iterator[Binding]:
        values = function.__defaults__ or ()
        if any(id(value) in self._watched for value in values):
            watched = tuple(self._watched.get(id(value), value) for value in values)
            yield Binding(weakref.ref(function), "__defaults__", values, watched)
        named = function.__kwdefaults__ or {}
        if any(id(value) in self._watched for value in named.values()):
            replaced = {name: self._watched.get(id(value), value) for name, value in named.items()}
            yield Binding(weakref.ref(function), "__kwdefaults__", named, replaced)

    def _binding(self, owner: Any, name: str, value: Any, inner: Any) -> Binding:
        watched = self._watched[id(inner)]
        return Binding(
            weakref.ref(owner), name, value, staticmethod(watched) if value is not inner else watched
        )
