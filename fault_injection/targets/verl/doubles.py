"""What stands in for the compute of a trainer: texts for tokens, data loaders, and workers that do nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fault_injection.targets.base import Batch

_PIECES = re.compile(r".{1,7}", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One generation, as it travels with the prompt through the trainer.

    Args:
        input: the prompt.
        output: the response.
        gts: the ground truth.
        score: the score.
        extras: what else the reward function returns, by name.
    """

    input: str
    output: str
    gts: Any
    score: float
    extras: dict[str, Any] = field(default_factory=dict)


def rows_of(batch: Batch) -> list[Row]:
    """The rows of a batch.

    Args:
        batch: its texts are strings and its scores numbers.
    """
    extras = batch.extras.items()
    return [
        Row(str(prompt), str(answer), truth, float(score), {name: column[i] for name, column in extras})
        for i, (prompt, answer, truth, score) in enumerate(
            zip(batch.inputs, batch.outputs, batch.gts, batch.scores, strict=True)
        )
    ]


def judged(row: Row) -> Row:
    """The row with only the extras that verl's validation can take: it averages them, and skips texts."""
    return Row(
        row.input,
        row.output,
        row.gts,
        row.score,
        {name: value for name, value in row.extras.items() if isinstance(value, (bool, int, float, str))},
    )


class Tokenizer:
    """A tokenizer that gives back exactly the texts it has encoded: each piece of a text has a number of its own."""

    pad_token_id = 0
    eos_token_id = 1

    def __init__(self) -> None:
        self._pieces = ["", ""]
        self._numbers: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's pieces, at least one."""
        return [self._number(piece) for piece in _PIECES.findall(text) or [""]]

    def decode(self, ids: Iterable[Any], skip_special_tokens: bool = False) -> str:  # noqa: ARG002 - they have no text
        """The text of some numbers."""
        return "".join(self._pieces[int(number)] for number in ids)

    def batch_decode(self, rows: Iterable[Iterable[Any]], skip_special_tokens: bool = False) -> list[str]:
        """The texts of some rows of numbers."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in rows]

    def _number(self, piece: str) -> int:
        number = self._numbers.setdefault(piece, len(self._pieces))
        if number == len(self._pieces):
            self._pieces.append(piece)
        return number


class Anything:
    """Takes the place of workers and managers: every method is there, takes everything and returns None.

    Args:
        attributes: what it must have besides.
    """

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Callable[..., None]:
        # Trainers ask for this one, to call it only where it is there.
        if name.startswith("__") or name == "async_calls_finalize_fn_exec":
            raise AttributeError(name)
        return _nothing


def _nothing(*_arguments: Any, **_keywords: Any) -> None:
    return None


class Loader:
    """A data loader in the middle of its epoch, as after a checkpoint.

    Args:
        length: the batches of the whole epoch.
        batches: makes the batches that are left of it, anew each time that the loader is run through.
        begin: called when a run through it begins.
    """

    def __init__(
        self, length: int, batches: Callable[[], Iterable[Any]], begin: Callable[[], None] | None = None
    ) -> None:
        self._length, self._batches, self._begin = length, batches, begin

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if self._begin is not None:
            self._begin()
        yield from self._batches()


def objects(values: Sequence[Any]) -> Any:
    """A column of any objects, as an array of shape (n,)."""
    import numpy as np

    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def prompts(rows: Sequence[Row]) -> dict[str, Any]:
    """What a data loader of verl gives out for some rows.

    Args:
        rows: the generations that are to be made of the prompts; they travel along as `extra_info`.
    """
    import torch

    return {
        "dummy_tensor": torch.zeros(len(rows), 1, dtype=torch.uint8),
        "raw_prompt": objects([[{"role": "user", "content": row.input}] for row in rows]),
        "reward_model": objects([{"ground_truth": row.gts, "style": "rule"} for row in rows]),
        "data_source": objects(["fault-injection"] * len(rows)),
        "extra_info": objects(rows),
    }


def generated(rows: Sequence[Row], tokenizer: Tokenizer) -> Any:
    """The `DataProto` of generations that an agent loop of verl would give back for some prompts.

    Args:
        rows: n generations.
        tokenizer: what the trainer will decode them with.

    Returns:
        Prompts of shape (n, P), padded on the left; responses, their mask and scores of shape (n, R), padded on the
        right; the score stands at the last token of a response.
    """
    import torch
    from verl import DataProto

    left = padded([tokenizer.encode(row.input) for row in rows], left=True)
    right = padded([tokenizer.encode(row.output) for row in rows])
    ids = torch.cat([left, right], dim=1)
    response_mask = (right != Tokenizer.pad_token_id).long()
    # In double precision, so that a score comes back as it was.
    scores = torch.zeros(right.shape, dtype=torch.float64)
    scores[torch.arange(len(rows)), response_mask.sum(dim=1) - 1] = torch.tensor(
        [row.score for row in rows], dtype=torch.float64
    )
    mask = (ids != Tokenizer.pad_token_id).long()
    names = list(dict.fromkeys(name for row in rows for name in row.extras))
    return DataProto.from_dict(
        tensors={
            "prompts": left,
            "responses": right,
            "input_ids": ids,
            "attention_mask": mask,
            "position_ids": mask.cumsum(dim=1) - 1,
            "response_mask": response_mask,
            "rm_scores": scores,
        },
        non_tensors={
            "multi_modal_inputs": objects([{} for _ in rows]),
            "__num_turns__": objects([2] * len(rows)),
            **{name: objects([row.extras.get(name) for row in rows]) for name in names},
        },
        meta_info={"timing": {}, "reward_extra_keys": names},
    )


def padded(rows: Sequence[Sequence[int]], *, left: bool = False) -> Any:
    """Rows of numbers as one tensor of shape (n, longest)."""
    import torch

    width = max(map(len, rows), default=0)
    pad = Tokenizer.pad_token_id
    return torch.tensor(
        [
            [*[pad] * (width - len(row)), *row] if left else [*row, *[pad] * (width - len(row))]
            for row in rows
        ],
        dtype=torch.long,
    )
