"""Loads the dump methods of a trainer out of its source text, without importing the trainer's package.

Of a class only the dump methods are taken, what they call on the class itself, and the module-level names these use;
other modules of the same root are read the same way. Packages that are absent, or heavy, are replaced by stand-ins
that raise when they are really needed; a decorator whose package is replaced so is dropped.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import os
import sys
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fault_injection.targets.errors import TargetError, one_line
from fault_injection.targets.extract import Extract
from fault_injection.targets.outline import SURFACE, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NEEDLE = SURFACE[0].encode()
_SKIPPED = frozenset({"tests", "test", "docs", "doc", "build", "dist", "node_modules", "__pycache__"})
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)

_loaded: dict[str, Source] = {}


@dataclass(frozen=True)
class FoundClass:
    """A class with the dump surface, found in a source.

    Args:
        name: qualified name, such as `Trainer` or `Outer.Inner`.
        module: dotted name of its module below the root.
        file: path of its file below the root, with slashes.
        line: line of its definition, from 1.
        methods: the dump methods it has, of its own or from bases in the same source.
    """

    name: str
    module: str
    file: str
    line: int
    methods: tuple[str, ...]

    @property
    def label(self) -> str:
        """What a report calls it."""
        return f"{self.file}:{self.name}"


def find_classes(path: str) -> tuple[FoundClass, ...]:
    """The classes whose body defines `_dump_generations`, in the order of files and lines.

    Args:
        path: a checkout, an unpacked wheel, a `.whl`, or one `.py` file. Folders of tests, docs and builds, hidden
            ones and virtual environments are left out.

    Raises:
        TargetError: the path cannot be read, or there is no such class in it.
    """
    source = _open(path)
    found = tuple(_carriers(source))
    if not found:
        files = f"{len(source.labels)} Python file{'' if len(source.labels) == 1 else 's'}"
        raise TargetError(
            f"{path}: no class defines {SURFACE[0]} (looked through {files}, tests and docs left out); "
            "name the folder or file that holds the writer"
        )
    return found


def load_classes(path: str, class_name: str | None = None) -> tuple[type, ...]:
    """Build the classes with the dump surface, in the order of files and lines.

    Args:
        path: see `find_classes`.
        class_name: `Name` (every class of that name), `dotted.module:Name` or `path/file.py:Name`; None: all. A
            named class may also inherit the surface from a base in the same source.

    Raises:
        TargetError: besides those of `find_classes`, no class of that name, or it cannot be built from its text.
    """
    chosen = find_classes(path) if class_name is None else _named(path, class_name)
    source = _open(path)
    return tuple(source.extract_file(each.file).build(each.name) for each in chosen)


def load_class(path: str, class_name: str | None = None) -> type:
    """Build the one class that is meant; see `load_classes`.

    Raises:
        TargetError: besides those of `load_classes`, several classes fit.
    """
    chosen = find_classes(path) if class_name is None else _named(path, class_name)
    if len(chosen) > 1:
        raise TargetError(f"{path}: several classes have the dump surface; choose one of {_choices(chosen)}")
    return _open(path).extract_file(chosen[0].file).build(chosen[0].name)


def _carriers(source: Source) -> Iterator[FoundClass]:
    for file in source.containing(_NEEDLE):
        extract = source.extract_file(file)
        for name in extract.classes:
            if SURFACE[0] in extract.own_names(name):
                yield _found(extract, name)


def _found(extract: Extract, name: str) -> FoundClass:
    unit = extract.unit
    return FoundClass(name, unit.module, unit.label, extract.classes[name].lineno, extract.surface(name))


def _named(path: str, class_name: str) -> tuple[FoundClass, ...]:
    source = _open(path)
    module, _, name = class_name.rpartition(":")
    last = name.rpartition(".")[2]
    chosen: list[FoundClass] = []
    for file in source.containing(b"class " + last.encode()) if last else ():
        if module in {"", source.module_of(file), file}:
            extract = source.extract_file(file)
            fits = (each for each in extract.classes if name in {each, each.rpartition(".")[2]})
            chosen.extend(_found(extract, each) for each in fits if SURFACE[0] in extract.surface(each))
    if not chosen:
        found = find_classes(path)
        near = difflib.get_close_matches(name, [each.name for each in found], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TargetError(
            f"{path}: no class {class_name!r} with the dump surface; found {_choices(found)}{hint}"
        )
    return tuple(chosen)


def _choices(found: Iterable[FoundClass]) -> str:
    return ", ".join(f"{each.module}:{each.name}" for each in found)


@dataclass(frozen=True)
class Source:
    """A readable tree of Python files.

    Args:
        path: absolute path of the folder, archive or file.
        base: absolute path that labels are below.
        labels: paths of the files to search, below `base`, with slashes, sorted.
        archive: whether `path` is a zip file.
        key: tells sources of different content apart.
    """

    path: str
    base: str
    labels: tuple[str, ...]
    archive: bool
    key: str = ""
    _extracts: dict[str, Extract] = field(default_factory=dict, compare=False, repr=False)

    def read(self, labels: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The bytes of some files."""
        try:
            if self.archive:
                with zipfile.ZipFile(self.path) as archive:
                    for label in labels:
                        yield label, archive.read(label)
            else:
                for label in labels:
                    with open(os.path.join(self.base, *label.split("/")), "rb") as file:
                        yield label, file.read()
        except _BROKEN_ZIP as error:
            raise TargetError(f"{self.path}: not a readable wheel: {one_line(error)}") from error
        except OSError as error:
            raise TargetError(
                f"{error.filename or self.path}: cannot be read: {error.strerror or error}"
            ) from error

    def containing(self, needle: bytes) -> list[str]:
        """The searched files that hold some bytes; nothing is parsed for it."""
        return [label for label, data in self.read(self.labels) if needle in data]

    def module_of(self, label: str) -> str:
        """The dotted module name of a file."""
        name = label.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        return name.replace("/", ".")

    def file_of(self, module: str) -> str | None:
        """The file of a dotted module name, "" for a folder without `__init__.py`, None for neither."""
        stem = module.replace(".", "/")
        for prefix in ("", "src/"):
            for label in (f"{prefix}{stem}.py", f"{prefix}{stem}/__init__.py"):
                if self._has(label):
                    return label
        if self.archive:
            return "" if any(label.startswith(f"{stem}/") for label in self.labels) else None
        return "" if any(label.startswith((f"{stem}/", f"src/{stem}/")) for label in self.labels) else None

    def covers(self, module: str) -> bool:
        """Whether the module is one of this source."""
        if not module or module.startswith(".") or module.partition(".")[0] in sys.stdlib_module_names:
            return False
        return self.file_of(module) is not None

    def extract(self, module: str) -> Extract | None:
        """What is taken out of a module of this source; None if it has no such module."""
        if not self.covers(module):
            return None
        return self.extract_file(self.file_of(module) or "", module)

    def extract_file(self, label: str, module: str = "") -> Extract:
        """What is taken out of a file of this source."""
        module = module or self.module_of(label)
        if module not in self._extracts:
            package = module if not label or label.endswith("/__init__.py") else module.rpartition(".")[0]
            filename = os.path.join(self.base, *label.split("/")) if label else f"<folder {module}>"
            text = self._text(label, filename) if label else ""
            unit = Unit(
                label or module, module, package, filename, f"_verl_dump_source_{self.key}.{module}", text
            )
            self._extracts[module] = Extract(unit, self.extract, self.covers)
        return self._extracts[module]

    def _text(self, label: str, filename: str) -> str:
        ((_, data),) = self.read([label])
        try:
            return importlib.util.decode_source(data)
        except (SyntaxError, UnicodeDecodeError) as error:
            raise TargetError(f"{filename}: not a Python file: {one_line(error)}") from error

    def _has(self, label: str) -> bool:
        if self.archive:
            return label in self.labels
        return os.path.isfile(os.path.join(self.base, *label.split("/")))


