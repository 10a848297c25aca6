"""The adapters of verl's trainers: what is under test really runs, and what is unknown is refused."""

import asyncio
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, strategies

from fault_injection.batches import make_batch
from fault_injection.targets.base import Batch
from fault_injection.targets.errors import TargetError
from fault_injection.targets.verl import ADAPTERS, VerlTarget, adapters, real
from fault_injection.targets.verl.doubles import Tokenizer

if importlib.util.find_spec("verl") is None:
    pytest.skip("verl is not installed here; tox -e verl runs these tests", allow_module_level=True)

ALL = tuple(ADAPTERS)
V1 = ("PPOTrainerSync", "PPOTrainerColocateAsync", "PPOTrainerSeparateAsync")
DRAIN = (*V1, "RayPPOTrainer")
"""The trainers whose fit() drains when it returns."""
START = 40
"""Steps that were done before."""


class Wanted:
    """A course without a trial: what is to be trained, and a list of what happened."""

    def __init__(self, root: str, steps: int | None = 2, items: int = 4, **wanted: object) -> None:
        self.start, self.steps, self.items = START, steps, items
        self.val_before_train = self.val_only = False
        self.test_freq = self.save_freq = 0
        self.rollout_dir = os.path.join(root, "rollout")
        self.validation_dir: str | None = os.path.join(root, "validation")
        self.leaves: Callable[[str], None] = lambda phase: None
        self.seen: list[str] = []
        vars(self).update(wanted)

    def rollout(self, step: int) -> Batch:
        return make_batch(1, step, step, rows=2)

    def validation(self) -> tuple[Batch, ...]:
        return (make_batch(1, 1000, self.start, rows=3),)

    def reach(self, phase: str) -> None:
        self.seen.append(phase)
        self.leaves(phase)

    def record(self, trainer: object) -> None:
        original = trainer._dump_generations  # type: ignore[attr-defined]

        def dump(*args: object, **kwargs: object) -> None:
            self.seen.append("dump")
            original(*args, **kwargs)

        trainer._dump_generations = dump  # type: ignore[attr-defined]


def run(target: VerlTarget) -> None:
    complete(target.fit())


def complete(result: object) -> None:
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Torch makes a folder for its compiler when verl is imported, which no test is to answer for."""
    for adapter in ADAPTERS.values():
        adapter.load()


@pytest.fixture(params=ALL)
def target(request: pytest.FixtureRequest) -> Iterator[VerlTarget]:
    yield from driven(request.param)


def driven(name: str) -> Iterator[VerlTarget]:
    target = ADAPTERS[name]()
    yield target
    # Most of them leave their thread behind, and the second drain raises what the first has raised.
    executor = getattr(target.instance, "_dump_executor", None)
    if executor is not None:
        executor.shutdown(wait=True)


def rows(directory: str | None) -> dict[str, list[dict[str, object]]]:
    if directory is None or not os.path.isdir(directory):
        return {}
    found = {}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            found[name] = sorted((json.loads(line) for line in file), key=lambda row: str(row["input"]))
    return found


def expected(batch: Batch) -> list[dict[str, object]]:
    table = [
        {"input": i, "output": o, "gts": g, "score": s}
        for i, o, g, s in zip(batch.inputs, batch.outputs, batch.gts, batch.scores, strict=True)
    ]
    return sorted(table, key=lambda row: str(row["input"]))


def base_columns(table: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: row[name] for name in ("input", "output", "gts", "score")} for row in table]


def code_of(cls: type, name: str) -> types.CodeType:
    method = inspect.getattr_static(cls, name)
    function = method.__func__ if isinstance(method, staticmethod) else method
    return inspect.unwrap(function).__code__


def codes_run(call: Callable[[], object]) -> set[types.CodeType]:
    """The code that runs in this thread and in those that are started meanwhile."""
    seen: set[types.CodeType] = set()

    def look(frame: types.FrameType, event: str, _argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return seen


def test_nothing_of_verl_is_imported_with_the_registry() -> None:
    """The names of the adapters are there without an import of verl, torch or ray."""
    program = (
        "import sys, fault_injection.targets.verl as v; assert len(v.ADAPTERS) == 8; "
        "sys.exit(sorted({'verl', 'torch', 'ray', 'hydra', 'numpy'} & set(sys.modules)) or 0)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_trainer_is_refused_in_one_line() -> None:
    """A name that no trainer has is refused with the names that there are."""
    with pytest.raises(
        TargetError, match="verl has no trainer 'PPOTrainer'; the trainers are PPOTrainerSync, "
    ) as caught:
        adapters("PPOTrainer")
    assert "\n" not in str(caught.value)


def test_an_unknown_version_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another verl than the known one is refused, naming both."""
    monkeypatch.setattr(real, "installed_version", lambda: "0.3.0")
    for call in (adapters, ADAPTERS["PPOTrainerSync"]):
        with pytest.raises(
            TargetError, match=r"verl 0\.3\.0 is installed, and the adapters know 0\.9\.1"
        ) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ALL)
