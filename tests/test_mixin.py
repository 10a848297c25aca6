"""verl's method names over the dumper."""

import errno
import inspect
import json
import logging
import os
import re
import threading
from pathlib import Path

import pytest

import verl_dump
from fault_injection.targets.base import CAPABILITIES
from verl_dump import DrainTimeout, DumpError, DumpErrorGroup, DumpMixin, GenerationDumper
from verl_dump.policies import Policies

LONG = 60.0
CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).parent.parent)
UNITS = {"": 1, "MiB": 1 << 20, "s": 1.0}


class Trainer(DumpMixin):
    def __init__(self):
        raise AssertionError("never run in these tests")


def bare(cls=Trainer, step=1):
    trainer = object.__new__(cls)
    trainer.global_steps = step
    return trainer


def hand_over(trainer, directory, mark="a", n=2):
    trainer._dump_generations(
        inputs=[f"{mark}{row}" for row in range(n)],
        outputs=["o"] * n,
        gts=["g"] * n,
        scores=[1.0] * n,
        reward_extra_infos_dict={"mark": [mark] * n},
        dump_path=directory,
    )


def marks(path):
    with open(path, encoding="utf-8") as file:
        return list(dict.fromkeys(json.loads(line)["mark"] for line in file))


def writers():
    return [thread for thread in threading.enumerate() if thread.name == "verl-dump-writer"]


@pytest.fixture
def blocker(tmp_path):
    """A file that stands where the dump directory belongs."""
    path = tmp_path / "file"
    path.write_text("mine")
    return str(path)


def defaults_of_the_readme():
    """Each argument of the dumper's table in the README, with the default that it names."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    table = readme.split("| argument | default | meaning |", 1)[1].split("\n\n", 1)[0]
    for names, texts, *_ in (line.strip("|").split(" | ") for line in table.splitlines()[2:]):
        names = re.findall(r"`(\w+)`", names)
        found = re.findall(r"`\"?(\w+)\"?`|(\d+) ?(MiB|s)?", texts)
        for name, (word, number, unit) in zip(names, found, strict=True):
            yield name, {"True": True}.get(word, word) if word else int(number) * UNITS[unit]


def test_defaults_are_those_of_the_readme():
    """The dumper and the mixin have the same defaults, which are those that the README names."""
    told = dict(defaults_of_the_readme())
    assert GenerationDumper.__init__.__kwdefaults__ == told
    assert {name: getattr(DumpMixin, f"dump_{name}") for name in told} == told
    GenerationDumper(**told).drain()


def test_a_trainer_makes_its_dumper_with_the_defaults_of_the_readme(monkeypatch):
    """A trainer that sets nothing hands each default that the README names to its dumper."""
    made, told = [], dict(defaults_of_the_readme())

    def begin(_, **options):
        made.append(options)

    begin.__kwdefaults__ = dict.fromkeys(told)
    monkeypatch.setattr(GenerationDumper, "__init__", begin)
    assert isinstance(DumpMixin()._dump_executor, GenerationDumper)
    assert made == [told]


def test_the_mixin_claims_what_there_is_to_claim():
    """What the mixin says that it can do are words that the harness knows, and all of them."""
    assert DumpMixin.dump_capabilities == frozenset(CAPABILITIES)
    # And so does each trainer with it, before and after its first drain.
    trainer = DumpMixin()
    trainer._shutdown_dump_executor(timeout=0.0)
    assert trainer.dump_capabilities == frozenset(CAPABILITIES)


def test_the_version_is_a_release():
    """The version has three numbers."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", verl_dump.__version__)


def test_signatures():
    """The methods take the arguments that verl passes, by the names it uses."""
    dump = ["inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path"]
    assert list(inspect.signature(DumpMixin._dump_generations).parameters) == ["self", *dump]
    assert list(inspect.signature(DumpMixin._write_generations).parameters) == [*dump, "global_steps"]
    assert isinstance(inspect.getattr_static(DumpMixin, "_write_generations"), staticmethod)
    assert DumpMixin.dump_capabilities == {"durable", "deadline", "warn"}


def test_defaults():
    """A dumper has the defaults that are documented, and a trainer's has the same."""
    documented = {
        "fsync": True,
        "max_pending": 64,
        "max_pending_bytes": 512 * 1024 * 1024,
        "on_full": "block",
        "same_step": "merge",
        "on_error": "raise",
        "exit_timeout": 30.0,
        "non_finite": "null",
        "unknown": "error",
        "ragged": "error",
        "collide": "rename",
        "scalar": "error",
    }
    assert GenerationDumper.__init__.__kwdefaults__ == documented
    assert {name: getattr(DumpMixin, f"dump_{name}") for name in documented} == documented


