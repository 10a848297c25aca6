"""The source target: dump methods taken out of text, with nothing else of the trainer run or imported."""

from __future__ import annotations

import inspect
import json
import linecache
import os
import sys
import textwrap
import threading
import time
import traceback
import types
import zipfile

import pytest
from pyfakefs.fake_filesystem_unittest import Patcher

from fault_injection.targets import source
from fault_injection.targets.errors import TargetError, UnavailableError
from fault_injection.targets.source import find_classes, load_class, load_classes

EXPECTED = {
    "0.4.1": {"verl.trainer.ppo.ray_trainer:RayPPOTrainer": "synchronous"},
    "0.5.0": {"verl.trainer.ppo.ray_trainer:RayPPOTrainer": "synchronous"},
    "0.6.1": {"verl.trainer.ppo.ray_trainer:RayPPOTrainer": "synchronous"},
    "0.7.1": {"verl.trainer.ppo.ray_trainer:RayPPOTrainer": "synchronous"},
    "0.8.0": {
        "verl.trainer.main_ppo_sync:PPOTrainer": "asynchronous",
        "verl.trainer.ppo.ray_trainer:RayPPOTrainer": "asynchronous",
    },
    "0.9.0": {
        "verl.trainer.ppo.ray_trainer:RayPPOTrainer": "asynchronous",
        "verl.trainer.ppo.v1.trainer_base:PPOTrainer": "asynchronous",
    },
    "0.9.1": {
        "verl.trainer.ppo.ray_trainer:RayPPOTrainer": "asynchronous",
        "verl.trainer.ppo.v1.trainer_base:PPOTrainer": "asynchronous",
    },
}

SYNC_OLD = """
    import json, os
    import torch
    from ray.util import placement_group

    class Trainer:
        def __init__(self, config):
            self.group = placement_group(config)

        def _dump_generations(self, inputs, outputs, scores, reward_extra_infos_dict, dump_path):
            os.makedirs(dump_path, exist_ok=True)
            columns = {"input": inputs, "output": outputs, "score": scores, **reward_extra_infos_dict}
            with open(os.path.join(dump_path, f"{self.global_steps}.jsonl"), "w") as out:
                for row in zip(*columns.values()):
                    out.write(json.dumps(dict(zip(columns, row))) + chr(10))

        def fit(self):
            return torch.zeros(1)
"""

SYNC_GTS = """
    from json import dumps
    from pathlib import Path

    class Trainer:
        def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
            folder = Path(dump_path)
            folder.mkdir(exist_ok=True)
            names = ["input", "output", "gts", "score", *reward_extra_infos_dict]
            rows = zip(inputs, outputs, gts, scores, *reward_extra_infos_dict.values())
            text = "".join(dumps(dict(zip(names, row))) + chr(10) for row in rows)
            (folder / f"{self.global_steps}.jsonl").write_text(text)
"""

BACKGROUND = """
    import json
    import os
    from concurrent.futures import ThreadPoolExecutor
    from verl import DataProto

    class Trainer:
        def _init_dump_executor(self):
            self._pool = ThreadPoolExecutor(1)
            self._jobs = []

        def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
            columns = dict(reward_extra_infos_dict, input=inputs, output=outputs, gts=gts, score=scores)
            self._jobs.append(self._pool.submit(Trainer._write_generations, columns, dump_path, self.global_steps))

        @staticmethod
        def _write_generations(columns: DataProto, dump_path, step):
            os.makedirs(dump_path, exist_ok=True)
            with open(f"{dump_path}/{step}.jsonl", "w") as out:
                out.writelines(json.dumps(dict(zip(columns, row))) + chr(10) for row in zip(*columns.values()))

        def _shutdown_dump_executor(self):
            for job in self._jobs:
                job.result()
            self._pool.shutdown()
"""

