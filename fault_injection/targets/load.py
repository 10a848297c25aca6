"""Imports the class that a target names: `package.module:Name` or `path/to/file.py:Name`."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any

from fault_injection.targets.errors import TargetError, one_line

if TYPE_CHECKING:
    from types import CodeType, ModuleType


def load_object(spec: str) -> type:
    """Import the class that a target's name stands for.

    The current directory is put on `sys.path`, as by `python -m`; for a file, its own folder is added at the end, so
    that it finds the modules beside it. Both stay there, since a writer may import more while it runs. A class wrapped
    as a Ray actor is unwrapped.

    Args:
        spec: `package.module:Name` or `path/to/file.py:Name`; `Name` may be dotted.

    Raises:
        TargetError: the spec is malformed, the module or file is missing or cannot be imported (the original error
            is the cause), or what it names is missing or no class.
    """
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(
            f"target {spec!r} is not of the form package.module:Name or path/to/file.py:Name; add the class's name"
        )
    current = os.getcwd()
    if current not in sys.path and "" not in sys.path:
        sys.path.insert(0, current)
    is_file = place.endswith(".py") or "/" in place or os.sep in place
    module = _import_file(place) if is_file else _import_module(place)
    found: Any = module
    for depth, part in enumerate(name.split(".")):
        found = _attribute(found, part, ".".join([place, *name.split(".")[:depth]]))
    try:
        metadata = getattr(found, "__ray_metadata__", None)
        found = getattr(metadata, "modified_class", found)
    except Exception as error:
        raise TargetError(f"{spec}: to look at its attributes raises {one_line(error)}") from error
    if not isinstance(found, type):
        raise TargetError(f"target {spec!r} is not a class but an object of type {type(found).__name__}")
    return found


def _attribute(owner: Any, name: str, place: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        classes = sorted(
            n
            for n, value in getattr(owner, "__dict__", {}).items()
            if isinstance(value, type) and not n.startswith("_")
        )
        near = difflib.get_close_matches(name, classes, n=3)
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        else:
            hint = f"it has the classes {', '.join(classes[:8])}" if classes else "it has no classes"
        raise TargetError(f"{place} has no attribute {name!r}; {hint}") from error


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(
            f"{name!r} is not a module name; name a module like package.module, or a file ending in .py"
        )
    # A file written since the last import is invisible to the cached directory listings.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise TargetError(
                f"there is no module {missing!r}; it is neither installed nor below {os.getcwd()}"
            ) from error
        raise TargetError(
            f"module {name!r} was found, but an import inside it failed: {one_line(error)}"
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(f"module {name!r}", error) from error


def _import_file(path: str) -> ModuleType:
    absolute = os.path.abspath(path)
    if not os.path.isfile(absolute):
        what = "is a folder, not a file" if os.path.isdir(absolute) else "does not exist"
        raise TargetError(f"{path} {what}; name a file like path/to/file.py:Name")
    try:
        with open(absolute, "rb") as file:
            content = file.read()
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror or error}") from error
    stem = os.path.basename(absolute).removesuffix(".py")
    digest = hashlib.sha256(os.fsencode(absolute) + b"\0" + content).hexdigest()[:12]
    name = f"_verl_dump_file_{digest}_{stem}"
    if name in sys.modules:
        return sys.modules[name]
    if os.path.dirname(absolute) not in sys.path:
        sys.path.append(os.path.dirname(absolute))
    spec = importlib.util.spec_from_file_location(name, absolute, loader=_Loader(name, absolute))
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ModuleNotFoundError):
            raise TargetError(f"an import inside {path} failed: {one_line(error)}") from error
        if isinstance(error, (Exception, SystemExit)):
            raise _failed(path, error) from error
        raise
    return module


def _failed(what: str, error: BaseException) -> TargetError:
    if isinstance(error, SyntaxError):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        place = f"{error.filename}:{error.lineno}: " if error.filename else ""
        return TargetError(f"{what} is not valid Python {version}: {place}{error.msg}")
    if isinstance(error, ImportError):
        return TargetError(f"an import inside {what} failed: {one_line(error)}")
    return TargetError(f"{what} raised while it was imported: {one_line(error)}")


class _Loader(SourceFileLoader):
    """Compiles the file at every load: a target's folder is left without `__pycache__`."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code