def test_dump_without_init(tmp_path):
    """A trainer whose `__init__` and `_init_dump_executor` never ran dumps and drains."""
    trainer = bare()
    hand_over(trainer, str(tmp_path))
    trainer._shutdown_dump_executor()
    with open(tmp_path / "1.jsonl", encoding="utf-8") as file:
        assert json.loads(file.readline()) == {
            "input": "a0",
            "output": "o",
            "gts": "g",
            "score": 1.0,
            "step": 1,
            "mark": "a",
        }
    assert writers() == []


def test_step_is_that_of_the_call(tmp_path):
    """A dump belongs to the step at the call, whatever `global_steps` becomes right after it."""
    trainer = bare()
    for step in (1, 2, 3):
        trainer.global_steps = step
        hand_over(trainer, str(tmp_path), f"s{step}")
    trainer.global_steps = 99
    trainer._shutdown_dump_executor()
    assert sorted(os.listdir(tmp_path)) == ["1.jsonl", "2.jsonl", "3.jsonl"]
    assert marks(tmp_path / "2.jsonl") == ["s2"]


def test_without_extras_and_ground_truths(tmp_path):
    """No extras and no ground truths give rows without those columns."""
    trainer = bare()
    trainer._dump_generations(["i"], ["o"], None, [1.0], None, tmp_path)
    trainer._shutdown_dump_executor()
    assert json.loads((tmp_path / "1.jsonl").read_text()) == {
        "input": "i",
        "output": "o",
        "score": 1.0,
        "step": 1,
    }


def test_shutdown_without_dumps():
    """A shutdown of a trainer that never dumped does nothing, and makes no dumper."""
    trainer = bare()
    trainer._shutdown_dump_executor()
    trainer._shutdown_dump_executor()
    assert vars(trainer) == {"global_steps": 1}


def test_failures_come_out(blocker):
    """A shutdown raises all that failed, once, with step and path."""
    trainer = bare()
    trainer._init_dump_executor()
    with pytest.raises((DumpError, DumpErrorGroup)) as caught:
        hand_over(trainer, blocker)
        trainer._shutdown_dump_executor()
    assert caught.value.step == 1
    assert caught.value.path == os.path.join(blocker, "1.jsonl")
    assert caught.value.errno in (errno.EEXIST, errno.ENOTDIR)
    trainer._shutdown_dump_executor()


def test_init_again_after_drain_starts_clean(tmp_path, blocker):
    """After a drain that raised, the next `_init_dump_executor` starts with nothing pending or to be raised."""
    trainer = bare()
    hand_over(trainer, blocker)
    with pytest.raises(DumpError):
        trainer._shutdown_dump_executor()
    trainer._init_dump_executor()
    assert trainer._dump_executor.pending == ()
    hand_over(trainer, str(tmp_path))
    trainer._shutdown_dump_executor()
    assert marks(tmp_path / "1.jsonl") == ["a"]


def test_init_again_drops_nothing(tmp_path, blocker, monkeypatch):
    """A second `_init_dump_executor` without a drain loses neither a pending dump nor a failure."""
    gate = threading.Event()
    real = os.fsync

    def wait(descriptor):
        assert gate.wait(LONG)
        return real(descriptor)

    monkeypatch.setattr(os, "fsync", wait)
    trainer = bare()
    hand_over(trainer, str(tmp_path))
    trainer.global_steps = 2
    hand_over(trainer, blocker)
    trainer._init_dump_executor()
    gate.set()
    with pytest.raises(DumpError, match="step 2"):
        trainer._shutdown_dump_executor()
    assert marks(tmp_path / "1.jsonl") == ["a"]


def test_step_again_in_the_next_fit(tmp_path):
    """A step dumped again after a drain and a new `_init_dump_executor` of the same trainer loses no rows."""
    trainer = bare()
    for mark in "ab":
        trainer._init_dump_executor()
        hand_over(trainer, str(tmp_path), mark)
        trainer._shutdown_dump_executor()
    assert marks(tmp_path / "1.jsonl") == ["a", "b"]


def test_deadline(tmp_path, monkeypatch):
    """A shutdown with a deadline names the steps that are not on disk."""
    gate = threading.Event()
    real = os.fsync

    def wait(descriptor):
        assert gate.wait(LONG)
        return real(descriptor)

    monkeypatch.setattr(os, "fsync", wait)
    trainer = bare(step=5)
    hand_over(trainer, str(tmp_path))
    with pytest.raises(DrainTimeout, match="step 5"):
        trainer._shutdown_dump_executor(timeout=0)
    gate.set()
    trainer._shutdown_dump_executor(LONG)
    assert os.listdir(tmp_path) == ["5.jsonl"]


