"""Plans: their text is their replay, and a wrong text gives one line that says what to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.fault import CATALOGUE, Fault, parse_fault
from fault_injection.injector import Injector
from fault_injection.op import OPS, Op
from fault_injection.plan import Plan, PlanError, Rule, Span, once, persistent

SPANS = st.one_of(
    st.builds(lambda first: Span(first, first), st.integers(1, 10**6)),
    st.builds(lambda first, more: Span(first, first + more), st.integers(1, 10**6), st.integers(0, 10**6)),
    st.builds(lambda first, step: Span(first, None, step), st.integers(1, 10**6), st.integers(1, 10**6)),
)
GLOBS = st.one_of(
    st.just(""),
    st.text(
        st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters=";@"), min_size=1
    ).filter(lambda text: text.strip() == text),
)


def _faults(name: str) -> st.SearchStrategy[Fault]:
    parameter = CATALOGUE[name].parameter
    if parameter == "bytes":
        return st.builds(Fault, st.just(name), st.integers(0, 10**12))
    if parameter == "time":
        return st.builds(Fault, st.just(name), st.floats(0, 1e9, allow_nan=False) | st.integers(0, 10**9))
    return st.just(Fault(name))


FAULTS = st.sampled_from(list(CATALOGUE)).flatmap(_faults)
AT_OPS = FAULTS.flatmap(
    lambda fault: st.builds(Rule, st.sampled_from(sorted(fault.kind.ops)), SPANS, st.just(fault), GLOBS)
)
AT_BYTES = st.builds(
    Rule,
    st.just("bytes"),
    SPANS,
    FAULTS.filter(lambda fault: bool(fault.kind.errno) and fault.name != "lost"),
    GLOBS,
    st.integers(0, 10**15),
)
PLANS = st.builds(Plan, st.lists(AT_OPS | AT_BYTES, max_size=4).map(tuple))


@given(PLANS)
def test_a_plan_parses_back_from_its_text(plan: Plan) -> None:
    """For every plan `Plan.parse(repr(plan)) == plan`, and the text, which is that of its rules, is one line."""
    assert Plan.parse(repr(plan)) == plan
    assert str(plan) == repr(plan) == (";".join(map(repr, plan.rules)) or "none")
    assert len(str(plan).splitlines()) == 1


@given(FAULTS)
def test_a_fault_parses_back_from_its_text(fault: Fault) -> None:
    """For every fault `parse_fault(repr(fault)) == fault`."""
    assert parse_fault(repr(fault)) == fault


@given(SPANS, st.integers(1, 1000))
def test_a_span_holds_its_first_and_nothing_before_it(span: Span, count: int) -> None:
    """A span begins with its first operation, ends with its last, and keeps its step."""
    assert span.first in span
    assert span.first - 1 not in span
    assert (count in span) == (
        count >= span.first
        and (span.last is None or count <= span.last)
        and (count - span.first) % span.step == 0
    )


@pytest.mark.parametrize(
    ("text", "struck"),
    [
        ("write#3:ENOSPC", [3]),
        ("write#3+:ENOSPC", [3, 4, 5, 6]),
        ("write#2..5:EIO", [2, 3, 4, 5]),
        ("write#1+2:short(7)", [1, 3, 5]),
        (" write#2:slow(50ms) ; close#1:EIO ", [2]),
        ("none", []),
        ("", []),
        ("open#1:EIO", []),
        ("*.tmp@write#1+:EIO", [2, 4, 6]),
        ("d/*@write#2:EIO", [2]),
        ("write#1:EIO;write#1+:EROFS", [1, 2, 3, 4, 5, 6]),
    ],
    ids=[
        "one",
        "from-on",
        "range",
        "every-second",
        "spaces",
        "none",
        "empty",
        "other-op",
        "glob",
        "folder",
        "two-rules",
    ],
)
def test_a_plan_strikes_the_operations_it_names(text: str, struck: list[int]) -> None:
    """Of six writes, by turns to `d/a` and `d/a.tmp`, exactly the named ones are struck and counted as fired."""
    injector = Injector(Plan.parse(text))
    hits = [
        k for k in range(1, 7) if injector.strike(Op("write", "d/a" if k % 2 else "d/a.tmp", size=8)).fault
    ]
    assert hits == struck
    assert injector.fired == len(struck)
    assert injector.operations == 6


def test_the_first_rule_that_strikes_decides() -> None:
    """Where two rules name one operation the first one is made real, and the second counts on."""
    injector = Injector(Plan.parse("write#1:EIO;write#1..2:EROFS"))
    names = [injector.strike(Op("write", "f")).fault for _ in range(3)]
    assert names == [Fault("EIO"), Fault("EROFS"), None]


def test_a_rename_is_matched_by_either_path() -> None:
    """A glob strikes a rename when the old or the new name matches."""
    for glob, hit in (("*.tmp", True), ("1.jsonl", True), ("*.txt", False)):
        injector = Injector(Plan.parse(f"{glob}@rename#1:EIO"))
        assert bool(injector.strike(Op("rename", "d/.x.tmp", "d/1.jsonl")).fault) is hit


def test_once_and_persistent_are_the_plans_of_a_sweep() -> None:
    """The two forms of a sweep print as `#k` and `#k+`."""
    assert str(once("write", 3, Fault("EIO"))) == "write#3:EIO"
    assert str(persistent("write", 3, Fault("short", 7))) == "write#3+:short(7)"


@pytest.mark.parametrize(
    ("total", "room"),
    [(100, None), (101, 9), (109, 1), (110, 0), (200, 0)],
    ids=["fits", "one-over", "one-fits", "none-fits", "far-over"],
)
def test_a_plan_of_bytes_says_how_many_still_fit(total: int, room: int | None) -> None:
    """A write of ten bytes past the limit is told its room; only one without any is struck by the errno."""
    injector = Injector(Plan.parse("bytes>100:ENOSPC"))
    strike = injector.strike(Op("write", "f", size=10), total)
    assert (strike.fault is None) is (room is None)
    assert max(strike.room, 0) == (room or 0)
    assert injector.fired == (room == 0)


WRONG = {
    "no-fault": ("write#1", "write#1", "OP#K:FAULT"),
    "no-span": ("write:EIO", "write:EIO", "OP#3"),
    "zero": ("write#0:EIO", "write#0:EIO", "count from 1"),
    "backwards": ("write#5..2:EIO", "write#5..2:EIO", "count from 1"),
    "zero-step": ("write#1+0:EIO", "write#1+0:EIO", "#1+2"),
    "unknown-op": ("wirte#1:EIO", "wirte#1:EIO", "the operations are mkdir, open"),
    "unknown-fault": ("write#1:ENOSPACE", "write#1:ENOSPACE", "the faults are ENOSPC"),
    "wrong-op-for-fault": ("open#1:short(3)", "open#1:short(3)", "it applies to write"),
    "missing-parameter": ("write#1:short", "write#1:short", "short(7)"),
    "needless-parameter": ("write#1:EIO(3)", "write#1:EIO(3)", "takes no parameter"),
    "no-unit": ("write#1:slow(50)", "write#1:slow(50)", "slow(50ms)"),
    "negative": ("write#1:short(-1)", "write#1:short(-1)", "number of bytes"),
    "empty-rule": ("write#1:EIO;", "''", "OP#K:FAULT"),
    "empty-glob": ("@write#1:EIO", "@write#1:EIO", "OP#K:FAULT"),
    "bytes-of-no-error": ("bytes>10:stuck", "bytes>10:stuck", "takes an error"),
    "bytes-without-number": ("bytes>x:ENOSPC", "bytes>x:ENOSPC", "bytes>N"),
    "foreign-digits": ("write#١:EIO", "write#١:EIO", "is no span"),
    "bytes-of-foreign-digits": ("bytes>١:ENOSPC", "bytes>١:ENOSPC", "bytes>N"),
    "second-rule": ("write#1:EIO;clsoe#1:EIO", "clsoe#1:EIO", "the operations are"),
    "words": ("disk full please", "disk full please", "OP#K:FAULT"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_text_gives_one_line_that_names_the_rule(name: str) -> None:
    """The error of a wrong plan is one line with the offending rule and what to write instead."""
    text, rule, advice = WRONG[name]
    with pytest.raises(PlanError) as caught:
        Plan.parse(text)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert rule in message
    assert advice in message


PIECES = st.sampled_from(
    ["write", "bytes>", "#", "1", "..", "+", ":", "EIO", "short", "(", "7ms)", ";", "@", "*", " ", "é"]
)


@given(st.text(max_size=12) | st.lists(PIECES, max_size=10).map("".join))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    """No text makes the parser fail in any other way, and what it accepts prints to a text it accepts again."""
    message = ""
    try:
        plan = Plan.parse(text)
    except PlanError as error:
        message = str(error)
    else:
        assert Plan.parse(str(plan)) == plan
    assert len(message.splitlines()) <= 1


def test_every_operation_and_fault_of_the_catalogue_can_be_planned() -> None:
    """Each operation a fault applies to can be written in a plan, and no other."""
    for name, kind in CATALOGUE.items():
        text = {"bytes": f"{name}(7)", "time": f"{name}(5ms)"}.get(kind.parameter, name)
        for op in OPS:
            if op in kind.ops:
                assert Plan.parse(f"{op}#1:{text}").rules[0].fault.name == name
            else:
                with pytest.raises(PlanError, match=f"does not apply to {op}; it applies to "):
                    Plan.parse(f"{op}#1:{text}")
