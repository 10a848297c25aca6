"""The readers: the strict parser, the optional packages and what they cannot hold, and verl's viewer."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.oracle import (
    READERS,
    StrictError,
    available_readers,
    judge_readers,
    missing_readers,
    parse,
    read_directory,
)
from fault_injection.oracle.limits import Limits, beyond, same
from fault_injection.targets.base import Batch

PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@given(PLAIN, st.booleans(), st.sampled_from((None, 1, "\t")))
def test_strict_parser_reads_json(value, ascii_only, indent):
    """The strict parser reads every JSON text as Python's own reader does, types included."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse(text) == value
    assert repr(parse(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "NaN", "Infinity", "-Infinity", "nan", "[NaN]", '{"a": -Infinity}'),
        *("[1,]", "[,1]", '{"a":1,}', "{a:1}", "{'a':1}", '{"a" 1}', "[1 2]", "[1", '{"a":', '"a', "]", "}"),
        *("01", "+1", "1.", ".5", "1e", "-", "0x1", "١", "1_0", "True", "None", "tru"),
        *(
            '"\n"',
            '"\t"',
            '"\0"',
            '"\\x"',
            '"\\u12"',
            '"\\u12G4"',
            "\ufeff1",
            "1 1",
            "1\v",
            "\u00a01",
            "/**/1",
        ),
    ],
    ids=ascii,
)
def test_strict_parser_refuses(text):
    """The strict parser takes nothing that RFC 8259 does not."""
    with pytest.raises(StrictError) as caught:
        parse(text)
    assert caught.value.law == "S2"


@pytest.mark.parametrize(
    ("text", "law"),
    [
        pytest.param('{"a":1,"a":2}', "S5", id="two-equal-keys"),
        pytest.param('[{"1":1,"\\u0031":2}]', "S5", id="two-equal-keys-escaped"),
        pytest.param("1e999", "S4", id="beyond-the-doubles"),
        pytest.param("1" * 5000, "S4", id="too-many-digits"),
    ],
)
def test_strict_parser_refuses_what_readers_disagree_about(text, law):
    """What one reader takes and another changes is refused for the law that it violates."""
    with pytest.raises(StrictError) as caught:
        parse(text)
    assert caught.value.law == law


def test_strict_parser_has_no_depth():
    """The strict parser reads any depth of nesting."""
    value = parse("[" * 20_000 + "1" + "]" * 20_000)
    for _ in range(20_000):
        (value,) = value
    assert value == 1


def test_strict_parser_joins_surrogates():
    """Two escapes that are a pair are one character, and half of a pair stays."""
    assert parse(r'"\ud83d\ude42"') == "🙂"
    assert parse(r'"\ud83d"') == "\ud83d"
    assert parse(r'"\ude42\ud83d"') == "\ude42\ud83d"


def batch(**extras):
    return Batch(3, ["a", "b"], ["c", "d"], ["e", "f"], [0.5, 1.0], extras)


def written(batch):
    """The file of a batch whose values are JSON's own."""
    columns = {"input": batch.inputs, "output": batch.outputs, "gts": batch.gts, "score": batch.scores}
    columns["step"] = [batch.step] * len(batch.inputs)
    columns.update(batch.extras)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


optional = pytest.mark.parametrize("name", list(READERS))


def reader(name):
    found = READERS[name]
    if found.missing:
        pytest.skip(f"{name} needs {', '.join(found.missing)}")
    return found


@pytest.mark.filterwarnings("ignore")
@optional
def test_reader_gets_back_what_was_written(name):
    """Each reader reads a plain batch equal, a hole and texts with every kind of character included."""
    given_ = batch(
        acc=[True, False],
        n=[1, -(2**53)],
        hole=["x", None],
        text=["\u2028\x85\ufeff\0🙂é", ""],
        points=[[1.5, 2.0], []],
        info=[{"a": 1, "b": "x"}, {"a": 2, "b": None}],
    )
    assert judge_readers(given_, written(given_), readers=(reader(name),)) == ()


@pytest.mark.filterwarnings("ignore")
@optional
def test_reader_tells_a_difference(name):
    """Each reader that gets back something else is a finding that names row, key and reader."""
    ((law, message),) = judge_readers(batch(n=[1, 2]), written(batch(n=[1, 3])), readers=(reader(name),))
    assert law == "S9"
    assert message == f'row 1, key "n": {name} reads 3 instead of 2'