def test_a_method_that_is_not_there_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that lacks what an adapter replaces is refused with class, version and method."""
    missing = ADAPTERS[name].stubbed[0]
    for base in ADAPTERS[name]().cls.__mro__:
        if missing in vars(base):
            monkeypatch.delattr(base, missing)
    with pytest.raises(
        TargetError, match=rf"{name} of verl 0\.9\.1 has no method {missing}: a shape"
    ) as caught:
        ADAPTERS[name]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ALL)
def test_other_arguments_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump method with other arguments is refused with both lists of them."""
    monkeypatch.setattr(ADAPTERS[name]().cls, "_dump_generations", lambda self, rows: None)
    with pytest.raises(TargetError, match=rf"{name} of verl 0\.9\.1 has _dump_generations\(rows\), not "):
        ADAPTERS[name]()


def test_the_object_is_of_the_real_class(target: VerlTarget) -> None:
    """What runs is an object of verl's own class, with verl's own fit()."""
    module, _, name = target.where.partition(":")
    cls = type(target.instance)
    assert cls.__name__ == name
    assert cls.__module__.startswith(module)
    package = os.path.dirname(importlib.util.find_spec("verl").origin)
    assert code_of(cls, "fit").co_filename.startswith(package)
    assert code_of(cls, "fit").co_name == "fit"


def test_nothing_but_the_stubs_is_replaced(target: VerlTarget, tmp_path) -> None:
    """On a prepared trainer only the methods named in `stubbed` and the two that are looked at shadow the class's."""
    target.prepare(Wanted(str(tmp_path)))
    shadowed = {
        name for name in vars(target.instance) if callable(getattr(type(target.instance), name, None))
    }
    assert shadowed == {*target.stubbed, "_log_rollout_data", "_dump_generations"}
    assert not shadowed & {*target.real} - {"_log_rollout_data"}


def test_the_code_under_test_runs(target: VerlTarget, tmp_path) -> None:
    """A fit() with everything switched on runs verl's fit, logging, validation, dump, write and drain."""
    target.prepare(Wanted(str(tmp_path), val_before_train=True, test_freq=1, save_freq=1))
    seen = codes_run(lambda: run(target))
    name = type(target.instance).__name__
    wanted = {"fit", "_dump_generations"}
    wanted |= {"_validate"} if name != "FullyAsyncTrainer" else {"_fit_validate", "fit_step"}
    wanted |= {"_log_rollout_data"} if name != "FullyAsyncRollouter" else {"do_validate", "_processor_worker"}
    wanted |= {"_shutdown_dump_executor"} if name in DRAIN else set()
    missing = {each for each in wanted if code_of(type(target.instance), each) not in seen}
    assert not missing
    written = codes_run(target.drain) | seen
    assert target.instance._dump_executor._shutdown
    assert code_of(type(target.instance), "_write_generations") in written


def test_the_files_hold_what_the_course_says(target: VerlTarget, tmp_path) -> None:
    """Each dump's file holds the texts, truths and scores of the course's batch, to the letter."""
    course = Wanted(str(tmp_path), val_before_train=True)
    target.prepare(course)
    run(target)
    target.drain()
    if type(target.instance).__name__ == "FullyAsyncTrainer":
        assert rows(course.validation_dir) == {}
    else:
        first = next(iter(rows(course.validation_dir).values()))
        assert base_columns(first) == expected(course.validation()[0])
    if type(target.instance).__name__ == "FullyAsyncRollouter":
        assert list(rows(course.validation_dir)) == ["41.jsonl", "42.jsonl", "43.jsonl"]
        return
    trained = rows(course.rollout_dir)
    assert list(trained) == ["41.jsonl", "42.jsonl"]
    for step in (41, 42):
        assert base_columns(trained[f"{step}.jsonl"]) == expected(course.rollout(step))


