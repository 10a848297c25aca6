"""Adapters of the two halves of verl's fully asynchronous trainer."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

from fault_injection.targets.verl.config import FULLY_ASYNC, configuration, follow
from fault_injection.targets.verl.doubles import Anything, Loader, generated, judged, prompts, rows_of
from fault_injection.targets.verl.ray_ppo import RayPPO

_MODULE = "verl.experimental.fully_async_policy"
_OVERRIDES = (
    "actor_rollout_ref.hybrid_engine=False",
    "algorithm.rollout_correction.bypass_mode=False",
    "actor_rollout_ref.actor.ppo_mini_batch_size=1",
    "actor_rollout_ref.rollout.calculate_log_probs=True",
    "async_training.trigger_parameter_sync_step=1",
    "async_training.staleness_threshold=1000000",
    "data.train_batch_size=0",
    "data.gen_batch_size=1",
    "rollout.nnodes=1",
    "rollout.n_gpus_per_node=1",
)
_NO_VALIDATION = "the rollouter validates, and dumps the validation"


class FullyAsyncTrainer(RayPPO):
    """`FullyAsyncTrainer`: its real `__init__`, `fit()` and `fit_step()`, with the queue and the rollouter in memory."""

    where = f"{_MODULE}.fully_async_trainer:FullyAsyncTrainer"
    stubbed = (
        "_get_samples_from_queue",
        "_compute_old_log_prob",
        "_update_actor",
        "_fit_update_weights",
        "_save_checkpoint",
    )
    real: ClassVar = {
        "fit": (),
        "fit_step": ("batch_dict",),
        "_fit_dump_data": ("batch",),
        "_fit_validate": ("val_before_train",),
        "_log_rollout_data": RayPPO.real["_log_rollout_data"],
        "set_total_train_steps": ("total_training_steps",),
    }
    coroutine = True
    file = FULLY_ASYNC
    overrides = _OVERRIDES
    absent: ClassVar = {
        "val-only": _NO_VALIDATION,
        "zero-steps": _NO_VALIDATION,
        "undrained": _NO_VALIDATION,
        "last-step": "it knows no last step: its training ends when the queue does",
    }

    def build(self) -> None:
        """Run verl's `__init__`, and set what its other set-up calls would have made."""
        trainer, config = self.instance, configuration(self.file, self.overrides)
        with warnings.catch_warnings():
            # It warns that there is no critic.
            warnings.simplefilter("ignore")
            trainer.__init__(config, self.tokenizer, {}, Anything(get_n_gpus=lambda: 1))
        trainer.actor_rollout_wg = trainer.actor_wg = Anything()
        trainer.checkpoint_manager = Anything()
        trainer.message_queue_client = Anything(get_queue_size_sync=lambda: 0)
        trainer.rollouter = Anything(do_validate=Anything(remote=self.validate_elsewhere))

    def place(self, start: int) -> None:
        """Set the configuration, the samples and the step, as loading a checkpoint does."""
        trainer, course = self.instance, self.course
        trainer.global_steps = trainer.current_param_version = trainer.last_ckpt_version = start
        last = start + course.items if course.steps is None else min(start + course.items, self.total())
        self._samples = iter(range(start + 1, last + 1))
        trainer.set_total_train_steps(last)
        follow(trainer.config, course, last)

    def validate_elsewhere(self) -> Any:
        """What the rollouter does in its own actor; it dumps there."""

        async def call() -> dict[str, Any]:
            self.course.reach("validation")
            return {"val-core/fault-injection/reward/mean@1": 0.0}

        return call()

    async def stub_get_samples_from_queue(self) -> tuple[Any, Any]:
        """The generations of the next step, or the end of the queue; here a step's compute begins."""
        step = next(self._samples, None)
        if step is None:
            return None, None
        self.course.reach("step")
        # Here a cancellation comes through.
        await asyncio.sleep(0)
        rows = rows_of(self.course.rollout(step))
        batch = generated(rows, self.tokenizer)
        batch.non_tensor_batch.update({k: v for k, v in prompts(rows).items() if k != "dummy_tensor"})
        batch.non_tensor_batch["uid"] = batch.non_tensor_batch["raw_prompt"].copy()
        for i in range(len(rows)):
            batch.non_tensor_batch["uid"][i] = f"uid_{i}"
        batch.meta_info["global_token_num"] = batch.batch["attention_mask"].sum(dim=-1).tolist()
        batch.meta_info["trajectory_param_versions"] = [step] * len(rows)
        return 0, batch

    async def stub_fit_update_weights(self) -> None:
        """No replicas wait for weights."""


