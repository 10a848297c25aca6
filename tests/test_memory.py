"""The memory mechanism: the fake disk is full, or a directory may not be written, and the injector tells the truth of it."""

import errno
import io
import os
import pathlib
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection import memory_trial
from fault_injection.fault import CATALOGUE
from fault_injection.mechanisms import disk, memory
from fault_injection.op import Op
from fault_injection.plan import Plan


@pytest.fixture(scope="module")
def fake() -> Iterator[memory.Memory]:
    """One fake file system for all tests of this module."""
    with memory.Memory() as fake:
        yield fake


def dump(folder: str, size: int = 1000, name: str = "1.jsonl") -> None:
    """Publish a file of so many bytes, atomically."""
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("x" * size)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(folder, name))
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def test_without_a_fault_a_dump_succeeds_and_nothing_fired(fake: memory.Memory) -> None:
    """In a sound trial the file is there, whole, and the injector reports no fault."""
    with fake.trial(Plan()) as injector:
        dump(injector.folder)
        assert os.listdir(injector.folder) == ["1.jsonl"]
        assert os.path.getsize(f"{injector.folder}/1.jsonl") == 1000
    assert injector.fired == 0
    assert injector.unseen() == ()


@pytest.mark.parametrize(
    ("plan", "number"),
    [
        ("bytes>999:ENOSPC", errno.ENOSPC),
        ("bytes>0:ENOSPC", errno.ENOSPC),
        ("open#1+:EACCES", errno.EACCES),
        ("mkdir#1+:EACCES", errno.EACCES),
    ],
    ids=["one-byte-short", "no-room", "folder-not-writable", "folder-cannot-be-made"],
)
def test_a_plan_refuses_and_says_that_it_did(fake: memory.Memory, plan: str, number: int) -> None:
    """The dump fails with the plan's errno, marked as injected, leaves no file, and the injector has fired."""
    seen: list[Op] = []
    with fake.trial(Plan.parse(plan), observe=lambda op, _: seen.append(op)) as injector:
        with pytest.raises(OSError) as caught:
            dump(injector.folder)
        assert caught.value.errno == number
        assert caught.value.injected == injector.fired
        left = [name for _, _, names in os.walk(injector.root) for name in names]
        assert left == []
    assert injector.fired == len(seen) > 0
    assert {op.kind for op in seen} == {plan.partition("#")[0].partition(">")[0].replace("bytes", "write")}
    assert all(op.caller for op in seen)


def test_a_plan_that_strikes_nothing_has_not_fired(fake: memory.Memory) -> None:
    """Where the disk is large enough the injector does not claim a fault."""
    with fake.trial(Plan.parse("bytes>1000:ENOSPC")) as injector:
        dump(injector.folder)
    assert injector.fired == 0


def test_a_full_disk_has_room_again_after_a_file_is_removed(fake: memory.Memory) -> None:
    """Bytes that were freed can be written again."""
    with fake.trial(Plan.parse("bytes>1500:ENOSPC")) as injector:
        dump(injector.folder)
        with pytest.raises(OSError, match="No space left"):
            dump(injector.folder, name="2.jsonl")
        os.unlink(f"{injector.folder}/1.jsonl")
        dump(injector.folder, name="2.jsonl")
        assert os.listdir(injector.folder) == ["2.jsonl"]


@pytest.mark.parametrize(
    "plan", ["none", "bytes>999:ENOSPC", "bytes>1000:ENOSPC", "open#1+:EACCES", "mkdir#1+:EACCES"]
)
def test_memory_and_disk_agree(fake: memory.Memory, tmp_path: Path, plan: str) -> None:
    """Under one plan a dump has the same outcome through both mechanisms: errno, whether a fault fired, and what is left."""

    def outcome(folder: str) -> tuple[int | None, list[str]]:
        number = None
        try:
            dump(folder)
        except OSError as error:
            number = error.errno
        return number, [name for _, _, names in os.walk(os.path.dirname(folder)) for name in names]

    with fake.trial(Plan.parse(plan)) as there:
        in_memory = outcome(there.folder)
    with disk.armed(str(tmp_path), Plan.parse(plan)) as here:
        assert outcome(str(tmp_path / "steps")) == in_memory
    assert bool(here.fired) is bool(there.fired)


def test_the_error_of_a_full_disk_names_no_path(fake: memory.Memory) -> None:
    """As with a real write, ENOSPC comes without a file name: the writer itself must say which file it was."""
    with (
        fake.trial(Plan.parse("bytes>10:ENOSPC")) as injector,
        pytest.raises(OSError, match="No space") as caught,
    ):
        dump(injector.folder)
    assert caught.value.filename is None


@pytest.mark.parametrize("plan", ["none", "bytes>100000:ENOSPC"])
def test_a_writable_trial_starts_empty(fake: memory.Memory, plan: str) -> None:
    """Nothing of one trial is left in the next."""
    for _ in range(3):
        with fake.trial(Plan.parse(plan)) as injector:
            assert os.listdir(injector.root) == []
            dump(injector.folder)