HELPERS = """
    import json, os, transformers
    ENDING = chr(10)
    NAMES = ["input", "output", "gts"]
    NAMES += ["score"]
    FORMATS = {}
    FORMATS["row"] = lambda row: json.dumps(row) + ENDING
    try:
        import no_such_fast_encoder as encoder
    except ImportError:
        encoder = None

    class Row(dict):
        @classmethod
        def of(cls, values, extras):
            return cls(zip(NAMES + list(extras), values))

    def target_of(folder, step):
        return os.path.join(folder, f"{step}{Trainer.ending}")

    class Trainer(transformers.Trainer):
        suffix = "jsonl"
        ending = "." + suffix

        def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
            os.makedirs(dump_path, exist_ok=True)
            write = self._plainly if encoder is None else encoder.write
            write(zip(inputs, outputs, gts, scores, *reward_extra_infos_dict.values()), reward_extra_infos_dict,
                  target_of(dump_path, self.global_steps))

        def _plainly(self, rows, extras, path):
            with open(path, "w") as out:
                out.writelines(FORMATS["row"](Row.of(row, extras)) for row in rows)
"""

INHERITED = """
    import json
    import os
    from abc import ABC, abstractmethod

    class Files:
        def _write_generations(self, columns, path):
            with open(path, "w") as out:
                out.writelines(json.dumps(dict(zip(columns, row))) + chr(10) for row in zip(*columns.values()))

    class Middle(Files, ABC):
        @abstractmethod
        def step(self): ...

        def _folder(self, path):
            os.makedirs(path, exist_ok=True)
            return path

    class Trainer(Middle):
        def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
            columns = dict(reward_extra_infos_dict, input=inputs, output=outputs, gts=gts, score=scores)
            super()._write_generations(columns, f"{self._folder(dump_path)}/{self.global_steps}.jsonl")
"""

DECORATED = """
    import functools, json, os, ray
    from verl.utils.debug import marked

    def traced(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            inner.calls += 1
            return function(*args, **kwargs)
        inner.calls = 0
        return inner

    def remote_only(function):
        return ray.method(function)

    @ray.remote(num_cpus=1)
    class Trainer:
        @marked("dump", color="red")
        @remote_only
        @traced
        def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
            columns = dict(reward_extra_infos_dict, input=inputs, output=outputs, gts=gts, score=scores)
            with open(f"{self._folder(dump_path)}/{self.global_steps}{self.ending}", "w") as out:
                out.writelines(json.dumps(dict(zip(columns, row))) + chr(10) for row in zip(*columns.values()))

        @property
        def ending(self):
            return self._ending

        @ending.setter
        def ending(self, value):
            self._ending = value

        @classmethod
        def _folder(cls, path):
            os.makedirs(path, exist_ok=True)
            return path

        _ending = ".jsonl"
"""

SHAPES = {
    "sync-without-gts": SYNC_OLD,
    "sync-with-gts": SYNC_GTS,
    "background-static-write": BACKGROUND,
    "helpers-and-constants": HELPERS,
    "inherited": INHERITED,
    "decorated": DECORATED,
}


@pytest.fixture(autouse=True)
def _leave_nothing():
    modules, lines, loaded = set(sys.modules), dict(linecache.cache), dict(source._loaded)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("_verl_dump_source_"):
            del sys.modules[name]
    linecache.cache.clear()
    linecache.cache.update(lines)
    source._loaded.clear()
    source._loaded.update(loaded)


def tree(folder, files):
    """Write files given by relative path."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(folder)


def wheel(path, files):
    """Write files given by relative path into an archive."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, textwrap.dedent(text))
    return str(path)