class FullyAsyncRollouter(RayPPO):
    """`FullyAsyncRollouter`: its real `fit()`, feeding and processing; validations are asked for as the trainer does.

    The trainer asks for a validation after each sample, so that the rollouter's dumps come while its `fit()` runs.
    """

    where = f"{_MODULE}.fully_async_rollouter:FullyAsyncRollouter"
    stubbed = ("_async_monitor_loop",)
    real: ClassVar = {
        "fit": (),
        "_streaming_generation_main": (),
        "_feed_samples": (),
        "_processor_worker": (),
        "_process_single_sample_streaming": ("rollout_sample",),
        "do_validate": (),
        "_validate": ("merged",),
        "_init_async_objects": (),
    }
    coroutine = True
    file = FULLY_ASYNC
    overrides = _OVERRIDES
    note = "its fit() dumps nothing: the trainer asks it for validations meanwhile, here after each sample"
    absent: ClassVar = {
        "val-only": "it goes on until its data ends",
        "logging-raises": "it has no training step, and logs none",
        "checkpoint-raises": "the trainer saves the checkpoints",
        "validation-raises": "an exception of do_validate() goes to the trainer that asked for it, not to fit()",
    }

    _told: Exception | None = None
    _fitting: asyncio.Task[Any] | None = None

    def build(self) -> None:
        """Set what verl's `__init__` would have set, which reads data sets from disk."""
        trainer = self.instance
        config = configuration(self.file, self.overrides)
        trainer._init_dump_executor()
        vars(trainer).update(
            config=config,
            tokenizer=self.tokenizer,
            processor=None,
            use_rm=False,
            use_critic=False,
            use_reference_policy=False,
            async_rollout_manager=Anything(
                generate_sequences=self.generate, generate_sequences_single=self.generate_single
            ),
            message_queue_client=_MessageQueue(self),
            checkpoint_manager=Anything(),
            required_samples=1,
            max_required_samples=10**9,
            max_concurrent_samples=1,
            max_queue_size=10**9,
            staleness_threshold=1,
            total_generated_samples=0,
            dropped_stale_samples=0,
            processed_sample_count=0,
            _step_generated_samples=0,
            idle_start_time=time.time(),
            step_start_time=time.time(),
            _active_count_history=[(time.time(), 0, 0)],
        )

    def place(self, start: int) -> None:
        """Set the data, and what a new actor begins with."""
        trainer, course = self.instance, self.course
        trainer.global_steps = start + 1
        self._asks = self.total() - start
        # One sample more than validations: the last one would not get a step of its own.
        trainer.total_rollout_steps = self.total() + 1
        trainer.train_dataloader = self.loader(start, lambda rows: prompts(rows[:1]))
        trainer.val_dataloader = Loader(1, self._validation)
        trainer.pending_queue = _OneByOne()
        trainer.paused, trainer.running, trainer.staleness_samples = False, True, 0
        trainer.active_tasks = set()
        self._told = None
        follow(trainer.config, course, trainer.total_rollout_steps)
        trainer.config.trainer.validation_data_dir = course.validation_dir or course.rollout_dir

    async def fit(self) -> None:
        """Run verl's `fit()`, after the validation that verl's main task asks for before it.

        Raises:
            Exception: what a validation raised; it is the trainer that gets it, and ends the training.
        """
        trainer = self.instance
        # They belong to the running loop.
        trainer._init_async_objects()
        trainer.dataloader_lock = asyncio.Lock()
        if self.course.val_before_train:
            trainer.do_validate()
        self._fitting = asyncio.current_task()
        await trainer.fit()
        if self._told is not None:
            raise self._told

    def validate(self) -> object:
        """Run verl's `do_validate()`."""
        return self.instance.do_validate()

    def take(self) -> None:
        """Do with a sample what the trainer does: ask for a validation, and let the next one come."""
        self.instance.pending_queue.go_on()
        if self._asks <= 0 or self._told is not None:
            return
        self._asks -= 1
        try:
            self.instance.do_validate()
        except Exception as error:  # noqa: BLE001 - in verl it crosses to another process
            self._told = error

    async def generate_single(self, batch: Any) -> Any:
        """Generate one sample; here a step's compute begins."""
        begun = asyncio.ensure_future(self._begin())
        await asyncio.wait([begun])
        if begun.cancelled() and self._fitting is not None:
            # It is meant for `fit()`, not for the task of one sample, which `fit()` then cancels.
            self._fitting.cancel()
            await asyncio.Event().wait()
        try:
            begun.result()
        except BaseException:
            # What failed is noticed with the next sample only.
            self.instance.pending_queue.go_on()
            raise
        return self.generate(batch)

    def begin_generation(self) -> None:
        """The compute of a step begins with a single sample, in a task of its own."""

    async def stub_async_monitor_loop(self) -> None:
        """It looks on every ten seconds, which would be the time of each run."""

    async def _begin(self) -> None:
        self.course.reach("step")
        await asyncio.sleep(0)

    def _validation(self) -> Iterator[Any]:
        course = self.course
        batch = (
            course.validation()[0] if course.validation_dir else course.rollout(self.instance.global_steps)
        )
        yield prompts([judged(row) for row in rows_of(batch)])


class _MessageQueue:
    """The queue between the two halves: the trainer takes each sample at once."""

    def __init__(self, rollouter: FullyAsyncRollouter) -> None:
        self._rollouter = rollouter

    async def put_sample(self, sample: Any) -> bool:
        if sample is not None:
            self._rollouter.take()
        return True

    async def get_statistics(self) -> dict[str, int]:
        return {"queue_size": 0}


class _OneByOne(asyncio.Queue[Any]):
    """The queue of prompts, which takes one only when the sample before it is done: steps count up with the samples."""

    def __init__(self) -> None:
        super().__init__()
        self._free = asyncio.Semaphore(1)

    async def put(self, item: Any) -> None:
        await self._free.acquire()
        await super().put(item)

    def go_on(self) -> None:
        self._free.release()