def test_two_threads_at_first_dump(tmp_path, monkeypatch):
    """Two threads that dump first at the same time use one dumper."""
    made = threading.Barrier(2)

    class Meeting(Trainer):
        @property
        def dump_exit_timeout(self):
            made.wait(LONG)  # both threads are now making a dumper
            return 30.0

    trainer = bare(Meeting)
    threads = [threading.Thread(target=hand_over, args=(trainer, str(tmp_path), mark)) for mark in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    trainer._shutdown_dump_executor()
    assert sorted(marks(tmp_path / "1.jsonl")) == ["a", "b"]


def test_class_attributes_are_options(tmp_path, blocker, caplog):
    """The class attributes are the dumper's options."""

    class Careful(Trainer):
        dump_fsync = False
        dump_on_error = "warn"
        dump_same_step = "replace"
        dump_max_pending = 2
        dump_max_pending_bytes = 3
        dump_on_full = "error"
        dump_exit_timeout = 4.0
        dump_non_finite = "string"
        dump_unknown = "repr"
        dump_ragged = "pad"
        dump_collide = "error"
        dump_scalar = "repeat"

    trainer = bare(Careful)
    with caplog.at_level(logging.ERROR, "verl_dump"):
        hand_over(trainer, blocker)
        trainer._shutdown_dump_executor()
    assert "dump of step 1" in caplog.text
    dumper = trainer._dump_executor
    assert (dumper._max_pending, dumper._max_pending_bytes, dumper._on_full) == (2, 3, "error")
    assert (dumper._exit_timeout, dumper._publisher._fsync) == (4.0, False)
    assert dumper._policies == Policies("string", "repr", "pad", "error", "repeat")
    for mark in "ab":
        hand_over(trainer, str(tmp_path / "d"), mark)
        trainer._shutdown_dump_executor()
    assert marks(tmp_path / "d" / "1.jsonl") == ["b"]


def test_instance_attribute_is_an_option(tmp_path):
    """An attribute set on the instance before the first dump counts."""
    trainer = bare()
    trainer.dump_same_step = "error"
    hand_over(trainer, str(tmp_path))
    with pytest.raises(DumpError, match="already"):
        hand_over(trainer, str(tmp_path))
        trainer._shutdown_dump_executor()


def test_options_are_read_once(tmp_path):
    """An attribute that is set after the first dump is no option any more, whatever it is."""
    trainer = bare()
    hand_over(trainer, str(tmp_path))
    trainer.dump_same_step = trainer.dump_on_full = "nonsense"
    hand_over(trainer, str(tmp_path), "b")
    trainer._shutdown_dump_executor()
    assert marks(tmp_path / "1.jsonl") == ["a", "b"]


def test_subclass_with_its_own_init(tmp_path):
    """A subclass that skips `super().__init__()` and is otherwise unlike the mixin dumps."""

    class Base:
        def __init__(self, steps):
            self.global_steps = steps

    class Both(DumpMixin, Base):
        pass

    trainer = Both(7)
    hand_over(trainer, str(tmp_path))
    trainer._shutdown_dump_executor()
    assert os.listdir(tmp_path) == ["7.jsonl"]


def test_session_drains(tmp_path, blocker):
    """The session drains on every way out; an exception stays primary with the failure attached."""
    trainer = bare()
    with trainer._dump_session():
        hand_over(trainer, str(tmp_path / "d"))
    assert os.listdir(tmp_path / "d") == ["1.jsonl"]
    with pytest.raises(ZeroDivisionError) as caught, trainer._dump_session():
        hand_over(trainer, blocker)
        raise ZeroDivisionError
    assert "dump of step 1" in caught.value.__notes__[0]
    assert trainer._dump_executor.pending == ()
    assert writers() == []


def test_write_at_once(tmp_path):
    """`_write_generations` returns when the file is complete, replaces an older one, and leaves no thread."""
    for mark in "ab":
        DumpMixin._write_generations(["i"], ["o"], ["g"], [1], {"mark": [mark]}, str(tmp_path / "new"), 4)
    row = {"input": "i", "output": "o", "gts": "g", "score": 1, "step": 4, "mark": "b"}
    assert [json.loads(line) for line in (tmp_path / "new" / "4.jsonl").read_text().splitlines()] == [row]
    assert os.listdir(tmp_path / "new") == ["4.jsonl"]
    assert writers() == []


def test_write_at_once_fails(tmp_path, blocker, monkeypatch):
    """`_write_generations` raises its failure with step and path, and leaves an older file as it was."""
    with pytest.raises(DumpError, match="step 4") as caught:
        DumpMixin._write_generations(["i"], ["o"], ["g"], [1], {}, blocker, 4)
    assert isinstance(caught.value.__cause__, OSError)
    assert (caught.value.step, caught.value.path) == (4, os.path.join(blocker, "4.jsonl"))
    with pytest.raises(ValueError, match="differ in length"):
        DumpMixin._write_generations(["i"], [], ["g"], [1], {}, str(tmp_path), 4)

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "full")

    (tmp_path / "4.jsonl").write_text("old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DumpError) as caught:
        DumpMixin._write_generations(["i"], ["o"], ["g"], [1], {}, str(tmp_path), 4)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / "4.jsonl").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["4.jsonl", "file"]
