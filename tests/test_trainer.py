"""The ways out of the reference trainers' fit()."""

import asyncio
import json
import os
import threading
import types

import pytest

from verl_dump import AsyncReferenceTrainer, Batch, DumpError, ReferenceTrainer, TrainerConfig

LONG = 60.0


def batch(mark, n=2):
    return Batch(
        inputs=[f"{mark}-{row}" for row in range(n)],
        outputs=["o"] * n,
        gts=["g"] * n,
        scores=[1.0] * n,
        reward_extra_infos_dict={"mark": [mark] * n},
        request_ids=[f"{mark}-id{row}" for row in range(n)],
    )


class Recorder:
    """Notes the hooks in order, and raises where a test asks for it."""

    def note(self, hook):
        self.__dict__.setdefault("hooks", []).append(f"{hook}{self.global_steps}")
        error = self.__dict__.get("raising", {}).get((hook, self.global_steps))
        if error is not None:
            raise error

    def step(self, metrics, timing_raw):
        self.note("step")
        return super().step(metrics, timing_raw)

    def _validate(self):
        self.note("validate")
        return super()._validate()

    def _log_rollout_data(self, batch, timing_raw, rollout_data_dir):
        super()._log_rollout_data(batch, timing_raw, rollout_data_dir)
        self.note("log")

    def _save_checkpoint(self):
        self.note("save")
        return super()._save_checkpoint()

    def on_train_begin(self):
        self.note("begin")
        return super().on_train_begin()

    def on_train_end(self):
        self.note("end")
        return super().on_train_end()


class Plain(Recorder, ReferenceTrainer):
    def run(self):
        self.fit()


class Coroutine(Recorder, AsyncReferenceTrainer):
    """Every hook is a coroutine function here."""

    async def step(self, metrics, timing_raw):
        await asyncio.sleep(0)
        return super().step(metrics, timing_raw)

    async def _validate(self):
        await asyncio.sleep(0)
        return super()._validate()

    async def _log_rollout_data(self, batch, timing_raw, rollout_data_dir):
        await asyncio.sleep(0)
        super()._log_rollout_data(batch, timing_raw, rollout_data_dir)

    async def on_train_end(self):
        await asyncio.sleep(0)
        super().on_train_end()

    def run(self):
        asyncio.run(self.fit())


@pytest.fixture(params=[Plain, Coroutine], ids=["plain", "coroutine"])
def kind(request):
    return request.param


@pytest.fixture
def place(tmp_path):
    (tmp_path / "file").write_text("mine")
    return types.SimpleNamespace(
        rollout=str(tmp_path / "rollout"),
        validation=str(tmp_path / "validation"),
        blocked=str(tmp_path / "file"),
    )


def trainer_of(kind, place, batches=3, **config):
    defaults = {
        "rollout_data_dir": place.rollout,
        "validation_data_dir": place.validation,
        "val_before_train": False,
    }
    return kind(
        TrainerConfig(**{**defaults, **config}),
        [batch(f"train{number}") for number in range(1, batches + 1)],
        [batch("val1"), batch("val2")],
    )


