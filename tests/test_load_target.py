"""Targets named as `package.module:Name` or `path/to/file.py:Name`."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import textwrap

import pytest

from fault_injection.targets.errors import TargetError
from fault_injection.targets.load import load_object

WRITER = """
    class Writer:
        class Inner:
            pass
        def _dump_generations(self): return "dumped"

    class _Metadata:
        modified_class = Writer

    class _Actor:
        __ray_metadata__ = _Metadata()

    RemoteWriter = _Actor()
    instance = Writer()
"""


@pytest.fixture(autouse=True)
def _leave_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    modules, path = set(sys.modules), list(sys.path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path
    importlib.invalidate_caches()


def tree(folder, files):
    """Write files given by relative path."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["Writer", "Writer.Inner", "RemoteWriter"], ids=["plain", "nested", "ray-actor"]
)
@pytest.mark.parametrize(
    "place", ["load_pkg.deep.writers", "load_pkg/deep/writers.py", "{}/load_pkg/deep/writers.py"]
)
def test_every_form_of_a_target_loads(tmp_path, place, name):
    """Modules below the current directory and files load; nested classes and Ray actors give the plain class."""
    tree(tmp_path, {"load_pkg/deep/writers.py": WRITER})
    cls = load_object(f"{place.format(tmp_path)}:{name}")
    assert cls.__qualname__ == ("Writer" if name == "RemoteWriter" else name)
    assert sys.modules[cls.__module__].__file__ == str(tmp_path / "load_pkg" / "deep" / "writers.py")


def test_a_file_target_has_a_stable_registered_module(tmp_path):
    """A file's classes survive pickling, and loading again gives the same class until the file changes."""
    tree(tmp_path, {"writers.py": WRITER})
    cls = load_object("writers.py:Writer")
    assert load_object(f"{tmp_path}/writers.py:Writer") is cls
    assert pickle.loads(pickle.dumps(cls)) is cls  # noqa: S301 - our own pickle
    assert type(pickle.loads(pickle.dumps(cls()))) is cls  # noqa: S301 - our own pickle
    tree(tmp_path, {"writers.py": WRITER.replace("dumped", "changed")})
    assert load_object("writers.py:Writer")()._dump_generations() == "changed"
    assert cls()._dump_generations() == "dumped"
    assert os.listdir(tmp_path) == ["writers.py"]


def test_a_file_target_finds_the_modules_beside_it(tmp_path):
    """A file's imports see its own folder, but after everything else on the path."""
    tree(tmp_path, {"far/load_helper.py": "NAME = 'helper'", "far/json.py": "raise AssertionError"})
    tree(
        tmp_path, {"far/writers.py": "import json\nfrom load_helper import NAME\nclass Writer: name = NAME\n"}
    )
    assert load_object("far/writers.py:Writer").name == "helper"


def test_the_current_directory_comes_first(tmp_path):
    """A module target is looked for in the current directory, as by `python -m`."""
    tree(tmp_path, {"load_local.py": "class Writer: pass\n"})
    assert load_object("load_local:Writer").__module__ == "load_local"
    assert sys.path[0] in {"", str(tmp_path)} or str(tmp_path) in sys.path


def test_a_drive_letter_is_no_separator():
    """The last colon separates, so a Windows path is one path."""
    with pytest.raises(TargetError, match=r"^C:\\work\\writers\.py does not exist; name a file"):
        load_object("C:\\work\\writers.py:Writer")
    with pytest.raises(TargetError, match="is not of the form"):
        load_object("C:\\work\\writers.py")


