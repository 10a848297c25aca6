"""What a reader must get back from a dump, and the readers; nothing here uses a writer's code."""

from fault_injection.oracle.batch import Expectation, expect
from fault_injection.oracle.outcome import Fields, Items, Json, Leaf, Outcome, Refusal, Unjudged, plain
from fault_injection.oracle.picture import Picture, changed, picture
from fault_injection.oracle.policies import DEFAULTS, Policies
from fault_injection.oracle.readers import (
    READERS,
    Reader,
    available_readers,
    judge_readers,
    missing_readers,
)
from fault_injection.oracle.refusals import ErrorView
from fault_injection.oracle.rows import SILENTLY_LOST, Finding, judge_expectation, judge_rows
from fault_injection.oracle.strict import StrictError, parse
from fault_injection.oracle.values import expected_key, expected_value
from fault_injection.oracle.viewer import read_directory

__all__ = [
    "DEFAULTS",
    "READERS",
    "SILENTLY_LOST",
    "ErrorView",
    "Expectation",
    "Fields",
    "Finding",
    "Items",
    "Json",
    "Leaf",
    "Outcome",
    "Picture",
    "Policies",
    "Reader",
    "Refusal",
    "StrictError",
    "Unjudged",
    "available_readers",
    "changed",
    "expect",
    "expected_key",
    "expected_value",
    "judge_expectation",
    "judge_readers",
    "judge_rows",
    "missing_readers",
    "parse",
    "picture",
    "plain",
    "read_directory",
]
