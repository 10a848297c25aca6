"""The bench of examples: what it leaves, and what the history of an example holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")
pytest.importorskip("numpy")

from fault_injection.examples import Bench, Dumped, hung_history, replay, search
from fault_injection.history import History, Hung, Mark
from fault_injection.subject import DEFAULT, Spec, load_subject


class Accusing:
    """A bench that finds each batch wrong, and keeps them."""

    def __init__(self) -> None:
        self.tried = 0
        self.batches: list[Any] = []

    def dump(self, batch: Any) -> Dumped:
        """Find it wrong."""
        self.tried += 1
        self.batches.append(batch)
        return Dumped(None, None, False, (("S1", "it is wrong"),))


def test_a_replayed_example_begins_with_its_batch() -> None:
    """The history of an example begins with the batch that was handed over, as text."""
    found = search(Accusing(), "S1", 0, 1, torch=False)[-1]  # type: ignore[arg-type]
    bench = Accusing()
    result, history = replay(bench, "S1", found.plan, torch=False, scenario="examples-S1", seed=0)  # type: ignore[arg-type]
    (batch,) = bench.batches
    assert type(batch).__name__ == "Batch"
    assert history.events[0] == Mark("batch", repr(batch))
    assert [violation.message for violation in result.violations] == ["it is wrong"]


def test_a_bench_leaves_nothing(tmp_path: Path) -> None:
    """Whatever is in its directory, a closed bench has removed it."""
    bench = Bench(load_subject(Spec(DEFAULT)), str(tmp_path), lambda: None)
    (Path(bench.root) / "left").write_text("")
    bench.close()
    assert list(tmp_path.iterdir()) == []


def test_a_hung_example_has_an_unfinished_history() -> None:
    """The history of an example whose call never ended says so, and of which seed it is."""
    assert hung_history("examples-S1", 7) == History(
        "examples-S1", "none", "disk", 7, (Hung("dump"),), 0, complete=False
    )


class Forgets:
    """Accepts every batch, and writes none."""

    def _init_dump_executor(self) -> None:
        """Nothing."""

    def _dump_generations(
        self, inputs: Any, outputs: Any, gts: Any, scores: Any, reward_extra_infos_dict: Any, dump_path: str
    ) -> None:
        """Nothing."""

    def _shutdown_dump_executor(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    "law", ["S1", "S2", "S3", "S4", "S5", "S7", "S8", "S9", "C1", "C2", "C3", "C4", "C5"]
)
def test_a_batch_that_vanishes_breaks_the_law_that_it_was_made_for(law: str, tmp_path: Path) -> None:
    """A writer that raises nothing and leaves no file holds no law about values or columns."""
    subject = load_subject(Spec(f"{__name__}:Forgets"))
    bench = Bench(subject, str(tmp_path), lambda: None)
    found = search(bench, law, 0, 20, torch=False)[-1]
    result, _ = replay(bench, law, found.plan, torch=False, scenario=law, seed=0)
    bench.close()
    (violation,) = found.violations
    assert violation in result.violations
    assert violation.law == law


def test_a_blob_may_hold_slashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an example is the version up to the first slash, and all after it is the blob (base64 has slashes)."""
    asked: list[tuple[str, bytes]] = []

    def reproduce(version: str, blob: bytes) -> Any:
        asked.append((version, blob))
        return lambda _: lambda: None

    monkeypatch.setattr("hypothesis.reproduce_failure", reproduce)
    bench: Any = None
    replay(bench, "S2", "example:6.1.2/AX/c+/==", torch=False, scenario="non-finite-numbers", seed=0)
    assert asked == [("6.1.2", b"AX/c+/==")]