BAD = {
    "no-colon": (
        "json",
        r"target 'json' is not of the form package\.module:Name or path/to/file\.py:Name; add",
    ),
    "empty": ("", "target '' is not of the form"),
    "no-name": ("json:", "is not of the form"),
    "no-module": (":Writer", "is not of the form"),
    "bad-name": ("json:a-b", "is not of the form"),
    "bad-module": ("not-a-module:Writer", "'not-a-module' is not a module name; name a module like"),
    "missing-module": (
        "load_nowhere.writers:Writer",
        "there is no module 'load_nowhere'; it is neither installed nor",
    ),
    "missing-submodule": ("json.nowhere:Writer", r"there is no module 'json\.nowhere'"),
    "missing-file": ("nowhere/writers.py:Writer", r"nowhere/writers\.py does not exist; name a file"),
    "folder": ("./:Writer", "is a folder, not a file; name a file"),
    "near-name": ("writers:Writr", r"writers has no attribute 'Writr'; did you mean Writer\?$"),
    "near-nested": ("writers:Writer.Iner", r"writers\.Writer has no attribute 'Iner'; did you mean Inner\?$"),
    "far-name": ("writers:Zebra", "writers has no attribute 'Zebra'; it has the classes Writer$"),
    "no-classes": ("nothing:Zebra", "nothing has no attribute 'Zebra'; it has no classes$"),
    "below-an-instance": (
        "writers:instance.Zebra",
        r"writers\.instance has no attribute 'Zebra'; it has no classes$",
    ),
    "below-a-value": ("nothing:VALUE.Zebra", r"nothing\.VALUE has no attribute 'Zebra'; it has no classes$"),
    "no-class": (
        "writers:instance",
        "target 'writers:instance' is not a class but an object of type Writer$",
    ),
    "inner-import": (
        "inner:Writer",
        "module 'inner' was found, but an import inside it failed: ModuleNotFoundError: No",
    ),
    "inner-import-file": (
        "inner.py:Writer",
        r"an import inside inner\.py failed: ModuleNotFoundError: No module named",
    ),
    "inner-name": (
        "badname:Writer",
        "an import inside module 'badname' failed: ImportError: cannot import name",
    ),
    "raising": ("raising:Writer", "module 'raising' raised while it was imported: KeyError: 'two lines'$"),
    "raising-file": (
        "raising.py:Writer",
        r"^raising\.py raised while it was imported: KeyError: 'two lines'$",
    ),
    "exiting": ("exiting:Writer", "module 'exiting' raised while it was imported: SystemExit: 3$"),
    "syntax": ("broken:Writer", r"module 'broken' is not valid Python 3\.\d+: .*broken\.py:2: "),
    "syntax-file": ("broken.py:Writer", r"^broken\.py is not valid Python 3\.\d+: .*broken\.py:2: "),
}

FILES = {
    "writers.py": WRITER,
    "nothing.py": "VALUE = 3\n",
    "inner.py": "import load_nowhere_either\n",
    "badname.py": "from json import nothing_like_it\n",
    "raising.py": "raise KeyError('two lines')\n",
    "exiting.py": "import sys\nsys.exit(3)\n",
    "broken.py": "x = 1\ny = = 2\n",
}


@pytest.mark.parametrize("case", BAD)
def test_bad_targets_give_one_clear_line(tmp_path, case):
    """Each target that cannot be loaded gives one line, and leaves neither a module nor a file behind."""
    tree(tmp_path, FILES)
    spec, message = BAD[case]
    registered = {name for name in sys.modules if name.startswith("_verl_dump_file_")}
    with pytest.raises(TargetError, match=message) as caught:
        load_object(spec)
    assert "\n" not in str(caught.value)
    if case.startswith(("inner", "raising", "exiting", "syntax", "missing-module")):
        assert isinstance(caught.value.__cause__, (Exception, SystemExit))
        assert registered == {name for name in sys.modules if name.startswith("_verl_dump_file_")}
    assert sorted(os.listdir(tmp_path)) == sorted(FILES)


def test_an_interrupt_is_not_swallowed(tmp_path):
    """Ctrl-C while a target is imported stays an interrupt."""
    tree(tmp_path, {"load_interrupt.py": "raise KeyboardInterrupt\n"})
    for place in ("load_interrupt", "load_interrupt.py"):
        with pytest.raises(KeyboardInterrupt):
            load_object(f"{place}:Writer")
