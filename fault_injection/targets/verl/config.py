"""The configurations of verl's trainers, composed from the files that verl ships."""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fault_injection.course import Course

PPO = os.path.join("trainer", "config", "ppo_trainer")
FULLY_ASYNC = os.path.join("experimental", "fully_async_policy", "config", "fully_async_ppo_trainer")
"""Configuration files of verl, without their suffix."""

_EVERYWHERE = (
    "trainer.logger=[console]",
    "trainer.log_val_generations=0",
    "trainer.balance_batch=False",
    "trainer.critic_warmup=0",
    "trainer.resume_mode=disable",
    "trainer.n_gpus_per_node=1",
    "trainer.device=cpu",
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.rollout.n=1",
    "actor_rollout_ref.rollout.agent.num_workers=1",
)


def configuration(file: str, overrides: Sequence[str] = ()) -> Any:
    """A fresh copy of a configuration.

    Args:
        file: `PPO` or `FULLY_ASYNC`.
        overrides: what the trainer needs to be different, in hydra's notation.
    """
    return copy.deepcopy(_composed(file, tuple(overrides)))


@cache
def _composed(file: str, overrides: tuple[str, ...]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    found = importlib.util.find_spec("verl")
    root = next(iter((found and found.submodule_search_locations) or [""]))
    directory, name = os.path.split(os.path.join(root, file))
    # Whoever drives the harness may have initialized hydra for itself.
    kept = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(os.path.abspath(directory), version_base=None):
            return compose(name, overrides=[*_EVERYWHERE, *overrides])
    finally:
        GlobalHydra.instance().clear()
        if kept is not None:
            GlobalHydra.instance().initialize(kept)


def follow(config: Any, course: Course, total: int) -> None:
    """Set in a configuration what a course wants of the training.

    Args:
        config: the configuration of the trainer.
        course: the course.
        total: the last global step; one that is never reached where the data is to end the training.
    """
    trainer = config.trainer
    trainer.total_training_steps = total
    trainer.total_epochs = 1
    trainer.val_before_train = course.val_before_train
    trainer.val_only = course.val_only
    # verl's own "never" is negative, and it divides by the one frequency without asking.
    trainer.test_freq = course.test_freq or -1
    trainer.save_freq = course.save_freq or -1
    trainer.rollout_data_dir = course.rollout_dir
    trainer.validation_data_dir = course.validation_dir
