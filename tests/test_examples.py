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
