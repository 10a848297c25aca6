"""Scenarios of `fit()`: training fails while dumps are pending."""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import Any

from fault_injection.batches import make_batch
from fault_injection.plan import Plan
from fault_injection.scenario import Menu, Scenario, every_errno
from fault_injection.scenarios.writing import FIRST
from fault_injection.targets.base import Batch, SurfaceTarget
from fault_injection.trial import Trial


class TrainingError(Exception):
    """What training fails of in these scenarios; nothing else raises it."""


def failing_training(trial: Trial, seed: int) -> None:
    """The third step raises while the dumps of the first two still wait for the disk."""
    from verl_dump.trainer import TrainerConfig

    if not isinstance(trial.target, SurfaceTarget):
        return
    trainer = trial.target.instance
    batches = {FIRST + number: make_batch(seed, number, FIRST + number) for number in range(3)}
    trial.open()
    _record_dumps(trial, trainer, batches)
    trainer.config = TrainerConfig(val_before_train=False, rollout_data_dir=os.path.join(trial.root, "dump"))
    trainer.train_dataloader = [_as_trained(batch) for batch in batches.values()]
    trainer.global_steps = FIRST - 1

    def step(*_: Any) -> Any:
        if trainer.global_steps == FIRST + 2:
            # From here on the disk goes on: what it fails of is found on the way out.
            trial.release()
            trial.mark("training error", TrainingError.__name__)
            raise TrainingError("the loss is not finite")
        return trainer.train_item

    trainer.step = step
    with trial.held():
        trial.run("fit", lambda: _fit(trainer))


def _fit(trainer: Any) -> None:
    result = trainer.fit()
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _as_trained(batch: Batch) -> Any:
    from verl_dump.trainer import Batch as Trained

    return Trained(batch.inputs, batch.outputs, batch.gts, batch.scores, batch.extras)


def _record_dumps(trial: Trial, trainer: Any, batches: dict[int, Batch]) -> None:
    """Let every dump that `fit()` makes go through the trial, and what it raises go on to `fit()`."""
    original = trainer._dump_generations

    def dump(**columns: Any) -> None:
        trial.dump_within(batches[trainer.global_steps], lambda: original(**columns))

    trainer._dump_generations = dump


SCENARIOS = (
    Scenario(
        "failing-training",
        frozenset({"D2", "D3", "D4", "E6"}),
        failing_training,
        Menu((Plan(),), every_errno(names=("ENOSPC", "EIO", "EACCES"))),
        needs=frozenset({"fit"}),
    ),
)