def rows(directory, step):
    with open(os.path.join(directory, f"{step}.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def files(directory):
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def check_drained(trainer):
    assert trainer._dump_executor.pending == ()
    assert [thread for thread in threading.enumerate() if thread.name == "verl-dump-writer"] == []


def test_defaults(kind):
    """A trainer of which nothing is asked validates, trains one epoch to its end, and dumps nothing."""
    trainer = kind(TrainerConfig(), [batch("train")], [batch("val")])
    trainer.run()
    assert trainer.hooks == ["validate0", "begin0", "step1", "end1"]
    check_drained(trainer)


def test_val_only(kind, place):
    """With val_only, fit() validates and returns with the validation dump on disk."""
    trainer = trainer_of(kind, place, val_before_train=True, val_only=True)
    trainer.run()
    assert trainer.hooks == ["validate0"]
    assert [row["mark"] for row in rows(place.validation, 0)] == ["val1", "val1", "val2", "val2"]
    assert files(place.rollout) == []
    check_drained(trainer)


@pytest.mark.parametrize("dumps", [True, False], ids=["dumped", "not-dumped"])
def test_validation_counts_its_rows(place, dumps):
    """The metrics of a validation tell how many rows it had, whether or not they are dumped."""
    trainer = trainer_of(ReferenceTrainer, place, **({} if dumps else {"validation_data_dir": None}))
    assert trainer._validate() == {"val/rows": 4}
    trainer._shutdown_dump_executor()
    assert files(place.validation) == (["0.jsonl"] if dumps else [])


def test_times_of_a_step(kind, place):
    """What a step notes of its times is what is at hand where its generations are dumped, and each step begins anew."""
    seen = []

    class Timed(kind):
        def step(self, metrics, timing_raw):
            timing_raw[f"gen{self.global_steps}"] = 0.5
            metrics["loss"] = 1.0
            return super().step(metrics, timing_raw)

        def _log_rollout_data(self, batch, timing_raw, rollout_data_dir):
            seen.append(timing_raw)
            return super()._log_rollout_data(batch, timing_raw, rollout_data_dir)

    trainer_of(Timed, place, batches=2).run()
    assert seen == [{"gen1": 0.5}, {"gen2": 0.5}]


def test_last_step(kind, place):
    """At the last step fit() saves, validates, dumps and returns, in that order, all dumps being on disk."""
    trainer = trainer_of(
        kind,
        place,
        batches=5,
        val_before_train=True,
        total_training_steps=3,
        total_epochs=9,
        test_freq=2,
        save_freq=2,
    )
    trainer.run()
    assert trainer.hooks == [
        *["validate0", "begin0"],
        *["step1", "log1"],
        *["step2", "save2", "validate2", "log2"],
        *["step3", "save3", "validate3", "log3"],
    ]
    assert files(place.rollout) == ["1.jsonl", "2.jsonl", "3.jsonl"]
    assert files(place.validation) == ["0.jsonl", "2.jsonl", "3.jsonl"]
    check_drained(trainer)


def test_data_loader_exhausted(kind, place):
    """When the data loader of the last epoch ends, training ends with all dumps on disk."""
    trainer = trainer_of(kind, place, batches=2, total_epochs=2)
    trainer.run()
    assert trainer.hooks == [
        "begin0",
        "step1",
        "log1",
        "step2",
        "log2",
        "step3",
        "log3",
        "step4",
        "log4",
        "end4",
    ]
    assert [rows(place.rollout, step)[0]["mark"] for step in (1, 2, 3, 4)] == ["train1", "train2"] * 2
    check_drained(trainer)


@pytest.mark.parametrize(
    "config",
    [{"total_epochs": 0}, {"total_training_steps": 0}, {"batches": 0}],
    ids=["no-epochs", "no-steps", "no-data"],
)
def test_zero_steps(kind, place, config):
    """A fit() without steps ends like any other, its validation dump on disk."""
    trainer = trainer_of(kind, place, val_before_train=True, **config)
    trainer.run()
    assert trainer.hooks == ["validate0", "begin0", "end0"]
    assert trainer.train_item is None
    assert files(place.validation) == ["0.jsonl"]
    check_drained(trainer)


def test_nothing_to_dump(kind, place):
    """Without directories nothing is dumped."""
    trainer = trainer_of(kind, place, rollout_data_dir=None, validation_data_dir=None, test_freq=1)
    trainer.run()
    assert files(place.rollout) == files(place.validation) == []


def test_second_fit(kind, place):
    """A second fit() starts clean, goes on with the steps, and loses nothing of the first."""
    trainer = trainer_of(
        kind, place, batches=2, total_training_steps=5, total_epochs=1, val_before_train=True
    )
    trainer.run()
    trainer.run()
    assert files(place.rollout) == ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl"]
    assert files(place.validation) == ["0.jsonl", "2.jsonl"]
    check_drained(trainer)


def test_second_fit_at_the_end(kind, place):
    """A second fit() after the last step trains no more and ends well."""
    trainer = trainer_of(kind, place, total_training_steps=2)
    trainer.run()
    trainer.run()
    assert trainer.hooks[-2:] == ["begin2", "end2"]
    assert files(place.rollout) == ["1.jsonl", "2.jsonl"]


def test_same_directory_for_both(kind, place):
    """With one directory for rollouts and validation the file of a step holds both."""
    trainer = trainer_of(kind, place, validation_data_dir=place.rollout, test_freq=1, batches=1)
    trainer.run()
    assert [row["mark"] for row in rows(place.rollout, 1)] == [
        "val1",
        "val1",
        "val2",
        "val2",
        "train1",
        "train1",
    ]


@pytest.mark.parametrize(
    ("hook", "dumped"),
    [("begin", []), ("step", [1]), ("save", [1]), ("validate", [1]), ("log", [1, 2]), ("end", [1, 2, 3])],
)
@pytest.mark.parametrize(
    "error", [ValueError, KeyboardInterrupt, SystemExit, StopIteration, asyncio.CancelledError]
)
def test_exception_in_a_hook(place, hook, dumped, error):
    """An exception leaves fit() as it is when every dump handed over before it is on disk."""
    trainer = trainer_of(Plain, place, save_freq=1, test_freq=1)
    step = {"begin": 0, "end": 3}.get(hook, 2)
    raised = error("boom")
    trainer.raising = {(hook, step): raised}
    with pytest.raises(error) as caught:
        trainer.run()
    assert caught.value is raised
    assert not hasattr(raised, "__notes__")
    assert files(place.rollout) == [f"{number}.jsonl" for number in dumped]
    check_drained(trainer)


@pytest.mark.parametrize("hook", ["begin", "step", "save", "validate", "log"])
def test_exception_in_a_coroutine(place, hook):
    """An exception leaves the coroutine fit() as it is when every dump handed over before it is on disk."""
    trainer = trainer_of(Coroutine, place, save_freq=1, test_freq=1)
    raised = ValueError("boom")
    trainer.raising = {(hook, 0 if hook == "begin" else 2): raised}
    with pytest.raises(ValueError, match="boom") as caught:
        trainer.run()
    assert caught.value is raised
    assert files(place.rollout) == {"begin": [], "log": ["1.jsonl", "2.jsonl"]}.get(hook, ["1.jsonl"])
    check_drained(trainer)


def test_exception_with_failed_dump(kind, place):
    """A training error stays primary, the failed dump being attached to it."""
    trainer = trainer_of(kind, place, rollout_data_dir=place.blocked)
    trainer.raising = {("log", 1): ZeroDivisionError()}
    with pytest.raises(ZeroDivisionError) as caught:
        trainer.run()
    assert caught.value.__cause__ is None
    assert f"dump of step 1 to {place.blocked}" in caught.value.__notes__[0]
    assert isinstance(caught.value.__context__, DumpError)
    check_drained(trainer)


@pytest.mark.parametrize("way_out", ["val-only", "last-step", "exhausted"])
def test_failed_dump(kind, place, way_out):
    """A dump that failed is raised by fit() on each normal way out."""
    config = {
        "val-only": {"val_before_train": True, "val_only": True, "validation_data_dir": place.blocked},
        "last-step": {"total_training_steps": 1, "rollout_data_dir": place.blocked},
        "exhausted": {"batches": 1, "rollout_data_dir": place.blocked},
    }[way_out]
    trainer = trainer_of(kind, place, **config)
    if way_out == "val-only":
        trainer.val_dataloader = [batch("val")]
    with pytest.raises(DumpError, match=f"to {place.blocked}"):
        trainer.run()
    check_drained(trainer)
    trainer._shutdown_dump_executor()


def test_request_id(kind, place):
    """The dump has the batch's columns and the request ids as one more, and the batch's own extras are as they were."""
    trainer = trainer_of(kind, place, batches=1)
    (given,) = trainer.train_dataloader
    trainer.run()
    given_row = {"input": "train1-1", "output": "o", "gts": "g", "score": 1.0, "step": 1, "mark": "train1"}
    assert rows(place.rollout, 1)[1] == {**given_row, "request_id": "train1-id1"}
    assert given.reward_extra_infos_dict == {"mark": ["train1", "train1"]}


def test_without_request_ids(kind, place):
    """A batch without request ids is dumped without that column, and one of the reward function's own stays."""
    trainer = trainer_of(kind, place)
    trainer.train_dataloader = [
        Batch(["i"], ["o"], None, [1.0]),
        Batch(["i"], ["o"], None, [1.0], {"request_id": ["mine"]}, ["other"]),
    ]
    trainer.run()
    assert "request_id" not in rows(place.rollout, 1)[0]
    assert rows(place.rollout, 2)[0]["request_id"] == "mine"


def test_without_init(kind, place):
    """An instance whose `__init__` never ran needs only config, global_steps and train_dataloader."""
    trainer = object.__new__(kind)
    trainer.config = TrainerConfig(rollout_data_dir=place.rollout, validation_data_dir=place.validation)
    trainer.global_steps = 10
    trainer.train_dataloader = iter([batch("a")])
    trainer.run()
    assert files(place.rollout) == ["11.jsonl"]


class Stuck:
    """Holds each sync of a file until the test lets go."""

    def __init__(self, monkeypatch):
        self.entered, self.gate = threading.Event(), threading.Event()
        real = os.fsync

        def wait(descriptor):
            self.entered.set()
            assert self.gate.wait(LONG)
            return real(descriptor)

        monkeypatch.setattr(os, "fsync", wait)


async def cancelled(trainer, when):
    """Run fit() and cancel it when `when` says so; return what the awaiting caller got."""
    task = asyncio.create_task(trainer.fit())
    while not when():  # noqa: ASYNC110  what is waited for has no event of the loop
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    return caught.value


def test_cancellation_while_training(place):
    """A cancelled fit() ends as cancelled when its dumps are on disk."""
    trainer = trainer_of(Coroutine, place)
    asyncio.run(cancelled(trainer, lambda: "log1" in trainer.__dict__.get("hooks", ())))
    assert files(place.rollout)[0] == "1.jsonl"
    assert len(files(place.rollout)) < 3
    check_drained(trainer)


def test_cancellation_with_a_stuck_write(place, monkeypatch):
    """A fit() that waits for a stuck write can be cancelled, lets the loop run, and names the step."""
    stuck = Stuck(monkeypatch)
    trainer = trainer_of(Coroutine, place, batches=1)
    trainer.dump_exit_timeout = 0.01
    try:
        error = asyncio.run(
            cancelled(trainer, lambda: stuck.entered.is_set() and "end1" in trainer.__dict__["hooks"])
        )
    finally:
        stuck.gate.set()
        trainer._shutdown_dump_executor()
    # Before Python 3.11 the caller gets a new CancelledError, whose context is the one from inside.
    notes = [*getattr(error, "__notes__", ()), *getattr(error.__context__, "__notes__", ())]
    assert "not on disk after 0.01 s: step 1" in notes[0]
    assert files(place.rollout) == ["1.jsonl"]


def test_a_coroutine_fit_ends_soon_after_its_dumps(place, monkeypatch):
    """While a write is stuck fit() lets the loop go on, and looks again within a tenth of a second."""
    stuck, sleep, waits = Stuck(monkeypatch), asyncio.sleep, []

    async def noted(seconds):
        if seconds:
            waits.append(seconds)
            stuck.gate.set()
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    trainer_of(Coroutine, place, batches=1).run()
    assert files(place.rollout) == ["1.jsonl"]
    assert 0 < max(waits) < 0.1


def test_fit_in_a_thread(kind, place):
    """A fit() works in any thread."""
    trainer = trainer_of(kind, place)
    thread = threading.Thread(target=trainer.run)
    thread.start()
    thread.join(LONG)
    assert files(place.rollout) == ["1.jsonl", "2.jsonl", "3.jsonl"]