def test_columns_of_the_reward_function_are_as_verl_dumps_them(target: VerlTarget, tmp_path) -> None:
    """The extras come through where verl dumps them, and not where it does not: v1 has none in training."""
    course = Wanted(str(tmp_path))
    target.prepare(course)
    run(target)
    target.drain()
    table = next(iter(rows(course.rollout_dir).values()), [{}])
    name = type(target.instance).__name__
    if name == "FullyAsyncRollouter":
        return
    assert ("acc" in table[0]) == (name not in V1)
    if name not in V1:
        batch = course.rollout(41)
        by_input = dict(
            zip(batch.inputs, zip(batch.extras["acc"], batch.extras["info"], strict=True), strict=True)
        )
        assert {row["input"]: (row["acc"], row["info"]) for row in table} == by_input


@pytest.mark.parametrize("name", ALL)
def test_a_defect_in_the_real_write_appears(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that the real writing method loses is lost on disk."""
    left = 2 if name == "FullyAsyncRollouter" else 1
    for target in driven(name):
        course = Wanted(str(tmp_path), steps=1)
        original = target.cls._write_generations

        def lossy(inputs, outputs, gts, scores, extras, path, step, original=original) -> None:
            original(inputs[:-1], outputs, gts, scores, {}, path, step)

        monkeypatch.setattr(target.cls, "_write_generations", staticmethod(lossy))
        target.prepare(course)
        run(target)
        target.drain()
        tables = {**rows(course.rollout_dir), **rows(course.validation_dir)}
        assert [len(table) for table in tables.values()] == [left]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "method", ["_dump_generations", "_log_rollout_data", "_validate", "_shutdown_dump_executor"]
)
def test_a_defect_in_a_real_method_appears(
    name: str, method: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a real method raises ends the real fit(), wherever the trainer calls that method."""
    calls = {"FullyAsyncTrainer": {"_dump_generations", "_log_rollout_data"}}
    calls["FullyAsyncRollouter"] = {"_dump_generations", "_validate"}
    called = calls.get(name, {"_dump_generations", "_log_rollout_data", "_validate"})
    called |= {"_shutdown_dump_executor"} if name in DRAIN else set()
    for target in driven(name):

        def broken(self, *args: object, **kwargs: object) -> None:
            raise ArithmeticError(method)

        target.prepare(Wanted(str(tmp_path)))
        for base in type(target.instance).__mro__:
            if method in vars(base):
                monkeypatch.setattr(base, method, broken)
        # The wrappers of a prepared trainer hold the methods that were there before.
        target.prepare(Wanted(str(tmp_path), test_freq=1))
        if method in called:
            with pytest.raises(ArithmeticError, match=method):
                run(target)
        else:
            run(target)


PHASES = {"step": {}, "logging": {}, "validation": {"test_freq": 1}, "checkpoint": {"save_freq": 1}}


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_is_reached_after_a_dump(target: VerlTarget, phase: str, tmp_path) -> None:
    """In each phase that a trainer has, an exception comes to pass after the first dump and ends its fit()."""

    def leave(reached: str) -> None:
        if reached == phase and "dump" in course.seen:
            raise LookupError(phase)

    course = Wanted(str(tmp_path), steps=3, items=5, leaves=leave, **PHASES[phase])
    target.prepare(course)
    if f"{phase}-raises" in target.absent:
        run(target)
        assert phase not in course.seen
        return
    swallows = type(target.instance).__name__ == "FullyAsyncRollouter"
    if swallows:
        # Its fit() gathers what its tasks raise, and looks at none of it.
        run(target)
    else:
        with pytest.raises(LookupError, match=phase):
            run(target)
    assert course.seen[-1] == phase
    # v1 validates before it dumps, so that nothing of this step is on its way by then.
    assert course.seen.count("dump") in {1, 2}


def test_a_cancellation_comes_through(target: VerlTarget, tmp_path) -> None:
    """Where fit() is a coroutine function, a cancellation in a step ends it."""
    if not target.coroutine:
        assert not inspect.iscoroutinefunction(type(target.instance).fit)
        return

    def leave(reached: str) -> None:
        if reached == "step" and "dump" in course.seen:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    course = Wanted(str(tmp_path), steps=3, items=5, leaves=leave)
    target.prepare(course)
    assert inspect.iscoroutinefunction(type(target.instance).fit)
    with pytest.raises(asyncio.CancelledError):
        run(target)
    assert course.seen.count("dump") == 1


def test_the_data_can_end_before_the_last_step(target: VerlTarget, tmp_path) -> None:
    """With fewer items than steps the data ends the training, after a dump for each item."""
    course = Wanted(str(tmp_path), steps=None, items=2)
    target.prepare(course)
    if "exhausted" in target.absent:
        with pytest.raises(TypeError):
            run(target)
    else:
        run(target)
    assert course.seen.count("dump") == 2


def test_a_course_without_steps_only_validates(target: VerlTarget, tmp_path) -> None:
    """After a checkpoint of the last step, fit() makes no step, but the validation that it was asked for."""
    course = Wanted(str(tmp_path), steps=None, items=0, val_before_train=True)
    target.prepare(course)
    name = type(target.instance).__name__
    if name == "OneStepOffRayTrainer":
        with pytest.raises(TypeError):
            run(target)
    else:
        run(target)
    assert ("zero-steps" in target.absent) == (name in {"OneStepOffRayTrainer", "FullyAsyncTrainer"})
    assert course.seen.count("dump") == (0 if name == "FullyAsyncTrainer" else 1)
    assert "step" not in course.seen


def test_val_only_returns_after_its_validation(target: VerlTarget, tmp_path) -> None:
    """A fit() that is to validate only makes one dump and no step."""
    course = Wanted(str(tmp_path), val_before_train=True, val_only=True)
    target.prepare(course)
    run(target)
    if "val-only" in target.absent:
        assert "step" in course.seen
    else:
        assert course.seen in (["validation", "dump"], ["dump"])


def test_a_second_fit_goes_on(target: VerlTarget, tmp_path) -> None:
    """A second fit() makes the steps after those of the first, or fails of the executor that verl's first shut."""
    course = Wanted(str(tmp_path), steps=2, items=5)
    target.prepare(course)
    run(target)
    course.steps = 4
    target.resume(course)
    if type(target.instance).__name__ in V1:
        with pytest.raises(RuntimeError, match="after shutdown"):
            run(target)
        return
    run(target)
    target.drain()
    first = 42 if type(target.instance).__name__ == "FullyAsyncRollouter" else 41
    directory = course.validation_dir if first == 42 else course.rollout_dir
    assert list(rows(directory)) == [f"{step}.jsonl" for step in range(first, first + 4)]


def test_a_validation_outside_of_fit_dumps(target: VerlTarget, tmp_path) -> None:
    """One validation without a fit() hands over one dump."""
    course = Wanted(str(tmp_path))
    target.prepare(course)
    if "undrained" in target.absent:
        assert type(target.instance).__name__ == "FullyAsyncTrainer"
        return
    complete(target.validate())
    target.drain()
    assert course.seen.count("dump") == 1
    assert [base_columns(table) for table in rows(course.validation_dir).values()] == [
        expected(course.validation()[0])
    ]


def test_the_surface_is_driven_without_a_course(target: VerlTarget, tmp_path) -> None:
    """Opened without a course, the object writes one batch as any class with verl's dump surface."""
    batch = make_batch(1, 1, 5, rows=2)
    target.open()
    target.dump(str(tmp_path), batch)
    target.drain()
    assert [base_columns(table) for table in rows(str(tmp_path)).values()] == [expected(batch)]
    assert type(target.instance) is target.cls


def test_one_step_off_makes_no_executor_by_itself(tmp_path) -> None:
    """The executor of OneStepOffRayTrainer is the adapter's: verl's own `__init__` leaves it without one."""
    for target in driven("OneStepOffRayTrainer"):
        made: list[bool] = []

        def watch(self: object, made: list[bool] = made) -> None:
            made.append(True)
            raise KeyError("made")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target.cls, "_init_dump_executor", watch)
            with pytest.raises(KeyError, match="made"):
                target.prepare(Wanted(str(tmp_path)))
        assert not hasattr(target.instance, "_dump_executor")
        assert target.instance.tokenizer is target.tokenizer


@given(strategies.lists(strategies.text()))
def test_the_tokenizer_gives_back_what_it_got(texts: list[str]) -> None:
    """A text is decoded to itself, with and without padding around it."""
    tokenizer = Tokenizer()
    ids = [tokenizer.encode(text) for text in texts]
    assert tokenizer.batch_decode(ids) == texts
    assert [tokenizer.decode([0, 0, *row, 0], skip_special_tokens=True) for row in ids] == texts
    assert all(Tokenizer.pad_token_id not in row for row in ids)
