"""Adapters of the trainers of `verl.trainer.ppo.v1`."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, ClassVar

from fault_injection.targets.verl.adapter import VerlTarget
from fault_injection.targets.verl.config import PPO, configuration, follow
from fault_injection.targets.verl.doubles import Anything, judged, prompts
from fault_injection.targets.verl.real import unknown_shape
from fault_injection.targets.verl.transfer import AgentLoops, Queue

_HOME = "verl.trainer.ppo.v1.trainer_base"


class Sync(VerlTarget):
    """`PPOTrainerSync`: its real `__init__`, `fit()`, `step()` and `_validate()`, with a queue in memory."""

    where = "verl.trainer.ppo.v1:PPOTrainerSync"
    stubbed: ClassVar[tuple[str, ...]] = (
        "_build_replay_buffer",
        "_balance_batch",
        "_compute_old_log_prob",
        "_compute_advantage",
        "_update_actor",
        "_compute_metrics",
        "_save_checkpoint",
    )
    real: ClassVar = {
        "fit": ("agent_loop_manager",),
        "step": ("metrics", "timing_raw"),
        "_step_once": ("metrics", "timing_raw", "sample_batch_size"),
        "_validate": (),
        "_log_rollout_data": ("batch", "timing_raw", "rollout_data_dir"),
    }
    note = "its _log_rollout_data dumps no columns of the reward function"

    file = PPO
    overrides: ClassVar[tuple[str, ...]] = (
        "trainer.v1.trainer_mode=sync",
        "data.train_batch_size=1",
        "actor_rollout_ref.actor.ppo_mini_batch_size=1",
    )

    def build(self) -> None:
        """Run verl's `__init__`, and set what `init()` would have made."""
        trainer = self.instance
        self._queue = Queue()
        self._agents = AgentLoops(self._queue, self.tokenizer)
        with warnings.catch_warnings():
            # It warns that there is no critic.
            warnings.simplefilter("ignore")
            trainer.__init__(configuration(self.file, self.overrides))
        trainer._init_dump_executor()
        trainer.tokenizer = self.tokenizer
        trainer.checkpoint_manager = Anything()
        trainer.actor_rollout_wg = Anything()
        trainer.reward_loop_manager = Anything(reward_loop_worker_handles=[])
        trainer.resource_pool_manager = Anything()
        trainer.train_dataloader_it = None

    def place(self, start: int) -> None:
        """Set the configuration, the data loaders and the step, as loading a checkpoint does."""
        home = importlib.import_module(_HOME)
        if not hasattr(home, "tq"):
            raise unknown_shape(self.where, f"does not reach its queue as {_HOME}.tq")
        home.tq = self._queue  # type: ignore[attr-defined]
        trainer, course = self.instance, self.course
        trainer.global_steps = start
        trainer.total_training_steps = self.total()
        # An epoch that is over after the items of the course.
        trainer.steps_per_epoch = start + course.items
        if trainer.train_dataloader_it is None:
            # Verl begins a new epoch of it by itself: only the count of steps ends the training.
            trainer.train_dataloader = self.loader(start, prompts, endless=True)
        trainer.val_dataloader = self.validation_loader(lambda rows: prompts([judged(row) for row in rows]))
        follow(trainer.config, course, trainer.total_training_steps)

    def fit(self) -> object:
        """Run verl's `fit()`, with agent loops that generate at once."""
        return self.instance.fit(self._agents)

    def validate(self) -> object:
        """Run verl's `_validate()`, with what `fit()` would have set."""
        trainer = self.instance
        trainer.agent_loop_manager = self._agents
        return trainer._validate()

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """What the replay buffer gives out; for training, a step's compute begins."""
        if partition_id == "train":
            self.course.reach("step")
        return self._agents.sample(global_steps, partition_id, batch_size)

    def stub_build_replay_buffer(self) -> Any:
        """Whatever was generated first is given out first."""
        return Anything(sample=self.sample)

    def stub_balance_batch(self, batch: Any, metrics: Any) -> Any:  # noqa: ARG002 - named by verl
        """Leave the batch as it is."""
        return batch

    def stub_compute_old_log_prob(self, batch: Any, metrics: Any) -> Any:  # noqa: ARG002 - named by verl
        """Leave the batch as it is."""
        return batch

    def stub_compute_advantage(self, batch: Any, metrics: Any) -> Any:  # noqa: ARG002 - named by verl
        """Leave the batch as it is."""
        return batch

    def stub_update_actor(self, batch: Any, metrics: Any) -> Any:  # noqa: ARG002 - named by verl
        """Leave the batch as it is."""
        return batch

    def stub_compute_metrics(self, *_arguments: Any, **_keywords: Any) -> None:
        """There is nothing to measure."""

    def stub_save_checkpoint(self) -> None:
        """Save nothing."""
        self.course.reach("checkpoint")


class ColocateAsync(Sync):
    """`PPOTrainerColocateAsync`, which generates a batch ahead."""

    where = "verl.trainer.ppo.v1:PPOTrainerColocateAsync"
    overrides = (*Sync.overrides[1:], "trainer.v1.trainer_mode=colocate_async")


class SeparateAsync(Sync):
    """`PPOTrainerSeparateAsync`, without replicas on the trainer's own devices."""

    where = "verl.trainer.ppo.v1:PPOTrainerSeparateAsync"
    overrides = (
        *Sync.overrides[1:],
        "trainer.v1.trainer_mode=separate_async",
        "trainer.v1.separate_async.parameter_sync_step=1",
        "actor_rollout_ref.hybrid_engine=False",
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
    )

    def build(self) -> None:
        """Set the mode that a trainer without such replicas is in from the beginning."""
        super().build()
        trainer = self.instance
        mode = importlib.import_module("verl.trainer.ppo.v1.trainer_separate_async").HybridEngineMode
        trainer.current_mode = mode.TRAINER
        trainer.standalone_checkpoint_manager = Anything()