def test_threads_write_into_the_fake_file_system(fake: memory.Memory) -> None:
    """A worker thread meets the same file system and the same faults, and is not taken for the caller."""
    seen: list[Op] = []
    caught: list[OSError] = []

    def work(folder: str, size: int) -> None:
        try:
            dump(folder, size)
        except OSError as error:
            caught.append(error)

    with fake.trial(Plan.parse("bytes>100:ENOSPC"), observe=lambda op, _: seen.append(op)) as injector:
        for size in (100, 101):
            worker = threading.Thread(target=work, args=(injector.folder, size))
            worker.start()
            worker.join()
        assert os.path.getsize(f"{injector.folder}/1.jsonl") == 100
    assert [error.errno for error in caught] == [errno.ENOSPC]
    assert not any(op.caller for op in seen)


def test_the_real_file_system_is_in_force_between_and_after_trials(
    fake: memory.Memory, tmp_path: Path
) -> None:
    """Outside a trial every name is the original object, and what a trial wrote is nowhere on the real disk."""
    before = (open, io.open, os.open, os.replace, os.getuid(), pathlib.Path, tempfile.mkstemp)
    with fake.trial(Plan()) as injector:
        assert open is not before[0]
        assert not os.path.exists(str(tmp_path))
        dump(injector.folder)
    assert before == (open, io.open, os.open, os.replace, os.getuid(), pathlib.Path, tempfile.mkstemp)
    assert not os.path.exists(memory.ROOT)
    (tmp_path / "real").write_text("real")
    assert (tmp_path / "real").read_text() == "real"


def test_a_trial_that_ends_in_an_error_restores_everything(fake: memory.Memory) -> None:
    """The names, the user and the lock are restored when the body of a trial raises."""
    before = (open, os.open, os.getuid())
    with pytest.raises(ZeroDivisionError), fake.trial(Plan.parse("open#1+:EACCES")):
        raise ZeroDivisionError
    assert before == (open, os.open, os.getuid())
    with fake.trial(Plan()) as injector:
        dump(injector.folder)


def test_a_module_made_after_the_set_up_is_patched(fake: memory.Memory) -> None:
    """A target that was built at run time, after the fake file system, writes into it as well."""
    module = types.ModuleType("late_target")
    sys.modules["late_target"] = module
    try:
        exec("import os\nfrom os import makedirs, replace\ndef make(path):\n    makedirs(path)", vars(module))
        with fake.trial(Plan()) as injector:
            module.make(f"{injector.folder}/deep")
            assert os.listdir(injector.folder) == ["deep"]
        assert module.os is os
        assert not os.path.exists(memory.ROOT)
    finally:
        del sys.modules["late_target"]


@pytest.mark.parametrize(
    "plan",
    [
        "write#1:ENOSPC",
        "bytes>10:EDQUOT",
        "bytes>10#2:ENOSPC",
        "open#1:EACCES",
        "*.tmp@open#1+:EACCES",
        "mkdir#1+:EROFS",
        "bytes>10:ENOSPC;open#1+:EACCES",
    ],
    ids=["schedule", "other-errno", "span", "once", "glob", "read-only", "two-rules"],
)
def test_a_plan_without_an_exact_meaning_is_refused(fake: memory.Memory, plan: str) -> None:
    """A plan that the fake file system cannot make real is one clear line, from `supports` and from the trial."""
    reason = memory.supports(Plan.parse(plan))
    assert len(reason.splitlines()) == 1
    with pytest.raises(ValueError, match="the memory mechanism"), fake.trial(Plan.parse(plan)):
        pass


def test_supported_plans_have_no_reason_against_them() -> None:
    """`supports` is empty for exactly the plans that the module documents."""
    for plan in ("none", "bytes>10:ENOSPC", "open#1+:EACCES", "mkdir#1+:EACCES"):
        assert memory.supports(Plan.parse(plan)) == ""


def test_trials_of_both_mechanisms_exclude_each_other(fake: memory.Memory, tmp_path: Path) -> None:
    """One trial is armed at a time, whatever its mechanism."""
    with disk.armed(str(tmp_path), Plan()):
        with pytest.raises(RuntimeError, match="armed already"), fake.trial(Plan()):
            pass


def test_a_second_fake_file_system_is_refused(fake: memory.Memory) -> None:
    """Pyfakefs exists once in a process; a second use of it is refused with a clear error."""
    with pytest.raises(RuntimeError, match="pyfakefs is in use"), memory.Memory():
        pass


def test_capabilities_agree_with_the_catalogue() -> None:
    """The catalogue gives the memory mechanism exactly the faults that it lists, at operations they apply to."""
    assert set(memory.CAPABILITIES) == {
        name for name, kind in CATALOGUE.items() if "memory" in kind.mechanisms
    }
    for name, ops in memory.CAPABILITIES.items():
        assert set(ops) <= CATALOGUE[name].ops


@pytest.mark.parametrize("name", [name for name in memory_trial._BY_DESCRIPTOR if hasattr(os, name)])
def test_a_call_that_would_reach_a_real_file_is_refused(name: str) -> None:
    """In a trial in memory a call by descriptor that the fake file system lacks fails, and works again afterwards."""
    real = getattr(os, name)
    with memory_trial._no_real_descriptors(), pytest.raises(OSError, match="no such call") as caught:
        getattr(os, name)(0, b"")
    assert caught.value.errno == errno.ENOSYS
    assert getattr(os, name) is real
