"""What the adapters of verl's trainers do without a verl, and Ray's actors without a Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from fault_injection import actors, strategies
from fault_injection.targets.verl.doubles import Row, Tokenizer
from fault_injection.targets.verl.fully_async import FullyAsyncRollouter
from fault_injection.targets.verl.transfer import AgentLoops, Queue, _jagged


class StopHereError(Exception):
    """The test has seen enough."""


def test_a_text_comes_back_from_its_numbers() -> None:
    """Texts whose pieces differ have different numbers, none of them that of the padding, and come back whole."""
    tokenizer = Tokenizer()
    texts = ["one piece and another", "another piece", "", "one piece and another"]
    ids = [tokenizer.encode(text) for text in texts]
    assert tokenizer.batch_decode([[0, *row, 0] for row in ids]) == texts
    assert ids[0] == ids[3]
    assert len(set(ids[0])) == 3
    assert all(row and Tokenizer.pad_token_id not in row for row in ids)


@pytest.mark.parametrize("validate", [False, True], ids=["train", "val"])
def test_generations_wait_under_the_partition_of_their_batch(validate: bool) -> None:
    """What was generated for a validation is kept apart from what was generated for training, a key for each row."""
    queue = Queue()
    batch = {
        "uid": ["a", "b"],
        "extra_info": [Row(text, text, "gts", 0.5) for text in ("x", "y")],
        "global_steps": 4,
        **({"validate": True} if validate else {}),
    }
    AgentLoops(queue, Tokenizer()).generate_sequences(batch)
    partition = "val" if validate else "train"
    kept = queue.kv_list()
    assert {name: list(tags) for name, tags in kept.items()} == {partition: ["a_0_0", "b_0_0"]}
    assert {tag["max_global_steps"] for tag in kept[partition].values()} == {4}


@pytest.mark.skipif(not strategies.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("rows", [[[0.1], [0.0, 1 / 3]], [[2**53 + 1], [1, 2]]], ids=["scores", "tokens"])
def test_scores_and_tokens_keep_all_of_their_digits(
    monkeypatch: pytest.MonkeyPatch, rows: list[list[float]]
) -> None:
    """Rows of numbers come out of the queue as they were put in, whole numbers as such."""
    import torch

    # The real one takes seconds to import what compiles its kernels.
    monkeypatch.setattr(torch.nested, "as_nested_tensor", lambda made, layout: (made, layout))
    made, layout = _jagged(rows)
    assert layout is torch.jagged
    assert [row.tolist() for row in made] == rows
    assert {row.dtype.is_floating_point for row in made} == {isinstance(rows[0][0], float)}


def test_the_next_sample_comes_where_one_failed() -> None:
    """A sample whose compute fails lets the next one come, with which verl's `fit()` notices the failure."""
    noticed: list[str] = []

    def fail(phase: str) -> NoReturn:
        noticed.append(phase)
        raise StopHereError

    adapter = object.__new__(FullyAsyncRollouter)
    adapter._instance = SimpleNamespace(pending_queue=SimpleNamespace(go_on=lambda: noticed.append("next")))
    adapter._course = SimpleNamespace(reach=fail)  # type: ignore[assignment]
    with pytest.raises(StopHereError):
        asyncio.run(adapter.generate_single(None))
    assert noticed == ["step", "next"]


def test_the_files_of_ray_and_of_an_actor_lie_beside_the_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ray is started with the directory that holds the one of the trial, and what an actor tells goes there too."""
    seen: list[str] = []

    def remote(**_: int) -> NoReturn:
        seen.extend(path.name.partition("-")[0] for path in tmp_path.iterdir())
        raise StopHereError

    def started(scratch: str) -> SimpleNamespace:
        seen.append(scratch)
        return SimpleNamespace(remote=remote)

    monkeypatch.setattr(actors, "_started", started)
    order = SimpleNamespace(scenario="exit-ray-return-one", plan="none")
    with pytest.raises(StopHereError):
        actors.run_in_actor(order, str(tmp_path / "trial"))  # type: ignore[arg-type]
    assert seen == [str(tmp_path), "actor"]
    assert list(tmp_path.iterdir()) == []
