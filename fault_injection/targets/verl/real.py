"""The trainer classes of the installed verl: found, and refused where their shape is not the known one."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from fault_injection.targets.errors import TargetError, one_line

VERSIONS = ("0.9.1",)
"""The releases of verl whose trainers the adapters know."""

DUMP_SURFACE = {
    "_init_dump_executor": (),
    "_dump_generations": ("inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path"),
    "_write_generations": (
        "inputs",
        "outputs",
        "gts",
        "scores",
        "reward_extra_infos_dict",
        "dump_path",
        "global_steps",
    ),
    "_shutdown_dump_executor": (),
}
"""The methods by which every trainer dumps, with their arguments."""

_HINT = f"install verl=={VERSIONS[-1]}, or check its dump methods alone with --source"


def installed_version() -> str:
    """The version of the verl that would be imported, without importing it.

    Raises:
        TargetError: none is installed.
    """
    try:
        found = importlib.util.find_spec("verl")
    except (ImportError, ValueError):
        found = None
    if found is None or not found.submodule_search_locations:
        raise TargetError(f"no verl is installed in this environment; {_HINT}")
    # The file that verl's own __init__ reads: metadata may belong to another verl than the one first on the path.
    path = os.path.join(next(iter(found.submodule_search_locations)), "version", "version")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "of unknown version"


def see_version() -> str:
    """The version of the installed verl.

    Raises:
        TargetError: none is installed, or one that the adapters do not know.
    """
    version = installed_version()
    if version not in VERSIONS:
        raise TargetError(
            f"verl {version} is installed, and the adapters know {', '.join(VERSIONS)}; {_HINT}"
        )
    return version


def real_class(where: str, signatures: Mapping[str, tuple[str, ...]], methods: Iterable[str]) -> type:
    """The class of the installed verl, without what verl puts around it to make a Ray actor of it.

    Args:
        where: `module:Class`.
        signatures: the methods that must run as they are, with the arguments they must have.
        methods: the methods that are replaced or called besides.

    Raises:
        TargetError: there is no verl, or its class has another shape than the adapters were written for.
    """
    version = see_version()
    cls = _load(where, version)
    for name, wanted in signatures.items():
        method = inspect.getattr_static(cls, name, None)
        if method is None:
            raise unknown_shape(where, f"has no method {name}")
        given = _arguments(method)
        if given != wanted:
            raise unknown_shape(where, f"has {name}({', '.join(given)}), not {name}({', '.join(wanted)})")
    for name in methods:
        if not callable(getattr(cls, name, None)):
            raise unknown_shape(where, f"has no method {name}")
    return cls


def unknown_shape(where: str, what: str) -> TargetError:
    """The error that refuses a class of an unknown shape.

    Args:
        where: `module:Class`.
        what: what is different about it, to follow the name of the class.
    """
    name = where.partition(":")[2]
    return TargetError(
        f"{name} of verl {installed_version()} {what}: a shape that is not known here; {_HINT}"
    )


def _arguments(method: Any) -> tuple[str, ...]:
    bound = isinstance(method, (staticmethod, classmethod))
    function = method.__func__ if bound else method
    # Ray adds one to the signature of each method of a class that it makes an actor of, and to those of its bases.
    names = tuple(name for name in inspect.signature(function).parameters if name != "_ray_trace_ctx")
    return names if isinstance(method, staticmethod) else names[1:]


@cache
def _load(where: str, version: str) -> type:
    name, _, attribute = where.partition(":")
    try:
        with warnings.catch_warnings():
            # It warns of each engine that is not installed.
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except Exception as error:
        raise TargetError(
            f"{name} of verl {version} cannot be imported: {one_line(error)}; install what it asks for"
        ) from error
    found = getattr(module, attribute, None)
    actor = getattr(found, "__ray_metadata__", None)
    if actor is not None:
        # Ray keeps the decorated class in a subclass of its own.
        found = getattr(actor.modified_class, "__ray_actor_class__", actor.modified_class)
    if not isinstance(found, type):
        raise unknown_shape(where, f"is not there: {name} has no such class")
    _quieten()
    return found


def _quieten() -> None:
    """Keep the progress bar and torch from threads of their own, which a forked child would miss or wait for."""
    torch, tqdm = importlib.import_module("torch"), importlib.import_module("tqdm")
    torch.set_num_threads(1)
    tqdm.tqdm.monitor_interval = 0