def writes_rows(cls, folder):
    """Drive a class as the harness does, and read back what it wrote."""
    trainer = object.__new__(cls)
    trainer.global_steps = 7
    if hasattr(trainer, "_init_dump_executor"):
        trainer._init_dump_executor()
    columns = {"inputs": ["a", "b"], "outputs": ["c", "d"], "scores": [0.5, 1.0], "gts": ["e", "f"]}
    if "gts" not in inspect.signature(trainer._dump_generations).parameters:
        del columns["gts"]
    extras = {"uid": ["x", "y"]}
    trainer._dump_generations(**columns, reward_extra_infos_dict=extras, dump_path=str(folder))
    if hasattr(trainer, "_shutdown_dump_executor"):
        trainer._shutdown_dump_executor()
    expected = [
        {"input": "a", "output": "c", "score": 0.5, "uid": "x"},
        {"input": "b", "output": "d", "score": 1.0, "uid": "y"},
    ]
    if "gts" in columns:
        expected[0]["gts"], expected[1]["gts"] = "e", "f"
    text = (folder / "7.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in row.items() if key != "step"} for row in rows] == expected


@pytest.mark.parametrize("packing", ["file", "folder", "wheel"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_the_dump_loads_and_writes(tmp_path, shape, packing):
    """Each historical shape of the dump loads from each kind of path and writes all of its rows."""
    if packing == "file":
        path = tree(tmp_path / "src", {"trainer.py": SHAPES[shape]}) + "/trainer.py"
    elif packing == "folder":
        path = tree(
            tmp_path / "src", {"verl/__init__.py": "raise SystemExit", "verl/trainer.py": SHAPES[shape]}
        )
    else:
        path = wheel(
            tmp_path / "v.whl", {"verl/__init__.py": "raise SystemExit", "verl/trainer.py": SHAPES[shape]}
        )
    threads = threading.active_count()
    heavy = {name for name in sys.modules if name.split(".")[0] in {"torch", "ray", "verl", "transformers"}}
    assert writes_rows(load_class(path), tmp_path / "out")
    assert threading.active_count() == threads
    assert {
        name for name in sys.modules if name.split(".")[0] in {"torch", "ray", "verl", "transformers"}
    } == heavy


def test_a_found_class_says_where_it_is(tmp_path):
    """A found class and the built one both tell name, module, file, line and methods of their origin."""
    path = wheel(tmp_path / "v.whl", {"verl/ppo/trainer.py": BACKGROUND, "verl/__init__.py": ""})
    (found,) = find_classes(path)
    assert (found.name, found.module, found.file, found.line) == (
        "Trainer",
        "verl.ppo.trainer",
        "verl/ppo/trainer.py",
        7,
    )
    assert set(found.methods) == {
        "_dump_generations",
        "_write_generations",
        "_init_dump_executor",
        "_shutdown_dump_executor",
    }
    cls = load_class(path)
    assert cls.dump_source_label == found.label == "verl/ppo/trainer.py:Trainer"
    assert (cls.__name__, cls.__qualname__) == ("Trainer", "Trainer")
    assert cls.__module__.endswith(".verl.ppo.trainer")
    assert sys.modules[cls.__module__].__dict__ is cls._dump_generations.__globals__


def test_the_top_level_never_runs(tmp_path):
    """Nothing at the top level runs but what binds a name that the dump uses."""
    text = """
        import os
        os.environ["VERL_DUMP_TEST_RAN"] = "yes"
        marker = open(__file__ + ".ran", "w")
        raise RuntimeError("the top level ran")
        class Trainer:
            def _dump_generations(self, inputs):
                return os.path.join("a", "b")
    """
    path = tree(tmp_path, {"trainer.py": text})
    assert object.__new__(load_class(path))._dump_generations([]) == os.path.join("a", "b")
    assert "VERL_DUMP_TEST_RAN" not in os.environ
    assert os.listdir(path) == ["trainer.py"]


def test_only_what_the_dump_calls_is_taken(tmp_path):
    """Methods that the dump does not reach are not in the built class, those it reaches through any name are."""
    text = """
        class Trainer:
            dump_capabilities = frozenset({"durable"})
            dump_disclaims = frozenset({"Q7"})
            unused = undefined_name
            limit = 3
            def __init__(self): undefined_name()
            def fit(self): return self._dump_generations()
            def _dump_generations(this, size=limit):
                return [this.one(), type(this).two(), Trainer.three(), getattr(this, "four")(), size]
            def one(self): return 1
            @classmethod
            def two(cls): return cls.deep()
            @classmethod
            def deep(cls): return 2
            @staticmethod
            def three(): return 3
            def four(self): return 4
    """
    cls = load_class(tree(tmp_path, {"t.py": text}))
    assert object.__new__(cls)._dump_generations() == [1, 2, 3, 4, 3]
    assert not hasattr(cls, "fit")
    assert not hasattr(cls, "unused")
    assert (cls.dump_capabilities, cls.dump_disclaims) == ({"durable"}, {"Q7"})


def test_helpers_and_bases_come_from_the_same_source(tmp_path):
    """Functions, bases and re-exports in other modules of the same root are read from the text, too."""
    path = tree(
        tmp_path,
        {
            "verl/__init__.py": "import torch\nfrom .utils.rows import Row\nraise SystemExit",
            "verl/utils/rows.py": "import ray\nclass Row(dict):\n    pass\n",
            "verl/base.py": "class Base:\n    def _rows(self, values):\n        return [self._one(v) for v in values]\n"
            "    def fit(self): undefined()\n",
            "verl/trainer.py": """
                import verl.utils.rows
                import verl.utils.rows as rows
                from verl import Row
                from verl.base import Base
                class Trainer(Base):
                    def _one(self, value):
                        return Row(value=value)
                    def _dump_generations(self, inputs):
                        return self._rows(inputs), Row is rows.Row is verl.utils.rows.Row
            """,
        },
    )
    cls = load_class(path)
    assert object.__new__(cls)._dump_generations([1, 2]) == ([{"value": 1}, {"value": 2}], True)
    assert not hasattr(cls, "fit")


def test_a_stand_in_is_harmless_until_it_matters(tmp_path):
    """An absent package is no instance, catches nothing and needs no annotation, but its use names it in one error."""
    text = """
        import torch, absent_package
        from torch import Tensor
        from absent_package.deep import thing as renamed
        DEVICE = absent_package.device("cpu")
        class Trainer:
            def _dump_generations(self, value: torch.Tensor, use) -> Tensor:
                kept: torch.Tensor = value
                try:
                    if isinstance(kept, (Tensor, absent_package.Array)) or isinstance(kept, absent_package.A | int):
                        return "instance"
                    return {"call": lambda: absent_package.save(kept), "iterate": lambda: list(renamed),
                            "truth": lambda: bool(absent_package.FLAG), "text": lambda: f"{renamed}",
                            "enter": lambda: absent_package.lock.__enter__, "constant": lambda: DEVICE + 1,
                            "fail": lambda: 1 / 0, "nothing": lambda: "fine"}[use]()
                except (absent_package.Error, torch.cuda.OutOfMemoryError):
                    return "caught"
    """
    trainer = object.__new__(load_class(tree(tmp_path, {"t.py": text})))
    assert trainer._dump_generations("x", "nothing") == "fine"
    assert trainer._dump_generations(3, "nothing") == "instance"
    with pytest.raises(ZeroDivisionError):
        trainer._dump_generations("x", "fail")
    named = {
        "call": "absent_package.save",
        "iterate": "absent_package.deep.thing",
        "truth": "absent_package.FLAG",
    }
    named |= {"text": "absent_package.deep.thing", "constant": "DEVICE"}
    for use, name in named.items():
        with pytest.raises(
            UnavailableError, match=f"^the source uses {name}, but .*absent_package is not imported"
        ) as caught:
            trainer._dump_generations("x", use)
        assert "\n" not in str(caught.value)


def test_a_package_loaded_later_is_used(tmp_path, monkeypatch):
    """A heavy package is real from the moment somebody else has imported it."""
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    text = """
        from ray import ObjectRef
        class Trainer:
            def _dump_generations(self, value):
                return isinstance(value, ObjectRef)
    """
    trainer = object.__new__(load_class(tree(tmp_path, {"t.py": text})))
    assert trainer._dump_generations(3) is False
    fake = types.ModuleType("ray")
    fake.ObjectRef = int
    monkeypatch.setitem(sys.modules, "ray", fake)
    assert trainer._dump_generations(3) is True


def test_a_heavy_package_is_never_imported(tmp_path, monkeypatch):
    """An importable trainer package is not imported, not even by an import inside the dump method."""
    tree(tmp_path / "site", {"verl/__init__.py": "raise AssertionError('imported')"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    text = """
        from verl import a
        class Trainer:
            def _dump_generations(self):
                from verl.utils import b
                try:
                    import verl
                except ImportError:
                    verl = "fallback"
                return isinstance(3, (a, b)), verl
    """
    assert object.__new__(load_class(tree(tmp_path / "src", {"t.py": text})))._dump_generations() == (
        False,
        "fallback",
    )


def test_tracebacks_show_the_source(tmp_path):
    """A traceback through a loaded method shows real file, line number and text of the line."""
    path = wheel(tmp_path / "v.whl", {"pkg/t.py": BACKGROUND})
    cls = load_class(path)
    with pytest.raises(NotADirectoryError) as caught:
        cls._write_generations({}, os.path.join(path, "below"), 1)
    linecache.checkcache()
    lines = "".join(traceback.format_exception(caught.value))
    line = 1 + textwrap.dedent(BACKGROUND).splitlines().index("        os.makedirs(dump_path, exist_ok=True)")
    assert f'File "{path}{os.sep}pkg{os.sep}t.py", line {line}, in _write_generations' in lines
    assert "os.makedirs(dump_path, exist_ok=True)" in lines


def test_a_patched_file_system_is_seen(tmp_path):
    """A tool that patches modules in `sys.modules` reaches the loaded methods."""
    trainer = object.__new__(load_class(tree(tmp_path, {"t.py": SYNC_OLD})))
    trainer.global_steps = 1
    with Patcher() as patcher:
        trainer._dump_generations(["a"], ["b"], [1], {}, "/verl-dump-fake")
        assert patcher.fs.exists("/verl-dump-fake/1.jsonl")
    assert not os.path.exists("/verl-dump-fake")


def test_several_classes_come_in_file_order(tmp_path):
    """All classes load in the order of files and lines, and names choose among them."""
    path = tree(
        tmp_path,
        {"b.py": SYNC_GTS, "a.py": SYNC_OLD + INHERITED.replace("Trainer", "Other"), "c.py": "x = 1"},
    )
    assert [cls.dump_source_label for cls in load_classes(path)] == [
        "a.py:Trainer",
        "a.py:Other",
        "b.py:Trainer",
    ]
    assert [cls.dump_source_label for cls in load_classes(path, "Trainer")] == [
        "a.py:Trainer",
        "b.py:Trainer",
    ]
    assert [cls.dump_source_label for cls in load_classes(path, "b:Trainer")] == ["b.py:Trainer"]
    assert load_class(path, "b.py:Trainer") is load_classes(path)[2]
    with pytest.raises(TargetError, match=r"several classes .* choose one of a:Trainer, b:Trainer$"):
        load_class(path, "Trainer")


def test_a_named_class_may_inherit_the_surface(tmp_path):
    """A class that only inherits the dump is not listed, but loads when it is named, with its own overrides."""
    files = {
        "pkg/__init__.py": "",
        "pkg/base.py": SYNC_OLD,
        "pkg/child.py": "from .base import Trainer\nclass Child(Trainer):\n    def fit(self): pass\n",
    }
    path = tree(tmp_path / "src", files)
    assert [each.name for each in find_classes(path)] == ["Trainer"]
    cls = load_class(path, "Child")
    assert cls.dump_source_label == "pkg/child.py:Child"
    assert writes_rows(cls, tmp_path / "out")


def test_nested_classes_and_conditional_classes_load(tmp_path):
    """A class inside a class or an `if` block is found under its qualified name."""
    text = """
        import sys
        if sys.version_info >= (3, 8):
            class Outer:
                class Inner:
                    def _dump_generations(self): return "inner"
        else:
            raise RuntimeError
    """
    cls = load_class(tree(tmp_path, {"t.py": text}), "Inner")
    assert cls.__qualname__ == "Outer.Inner"
    assert object.__new__(cls)._dump_generations() == "inner"


def test_tests_docs_and_environments_are_left_out(tmp_path):
    """Folders of tests, docs and builds, hidden ones and virtual environments are not searched."""
    files = {
        f"{each}/t.py": SYNC_OLD for each in ("tests", "pkg/tests", "docs", "build/lib", ".tox", "env/lib")
    }
    path = tree(tmp_path, {**files, "env/pyvenv.cfg": "", "pkg/t.py": SYNC_OLD, "pkg/latest/t.py": SYNC_OLD})
    assert [each.file for each in find_classes(path)] == ["pkg/latest/t.py", "pkg/t.py"]
    packed = wheel(
        tmp_path / "v.whl", {"tests/t.py": SYNC_OLD, "pkg/docs/t.py": SYNC_OLD, "pkg/t.py": SYNC_OLD}
    )
    assert [each.file for each in find_classes(packed)] == ["pkg/t.py"]


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes of POSIX")
def test_links_to_nowhere_and_pipes_are_left_out(tmp_path):
    """What is no regular file is neither opened nor waited for."""
    path = tree(tmp_path, {"t.py": SYNC_OLD})
    os.symlink("nowhere", tmp_path / "lock.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert [each.file for each in find_classes(path)] == ["t.py"]
    with pytest.raises(TargetError, match=r"pipe\.py: neither a folder, a wheel nor a \.py file"):
        find_classes(f"{path}/pipe.py")


def test_labels_are_whole_inside_a_package(tmp_path):
    """A path inside a package still gives labels and modules from the package's root on."""
    tree(
        tmp_path,
        {
            "verl/__init__.py": "",
            "verl/ppo/__init__.py": "",
            "verl/ppo/t.py": SYNC_OLD,
            "src/x/t.py": SYNC_OLD,
        },
    )
    for path in ("verl", "verl/ppo", "verl/ppo/t.py"):
        (found,) = find_classes(str(tmp_path / path))
        assert (found.file, found.module) == ("verl/ppo/t.py", "verl.ppo.t")
    assert [each.module for each in find_classes(str(tmp_path))] == ["x.t", "verl.ppo.t"]


def test_a_changed_file_is_loaded_anew(tmp_path):
    """Loading again gives the same class while the text is the same, and a new one when it has changed."""
    text = "class Trainer:\n    def _dump_generations(self): return {}\n"
    path = tree(tmp_path, {"t.py": text.format(1)})
    first = load_class(path)
    assert load_class(path) is first
    tree(tmp_path, {"t.py": text.format(2)})
    assert object.__new__(load_class(path))._dump_generations() == 2
    assert object.__new__(first)._dump_generations() == 1


BAD = {
    "no-such-path": (None, "there is no such file or folder$"),
    "not-a-wheel": ({"t.txt": "x"}, "t.txt: neither a folder, a wheel nor a .py file"),
    "broken-wheel": ({"t.whl": "PK"}, "t.whl: a broken wheel"),
    "no-class": (
        {"t.py": "x = 1"},
        r"no class defines _dump_generations \(looked through 1 Python file, .*\); name the",
    ),
    "empty-folder": ({"x/y.txt": ""}, "looked through 0 Python files"),
    "null-bytes": ({"t.py": "\0_dump_generations"}, "not (a Python file|valid Python).*null bytes"),
    "syntax-error": ({"t.py": "\n_dump_generations = (\n  1 2)\n"}, r"t\.py:3: not valid Python 3\.\d+: "),
    "unknown-name": (
        {"t.py": "class T:\n  def _dump_generations(self):\n    return nowhere\n"},
        r"t\.py:1: the global name 'nowhere' is used there, but the file binds it nowhere$",
    ),
    "failing-constant": (
        {"t.py": "X = 1 / 0\nclass T:\n  def _dump_generations(self):\n    return X\n"},
        r"t\.py:1: the value of X cannot be computed: ZeroDivisionError: division by zero$",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_sources_give_one_clear_line(tmp_path, case):
    """Each source that cannot be loaded gives one line that says what is wrong and where, and no file is left."""
    files, message = BAD[case]
    path = str(tmp_path / "missing") if files is None else tree(tmp_path, files)
    if files and len(files) == 1 and "/" not in next(iter(files)):
        path = os.path.join(path, next(iter(files)))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(TargetError, match=message) as caught:
        load_classes(path)
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == before


def test_undecodable_text_gives_one_clear_line(tmp_path):
    """A file that is no text in its declared encoding is named."""
    (tmp_path / "t.py").write_bytes(b"class T:\n  def _dump_generations(self): return '\xff'\n")
    with pytest.raises(TargetError, match=r"t\.py: not a Python file: UnicodeDecodeError"):
        find_classes(str(tmp_path))


def test_a_damaged_wheel_member_gives_one_clear_line(tmp_path):
    """A wheel whose content does not match its checksum is refused."""
    path = wheel(tmp_path / "v.whl", {"t.py": SYNC_OLD})
    with open(path, "r+b") as file:
        file.seek(60)
        file.write(b"damage")
    with pytest.raises(TargetError, match=r"v\.whl: not a readable wheel: BadZipFile"):
        find_classes(path)


@pytest.mark.parametrize(
    "name", ["Trainr", "other:Trainer", "", ":"], ids=["misspelt", "other-module", "empty", "colon"]
)
def test_an_unknown_class_lists_those_found(tmp_path, name):
    """A class name that fits nothing gives one line with all that would."""
    path = tree(tmp_path, {"a.py": SYNC_OLD, "b.py": BACKGROUND})
    with pytest.raises(
        TargetError, match=f"no class '{name}' with the dump surface; found a:Trainer, b:Trainer"
    ):
        load_classes(path, name)


def real_wheel(version):
    """The wheel of a verl release, or a skip that says how to get it."""
    folder = os.environ.get("VERL_DUMP_WHEELS")
    how = f"pip download --no-deps -d FOLDER verl=={version}, and set VERL_DUMP_WHEELS=FOLDER"
    if not folder:
        pytest.skip(f"needs verl's wheel: {how}")
    names = [name for name in os.listdir(folder) if name.startswith(f"verl-{version}-")]
    assert names, f"VERL_DUMP_WHEELS holds no verl {version}: {how}"
    return os.path.join(folder, names[0])


@pytest.mark.parametrize("version", EXPECTED)
def test_released_verl_loads_and_writes(tmp_path, version):
    """Each release's classes are found, load within a second without its packages, and write all rows."""
    path = real_wheel(version)
    before, files, start = set(sys.modules), os.listdir(os.path.dirname(path)), time.process_time()
    classes = load_classes(path)
    assert time.process_time() - start < 1
    kinds = {}
    for number, (cls, found) in enumerate(zip(classes, find_classes(path), strict=True)):
        kinds[f"{found.module}:{found.name}"] = (
            "asynchronous" if "_init_dump_executor" in found.methods else "synchronous"
        )
        assert writes_rows(cls, tmp_path / str(number))
    assert kinds == EXPECTED[version]
    brought = {name.split(".")[0] for name in set(sys.modules) - before}
    assert not brought & {"torch", "ray", "verl", "tensordict", "transformers"}
    assert os.listdir(os.path.dirname(path)) == files
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]


def test_names_of_a_star_import_are_found(tmp_path):
    """What only `from … import *` of a module that can be imported binds is taken from there."""
    text = """
        import json
        from string import digits
        from os.path import *
        class Trainer:
            def _dump_generations(self, inputs):
                return join("a", "b")
    """
    path = tree(tmp_path, {"trainer.py": text})
    assert object.__new__(load_class(path))._dump_generations([]) == os.path.join("a", "b")


def test_a_module_below_an_installed_package_is_imported(tmp_path, monkeypatch):
    """`import a.b` makes the module below the package available, as it does where the file is run."""
    name = "verl_dump_helper_4711"
    (tmp_path / "site" / name).mkdir(parents=True)
    (tmp_path / "site" / name / "__init__.py").write_text("")
    (tmp_path / "site" / name / "below.py").write_text("ENDING = '.jsonl'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    text = f"""
        import {name}.below
        class Trainer:
            def _dump_generations(self, inputs):
                return {name}.below.ENDING
    """
    path = tree(tmp_path / "src", {"trainer.py": text})
    try:
        assert object.__new__(load_class(path))._dump_generations([]) == ".jsonl"
    finally:
        for module in (name, f"{name}.below"):
            sys.modules.pop(module, None)