@pytest.mark.filterwarnings("ignore")
@optional
def test_reader_cannot_read(name):
    """A file that a reader cannot read is a finding that names the reader."""
    ((law, message),) = judge_readers(batch(), b'{"a": \n', readers=(reader(name),))
    assert (law, message.startswith(name)) == ("S9", True)


def test_readers_are_named_when_they_are_absent():
    """Each reader is available, or named together with what it needs."""
    missing = missing_readers()
    assert len(missing) + len(available_readers()) == len(READERS)
    assert all("needs" in text for text in missing)
    assert {"json", "strict"} <= {reader.name for reader in available_readers()}


@pytest.mark.parametrize(
    ("values", "limits", "reason"),
    [
        pytest.param([1, "a"], Limits(mixed=False), "x holds integer and string", id="mixed-column"),
        pytest.param([[1, "a"]], Limits(mixed=False), "x[] holds integer and string", id="mixed-list"),
        pytest.param([{"a": 1}, {"a": "b"}], Limits(mixed=False), "x.a holds", id="mixed-key"),
        pytest.param([1, 0.5], Limits(mixed=False), "", id="integers-and-floats"),
        pytest.param([2**60, 0.5], Limits(mixed=False), "reads as doubles", id="promoted"),
        pytest.param([2**60, None], Limits(holes=False), "reads as doubles", id="promoted-by-a-hole"),
        pytest.param([2**70], Limits(highest=2**63), "an integer of 71 bits", id="big-integer"),
        pytest.param(["2026-01-01"], Limits(dates=False), "looks like a date", id="date"),
        pytest.param([{}], Limits(empty_objects=False), "an empty object", id="empty-object"),
        pytest.param([{"A": 1, "a": 2}], Limits(any_key=False), "differ in case", id="case"),
        pytest.param([{"": 1}], Limits(any_key=False), "an empty key", id="empty-key"),
        pytest.param([5e-324], Limits(subnormals=False), "subnormal", id="subnormal"),
        pytest.param([2**70, "2026-01-01", {}, 5e-324], Limits(), "", id="no-limits"),
    ],
)
def test_limits_of_readers(values, limits, reason):
    """What a reader cannot hold is told with its place, and nothing else is."""
    found = beyond([{"x": value} for value in values], limits)
    assert (reason in found) if reason else found == ""


@pytest.mark.parametrize(
    ("right", "got", "verdict"),
    [
        pytest.param(None, math.nan, True, id="hole"),
        pytest.param(1, 1.0, True, id="promoted"),
        pytest.param(1.0, 1, False, id="demoted"),
        pytest.param(True, 1, False, id="boolean-to-integer"),
        pytest.param(1, True, False, id="integer-to-boolean"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, True, id="key-of-another-row"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="strange-key"),
        pytest.param({"a": None}, {}, False, id="lost-key"),
        pytest.param([1], [1, 2], False, id="longer"),
        pytest.param("1", 1, False, id="text-to-integer"),
    ],
)
def test_sameness(right, got, verdict):
    """Only what a columnar reader cannot help is passed over."""
    assert same(right, got) is verdict


def test_viewer_reads_a_directory(tmp_path):
    """The viewer reads the rows of every step, and looks at nothing but *.jsonl."""
    (tmp_path / "3.jsonl").write_bytes(written(batch()))
    (tmp_path / "4.jsonl").write_bytes(b"")
    (tmp_path / ".5.tmp").write_bytes(b"torn")
    steps = read_directory(str(tmp_path))
    assert {step: len(rows) for step, rows in steps.items()} == {3: 2, 4: 0}
    assert steps[3][1]["input"] == "b"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("last.jsonl", b"{}\n", "no step number", id="stem"),
        pytest.param("1.jsonl", b"\xff\n", "utf-8", id="encoding"),
        pytest.param("1.jsonl", b'{"a": 1\n', "the text ends", id="torn"),
        pytest.param("1.jsonl", b"{}\n\n", "the text ends", id="empty-line"),
        pytest.param("1.jsonl", b"[1]\n", "no JSON object", id="no-object"),
        pytest.param("1.jsonl", b'{"a": NaN}\n', "a bare NaN", id="nan"),
    ],
)
def test_viewer_refuses(tmp_path, name, content, reason):
    """The viewer names the file that it cannot read, and why."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        read_directory(str(tmp_path))
    assert str(caught.value).startswith(name)