def _open(path: str) -> Source:
    """Find the Python files of a path, and recognise a source that has been loaded before."""
    absolute = os.path.abspath(path)
    if os.path.isdir(absolute):
        source = _folder(absolute)
    elif not os.path.exists(absolute):
        raise TargetError(f"{path}: there is no such file or folder")
    elif not os.path.isfile(absolute):
        raise TargetError(f"{path}: neither a folder, a wheel nor a .py file")
    elif absolute.endswith(".py"):
        base = _above_packages(os.path.dirname(absolute))
        source = Source(
            absolute, base, (os.path.relpath(absolute, base).replace(os.sep, "/"),), archive=False
        )
    else:
        source = _archive(path, absolute)
    digest = hashlib.sha256(absolute.encode("utf-8", "surrogateescape"))
    for label, data in source.read(source.labels):
        if _NEEDLE in data:
            digest.update(label.encode("utf-8", "surrogateescape") + b"\0" + data)
    key = digest.hexdigest()[:12]
    fresh = Source(source.path, source.base, source.labels, source.archive, key)
    return _loaded.setdefault(key, fresh)


def _archive(path: str, absolute: str) -> Source:
    try:
        with zipfile.ZipFile(absolute) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        what = (
            "a broken wheel"
            if absolute.endswith((".whl", ".zip"))
            else "neither a folder, a wheel nor a .py file"
        )
        raise TargetError(f"{path}: {what} ({error})") from error
    except OSError as error:
        raise TargetError(f"{path}: cannot be read: {error.strerror or error}") from error
    wanted = (name for name in names if name.endswith(".py") and not _skips(name.split("/")[:-1]))
    return Source(absolute, absolute, tuple(sorted(wanted)), archive=True)


def _folder(absolute: str) -> Source:
    base = _above_packages(absolute)

    def refuse(error: OSError) -> None:
        raise TargetError(f"{error.filename}: cannot be read: {error.strerror}") from error

    labels: list[str] = []
    for parent, folders, files in os.walk(absolute, onerror=refuse):
        folders[:] = [
            f
            for f in folders
            if not _skips([f]) and not os.path.exists(os.path.join(parent, f, "pyvenv.cfg"))
        ]
        below = os.path.relpath(parent, base).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        # Editors leave dangling links that end in .py, and a pipe of that name would block for ever.
        labels.extend(
            prefix + name
            for name in files
            if name.endswith(".py") and os.path.isfile(os.path.join(parent, name))
        )
    return Source(absolute, base, tuple(sorted(labels)), archive=False)


def _skips(folders: list[str]) -> bool:
    return any(each in _SKIPPED or each.startswith(".") for each in folders)


def _above_packages(folder: str) -> str:
    """The nearest folder above that is not itself a package, so that module names come out whole."""
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder
