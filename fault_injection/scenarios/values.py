"""Scenarios of groups S and C: examples that Hypothesis makes, one strategy for each law."""

from __future__ import annotations

from fault_injection.scenario import Scenario
from fault_injection.trial import Trial

_NAMES = {
    "S1": "typed-values",
    "S2": "non-finite-numbers",
    "S3": "strange-text",
    "S4": "long-numbers",
    "S5": "strange-keys",
    "S6": "tensors",
    "S7": "unwritable-values",
    "S8": "line-breaks",
    "S9": "read-back",
    "C1": "ragged-columns",
    "C2": "colliding-columns",
    "C3": "unequal-columns",
    "C4": "no-columns",
    "C5": "callers-objects",
}


def _by_examples(trial: Trial, seed: int) -> None:
    """Nothing: the bench dumps one example after another by itself."""


SCENARIOS = tuple(
    Scenario(
        name,
        frozenset({law}),
        _by_examples,
        needs=frozenset({"torch"}) if law == "S6" else frozenset(),
        place="examples",
    )
    for law, name in _NAMES.items()
)
