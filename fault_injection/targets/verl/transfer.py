"""The transfer queue of verl's v1 trainers in memory, and the parts around it that generate and sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fault_injection.targets.verl.doubles import Row, Tokenizer, objects

_TEXTS = frozenset({"prompts", "responses", "response_mask", "rm_scores"})
"""The fields that are numbers: one jagged tensor of shape (n, *) each. All others are objects."""


class Queue:
    """Keeps what was put under a key of a partition, field by field."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, dict[str, Any]]] = {}
        self._tags: dict[str, dict[str, dict[str, Any]]] = {}

    def kv_batch_put(
        self,
        keys: Sequence[str],
        partition_id: str,
        fields: Any = None,
        tags: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Put tags of keys, and fields.

        Args:
            keys: n keys.
            partition_id: where they belong.
            fields: a mapping of names to n values each, or what has `keys()` and `get()` for such.
            tags: n tags.
        """
        for i, key in enumerate(keys):
            kept = self._fields.setdefault(partition_id, {}).setdefault(key, {})
            if fields is not None:
                kept.update({name: _item(fields.get(name), i) for name in fields.keys()})  # noqa: SIM118 - no mapping
            tag = self._tags.setdefault(partition_id, {}).setdefault(key, {})
            if tags is not None:
                tag.update(tags[i])

    def kv_batch_get(
        self, keys: Sequence[str], partition_id: str, select_fields: Sequence[str] | None = None
    ) -> Any:
        """The fields of keys as a `TensorDict`; those that were never put are left out."""
        from verl.utils import tensordict_utils as tu

        rows = [self._fields[partition_id][key] for key in keys]
        names = [name for name in rows[0] if select_fields is None or name in select_fields]
        columns = {
            name: _jagged([row[name] for row in rows])
            if name in _TEXTS
            else objects([row[name] for row in rows])
            for name in names
        }
        return tu.get_tensordict(columns)

    def kv_clear(self, keys: Sequence[str], partition_id: str) -> None:
        """Forget keys."""
        for key in keys:
            self._fields.get(partition_id, {}).pop(key, None)
            self._tags.get(partition_id, {}).pop(key, None)

    def kv_list(self, partition_id: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
        """The tags of every key, by partition."""
        return {
            partition: dict(tags)
            for partition, tags in self._tags.items()
            if partition_id in (None, partition) and tags
        }


class AgentLoops:
    """Generates at once what the rows that travel with the prompts say.

    Args:
        queue: where the generations go.
        tokenizer: what the trainer will decode them with.
    """

    reward_loop_worker_handles = ()

    def __init__(self, queue: Queue, tokenizer: Tokenizer) -> None:
        self._queue, self._tokenizer = queue, tokenizer
        self._waiting: dict[str, list[list[str]]] = {}

    def generate_sequences(self, batch: Any) -> None:
        """Generate, score, and put the rows into the queue, a key for each.

        Args:
            batch: a `TensorDict` with `uid` and `extra_info`.
        """
        partition = "val" if "validate" in batch.keys() else "train"  # noqa: SIM118 - no mapping
        uids, rows = list(batch["uid"]), list(batch["extra_info"])
        # Verl's keys name the prompt, the session and the turn.
        keys = [f"{uid}_0_0" for uid in uids]
        version = batch["global_steps"]
        self._queue.kv_clear(uids, partition)
        self._queue.kv_batch_put(
            keys,
            partition,
            {
                name: [self._field(name, uid, row) for uid, row in zip(uids, rows, strict=True)]
                for name in _FIELDS
            },
            [{"seq_len": 2, "min_global_steps": version, "max_global_steps": version} for _ in keys],
        )
        self._waiting.setdefault(partition, []).append(keys)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002 - verl's arguments
        """The oldest batch that was generated, as the replay buffer would give it out."""
        from transfer_queue import KVBatchMeta

        keys = self._waiting[partition_id].pop(0)
        tags = self._queue.kv_list(partition_id)[partition_id]
        return KVBatchMeta(partition_id=partition_id, keys=keys, tags=[tags[key] for key in keys]), {}

    def _field(self, name: str, uid: str, row: Row) -> Any:
        return _FIELDS[name](self._tokenizer, uid, row)


def _scores(tokenizer: Tokenizer, row: Row) -> list[float]:
    return [*[0.0] * (len(tokenizer.encode(row.output)) - 1), row.score]


_FIELDS: dict[str, Callable[[Tokenizer, str, Row], Any]] = {
    "uid": lambda _, uid, __: uid,
    "prompts": lambda tokenizer, _, row: tokenizer.encode(row.input),
    "responses": lambda tokenizer, _, row: tokenizer.encode(row.output),
    "response_mask": lambda tokenizer, _, row: [1] * len(tokenizer.encode(row.output)),
    "rm_scores": lambda tokenizer, _, row: _scores(tokenizer, row),
    "reward_model": lambda _, __, row: {"ground_truth": row.gts, "style": "rule"},
    "data_source": lambda _, __, ___: "fault-injection",
    "num_turns": lambda _, __, ___: 2,
    "extra_fields": lambda _, __, row: {"reward_extra_info": dict(row.extras)},
}
"""What the agent loops put into the queue for one row."""


def _item(column: Any, i: int) -> Any:
    value = column[i]
    # What a TensorDict keeps of an object is wrapped.
    return getattr(value, "data", value) if type(value).__name__ == "NonTensorData" else value


def _jagged(rows: Sequence[Any]) -> Any:
    import torch

    whole = all(isinstance(number, int) for row in rows for number in row)
    dtype = torch.long if whole else torch.float64
    return torch.nested.as_nested_tensor(
        [torch.tensor(row, dtype=dtype) for row in rows], layout=torch.jagged
    )
