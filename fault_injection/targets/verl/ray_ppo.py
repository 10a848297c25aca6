"""Adapters of `RayPPOTrainer` and of the trainers with separate resources that are made of it."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, ClassVar

from fault_injection.targets.verl.adapter import VerlTarget
from fault_injection.targets.verl.config import PPO, configuration, follow
from fault_injection.targets.verl.doubles import Anything, generated, judged, prompts

LOG_ROLLOUT_DATA = ("batch", "reward_extra_infos_dict", "timing_raw", "rollout_data_dir")
"""The arguments of `_log_rollout_data` before v1."""


class RayPPO(VerlTarget):
    """`RayPPOTrainer`: its real `__init__`, `fit()`, `_validate()` and advantages, with generated batches."""

    where = "verl.trainer.ppo.ray_trainer:RayPPOTrainer"
    stubbed: ClassVar[tuple[str, ...]] = (
        "_create_dataloader",
        "_load_checkpoint",
        "_save_checkpoint",
        "_compute_old_log_prob",
        "_update_actor",
    )
    real: ClassVar = {"fit": (), "_validate": ("merged",), "_log_rollout_data": LOG_ROLLOUT_DATA}

    file = PPO
    role: ClassVar[str] = "ActorRollout"
    """The worker that its `__init__` asks for."""

    _start = 0

    def build(self) -> None:
        """Run verl's `__init__`, and set what `init_workers()` would have made."""
        from verl.trainer.ppo.utils import Role

        trainer = self.instance
        config, roles = configuration(self.file, self.overrides), {Role[self.role]: object}
        with warnings.catch_warnings():
            # It warns that it is to go, and that there is no critic.
            warnings.simplefilter("ignore")
            trainer.__init__(config, self.tokenizer, roles, Anything(get_n_gpus=_one))
        trainer.async_rollout_manager = Anything(generate_sequences=self.generate)
        trainer.checkpoint_manager = Anything()
        trainer.actor_rollout_wg = trainer.actor_wg = Anything()

    def place(self, start: int) -> None:
        """Set the configuration and the data loaders; `fit()` itself sets the step, by loading the checkpoint."""
        trainer = self.instance
        self._start = start
        trainer.global_steps = start
        trainer.total_training_steps = self.total()
        trainer.train_dataloader = self.loader(start, prompts)
        trainer.val_dataloader = self.validation_loader(lambda rows: prompts([judged(row) for row in rows]))
        follow(trainer.config, self.course, trainer.total_training_steps)

    def generate(self, batch: Any) -> Any:
        """What the agent loops do: generate, and score; here a step's compute begins."""
        if not batch.meta_info.get("validate", False):
            self.begin_generation()
        return generated(list(batch.non_tensor_batch["extra_info"]), self.tokenizer)

    def begin_generation(self) -> None:
        """With the generation, the compute of a step begins."""
        self.course.reach("step")

    def stub_create_dataloader(self, *_arguments: Any) -> None:
        """The loaders are set with the course."""
        self.instance.train_dataset = Anything(on_batch_end=_nothing)

    def stub_load_checkpoint(self) -> None:
        """Go on after the steps that were done."""
        self.instance.global_steps = self._start

    def stub_save_checkpoint(self) -> None:
        """Save nothing."""
        self.course.reach("checkpoint")

    def stub_compute_old_log_prob(self, batch: Any) -> tuple[Any, float]:
        """Probabilities and entropies of zero, of shape (n, R)."""
        import torch
        from verl import DataProto

        zeros = torch.zeros(batch.batch["responses"].shape)
        return DataProto.from_dict(tensors={"old_log_probs": zeros, "entropys": zeros.clone()}), 0.0

    def stub_update_actor(self, _batch: Any) -> Any:
        """No metrics."""
        from verl import DataProto

        return DataProto(meta_info={"metrics": {}})


class Separate(RayPPO):
    """`SeparateRayPPOTrainer`, whose `fit()` is split into hooks that all run."""

    where = "verl.experimental.separation.ray_trainer:SeparateRayPPOTrainer"
    real: ClassVar = {**RayPPO.real, "fit_step": ("batch_dict",), "_fit_dump_data": ("batch",)}


class OneStepOff(Separate):
    """`OneStepOffRayTrainer`, which generates the next batch while it trains."""

    where = "verl.experimental.one_step_off_policy.ray_trainer:OneStepOffRayTrainer"
    real: ClassVar = {**Separate.real, "fit_step": ("batch_data_future", "continuous_iterator")}
    coroutine = True
    overrides = ("actor_rollout_ref.hybrid_engine=False",)
    role = "Actor"
    absent: ClassVar = {
        "exhausted": "its fit() fails with a TypeError when the data ends before the last step",
        "zero-steps": "its fit() fails with a TypeError when there is no data for a first step",
    }
    note = "its __init__ makes no executor, so that in verl the first dump raises AttributeError; the adapter makes one"

    def build(self) -> None:
        """Run verl's `__init__`, and make the executor that it does not make."""
        super().build()
        if not hasattr(self.instance, "_dump_executor"):
            self.instance._init_dump_executor()
        self.instance.async_rollout_manager = _Manager(self)

    def begin_generation(self) -> None:
        """The generation belongs to the step after the present one, and runs in a task of its own."""

    def stub_compute_old_log_prob(self, batch: Any) -> tuple[Any, float]:
        """Here the compute of the present step begins; right after it `fit()` gives way to a cancellation."""
        self.course.reach("step")
        return super().stub_compute_old_log_prob(batch)


class _Manager:
    """The agent loops of a trainer that awaits them in training, and calls them in validation."""

    def __init__(self, target: OneStepOff) -> None:
        self._target = target

    def generate_sequences(self, batch: Any) -> Any:
        """Generate at once for a validation, and in a coroutine for a step."""
        if batch.meta_info.get("validate", False):
            return self._target.generate(batch)
        return self._later(batch)

    async def _later(self, batch: Any) -> Any:
        await asyncio.sleep(0)
        return self._target.generate(batch)


def _one() -> int:
    return 1


def _nothing(**_keywords: Any) -> None:
    return None
