"""Reference trainers: the ways out of verl's `fit()`, each of which drains."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from verl_dump.mixin import DumpMixin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class TrainerConfig:
    """What decides which way `fit()` ends and where it dumps.

    Attributes:
        total_epochs: passes over the data loader.
        total_training_steps: the last step; None trains until the epochs are exhausted.
        val_before_train: validate before the first step.
        val_only: return after that validation.
        test_freq: validate every so many steps and at the last; 0 never.
        save_freq: save a checkpoint every so many steps and at the last; 0 never.
        rollout_data_dir: where each step's generations are dumped; None dumps none.
        validation_data_dir: where validation generations are dumped; None dumps none.
    """

    total_epochs: int = 1
    total_training_steps: int | None = None
    val_before_train: bool = True
    val_only: bool = False
    test_freq: int = 0
    save_freq: int = 0
    rollout_data_dir: str | None = None
    validation_data_dir: str | None = None


@dataclass(frozen=True)
class Batch:
    """The generations of one step: columns of n values each."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    gts: Sequence[Any] | None
    scores: Sequence[Any]
    reward_extra_infos_dict: Mapping[str, Any] = field(default_factory=dict)
    request_ids: Sequence[str] | None = None


class _Hooks(DumpMixin):
    """The hooks of a reference trainer, by verl's names; what `fit()` does between them is not theirs.

    Args:
        config: see `TrainerConfig`.
        train_dataloader: what one epoch iterates over; the default `step` takes its items as they are.
        val_dataloader: the batches of one validation.
    """

    config: TrainerConfig
    train_dataloader: Iterable[Any]
    val_dataloader: Iterable[Batch] = ()
    train_item: Any = None

    def __init__(
        self,
        config: TrainerConfig,
        train_dataloader: Iterable[Any],
        val_dataloader: Iterable[Batch] = (),
    ) -> None:
        self.config = config
        self.train_dataloader = train_dataloader
        self.val_dataloader = val_dataloader
        self.global_steps = 0

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> Any:  # noqa: ARG002
        """Train on `train_item`, the item of the data loader that is due, and return its `Batch`."""
        return self.train_item

    def _validate(self) -> Any:
        """Generate for the validation set, dump it when asked to, and return metrics."""
        rows = 0
        for batch in self.val_dataloader:
            rows += len(batch.inputs)
            if self.config.validation_data_dir:
                self._dump_batch(batch, self.config.validation_data_dir)
        return {"val/rows": rows}

    def _log_rollout_data(self, batch: Batch, timing_raw: dict[str, float], rollout_data_dir: str) -> Any:  # noqa: ARG002
        """Dump one step's generations, with `request_id` as one more column."""
        self._dump_batch(batch, rollout_data_dir)

    def _save_checkpoint(self) -> Any:
        """Save a checkpoint."""

    def on_train_begin(self) -> Any:
        """Run before the first step."""

    def on_train_end(self) -> Any:
        """Run after the last epoch; not when the last step ends the training, as in verl."""

    def _dump_batch(self, batch: Batch, directory: str) -> None:
        extras = dict(batch.reward_extra_infos_dict)
        if batch.request_ids is not None:
            extras.setdefault("request_id", batch.request_ids)
        self._dump_generations(
            inputs=batch.inputs,
            outputs=batch.outputs,
            gts=batch.gts,
            scores=batch.scores,
            reward_extra_infos_dict=extras,
            dump_path=directory,
        )

    def _is_finished(self) -> bool:
        total = self.config.total_training_steps
        return total is not None and self.global_steps >= total

    def _is_due(self, frequency: int) -> bool:
        return frequency > 0 and (self._is_finished() or self.global_steps % frequency == 0)


class ReferenceTrainer(_Hooks):
    """A trainer whose `fit()` ends in all the ways of verl's and loses no dump in any of them."""

    def fit(self) -> None:
        """Validate, train, dump; drain on every way out.

        Raises:
            BaseException: what a hook raised, with the failures of dumps attached to it.
            DumpError, DumpErrorGroup: dumps failed, and nothing else did.
        """
        with self._dump_session():
            if self.config.val_before_train:
                self._validate()
                if self.config.val_only:
                    return
            self.on_train_begin()
            for _ in range(self.config.total_epochs):
                for item in self.train_dataloader:
                    if self._is_finished():
                        break
                    self.train_item = item
                    self.global_steps += 1
                    self._train_step()
                    if self._is_finished():
                        return
            self.on_train_end()

    def _train_step(self) -> None:
        timing: dict[str, float] = {}
        batch = self.step({}, timing)
        if self._is_due(self.config.save_freq):
            self._save_checkpoint()
        if self._is_due(self.config.test_freq):
            self._validate()
        if self.config.rollout_data_dir:
            self._log_rollout_data(batch, timing, self.config.rollout_data_dir)


class AsyncReferenceTrainer(_Hooks):
    """The reference trainer with a coroutine `fit()`; each hook may be a coroutine function as well."""

    async def fit(self) -> None:
        """Validate, train, dump; drain on every way out, cancellation included.

        Raises:
            BaseException: what a hook raised, with the failures of dumps attached to it.
            DumpError, DumpErrorGroup: dumps failed, and nothing else did.
        """
        with self._dump_session() as dumper:
            await self._run()
            # Waiting here and not in the drain lets the loop go on, and a cancellation come through.
            while dumper.pending:  # noqa: ASYNC110  the dumps end in a thread, which has no event of the loop
                await asyncio.sleep(0.005)

    async def _run(self) -> None:
        if self.config.val_before_train:
            await _done(self._validate())
            if self.config.val_only:
                return
        await _done(self.on_train_begin())
        for _ in range(self.config.total_epochs):
            for item in self.train_dataloader:
                if self._is_finished():
                    break
                self.train_item = item
                self.global_steps += 1
                await self._train_step()
                if self._is_finished():
                    return
        await _done(self.on_train_end())

    async def _train_step(self) -> None:
        timing: dict[str, float] = {}
        batch = await _done(self.step({}, timing))
        if self._is_due(self.config.save_freq):
            await _done(self._save_checkpoint())
        if self._is_due(self.config.test_freq):
            await _done(self._validate())
        if self.config.rollout_data_dir:
            await _done(self._log_rollout_data(batch, timing, self.config.rollout_data_dir))


async def _done(result: Any) -> Any:
    """Wait for what a hook returned where it is a coroutine."""
    return await result if inspect.isawaitable(result) else result
