"""Plans at their edges: spans, globs, and the texts that are none."""

import re

import pytest

from fault_injection.fault import Fault
from fault_injection.op import OPS, Op
from fault_injection.plan import Plan, PlanError, Rule, Span


def test_a_span_has_an_end_or_a_step() -> None:
    """Up to an operation and every so many are two ways to say which, and no span has both."""
    with pytest.raises(PlanError, match=re.escape("an end (#2..5) or a step (#1+2), not both")):
        Span(1, 5, 2)


def test_only_counts_are_in_a_span() -> None:
    """What is no number of an operation is in no span."""
    assert "3" not in Span(1)
    assert None not in Span(1)


@pytest.mark.parametrize(("first", "step"), [(2, 3), (5, 7), (1, 1), (4, 2)])
def test_a_step_counts_from_the_first(first: int, step: int) -> None:
    """Every so many operations are struck, and the first of them is the one that the span begins with."""
    span = Span(first, None, step)
    assert [count for count in range(1, 40) if count in span] == list(range(first, 40, step))


@pytest.mark.parametrize("glob", ["a;b", "a@b"], ids=["semicolon", "at"])
def test_a_glob_holds_no_separator(glob: str) -> None:
    """A glob whose text would not be read back is refused, with what to write instead."""
    with pytest.raises(PlanError, match=rf"glob '{glob}' holds .* use '\?'"):
        Rule("write", Span(1), Fault("ENOSPC"), glob)


@pytest.mark.parametrize("glob", ["c.tmp", "dump/a/c.tmp", "*.tmp", "dump/*"])
def test_a_glob_is_of_the_path_or_of_its_last_part(glob: str) -> None:
    """A glob is held against the whole path below the root and against its last part."""
    assert Rule("write", Span(1), Fault("ENOSPC"), glob).matches(Op("write", "dump/a/c.tmp"))


@pytest.mark.parametrize("glob", ["a/c.tmp", "dump", "c"])
def test_a_glob_is_of_nothing_in_between(glob: str) -> None:
    """A glob that is some other piece of the path does not match it."""
    assert not Rule("write", Span(1), Fault("ENOSPC"), glob).matches(Op("write", "dump/a/c.tmp"))


@pytest.mark.parametrize("span", ["#", "#x", "#1..", "#1-2", "#+"])
def test_a_span_that_cannot_be_read_is_shown(span: str) -> None:
    """The error of a plan shows the span that cannot be read, and what spans look like."""
    with pytest.raises(PlanError, match=re.escape(f"'{span}' is no span; write #3, #3+, #2..5 or #1+2")):
        Plan.parse(f"write{span}:ENOSPC")


@pytest.mark.parametrize("span", ["#3", "#3+", "#2..5", "#1+2", "#4+3"])
def test_each_form_of_a_span_is_printed_as_it_is_read(span: str) -> None:
    """A span prints in its own form, and a step of one as none."""
    assert str(Plan.parse(f"write{span}:ENOSPC")) == f"write{span}:ENOSPC"
    assert str(Plan.parse("write#3+1:ENOSPC")) == "write#3+:ENOSPC"


@pytest.mark.parametrize(
    ("fault", "operations"),
    [("short", "write"), ("lost", "fsync"), ("torn", "write"), ("RuntimeError", "thread")],
)
def test_any_takes_only_what_every_operation_can_meet(fault: str, operations: str) -> None:
    """A fault of some operations only is refused for any of them, with the names of those it is for."""
    message = f"fault {fault} does not apply to any operation; name one of {operations}"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        Rule("any", Span(1), Fault(fault))


@pytest.mark.parametrize("kind", OPS)
def test_any_is_every_operation_on_a_file(kind: str) -> None:
    """A rule for any operation is about each operation on a file, and about the start of no thread."""
    assert Rule("any", Span(1), Fault("ENOSPC")).matches(Op(kind, "dump/c.tmp")) is (kind != "thread")


@pytest.mark.parametrize("glob", ["X*", "*.x", "a,b", "a:b"])
def test_a_glob_holds_any_other_letter(glob: str) -> None:
    """A glob of whatever else is a part of its plan, which is shown as it was written."""
    text = f"{glob}@write#1:ENOSPC"
    plan = Plan.parse(text)
    assert str(plan) == repr(plan) == text
    assert [repr(rule) for rule in plan.rules] == [text]
