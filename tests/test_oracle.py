"""The oracle: what must be read back for each value, and the judge of one dump."""

import ast
import enum
import json
import math
from collections import OrderedDict, UserDict, UserString, deque
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings

np = pytest.importorskip("numpy")

import fault_injection.oracle  # noqa: E402
from fault_injection import strategies  # noqa: E402
from fault_injection.oracle import (  # noqa: E402
    DEFAULTS,
    READERS,
    Policies,
    changed,
    expect,
    expected_key,
    expected_value,
    judge_readers,
    judge_rows,
    picture,
    plain,
)
from fault_injection.oracle.names import distinct  # noqa: E402
from fault_injection.strategies.specimens import (  # noqa: E402
    BrokenKey,
    BrokenLength,
    BrokenMapping,
    BrokenSequence,
    BrokenText,
    Grade,
    LoudText,
    Point,
    Record,
    Role,
    Verdict,
)
from fault_injection.targets.base import Batch  # noqa: E402


def exact(value):
    """A text that tells every two JSON values of different types apart."""
    return json.dumps(value, allow_nan=False)


@pytest.fixture
def torch(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("torch")))
    return pytest.importorskip("torch")


WRITTEN = [
    pytest.param(None, None, id="none"),
    pytest.param(True, True, id="true"),
    pytest.param(2**70, 2**70, id="beyond-64-bits"),
    pytest.param(0.1, 0.1, id="float"),
    pytest.param(-0.0, -0.0, id="minus-zero"),
    pytest.param(math.nan, None, id="nan"),
    pytest.param("a\ud800b", "a\ufffdb", id="surrogate"),
    pytest.param(("a", [1]), ["a", [1]], id="tuple"),
    pytest.param({1: {None: [math.inf]}}, {"1": {"null": [None]}}, id="nested"),
    pytest.param(Point(1.0, 2.0), [1.0, 2.0], id="named-tuple"),
    pytest.param(Grade.FULL, 1, id="int-enum"),
    pytest.param(Role.USER, "user", id="str-enum"),
    pytest.param(LoudText("secret"), "secret", id="text-whose-str-differs"),
    pytest.param(range(2), [0, 1], id="range"),
    pytest.param(deque([1]), [1], id="deque"),
    pytest.param(UserDict(a=1), {"a": 1}, id="user-dict"),
    pytest.param(OrderedDict(b=1), {"b": 1}, id="ordered-dict"),
    pytest.param(np.bool_(True), True, id="numpy-bool"),
    pytest.param(np.uint64(2**64 - 1), 2**64 - 1, id="uint64"),
    pytest.param(np.float32(0.1), 0.10000000149011612, id="float32"),
    pytest.param(np.float16(0.1), 0.0999755859375, id="float16"),
    pytest.param(np.str_("a"), "a", id="numpy-text"),
    pytest.param(np.longdouble(0.5), 0.5, id="exact-long-double"),
    pytest.param(np.array(5), 5, id="0-d"),
    pytest.param(np.zeros((2, 0)), [[], []], id="empty-rows"),
    pytest.param(np.asfortranarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]], id="fortran"),
    pytest.param(np.array([1, 256], dtype=">i4"), [1, 256], id="big-endian"),
    pytest.param(np.arange(2000), list(range(2000)), id="long"),
    pytest.param(np.ma.masked_array([1, 2], mask=[0, 1]), [1, None], id="masked"),
    pytest.param(np.array([{"a": np.int8(1)}, math.nan], dtype=object), [{"a": 1}, None], id="object-array"),
    pytest.param(np.array(["a\0", "b"]), ["a", "b"], id="text-array"),
]


@pytest.mark.parametrize(("value", "right"), WRITTEN)
def test_what_must_be_read_back(value, right):
    """The oracle says value and JSON type of what must be read back, at any depth."""
    for given_, wanted in ((value, right), ({"k": [value]}, {"k": [right]})):
        outcome = expected_value(given_)
        assert exact(plain(outcome.node)) == exact(wanted)
        assert not outcome.refused


@pytest.mark.parametrize(
    ("make", "right"),
    [
        pytest.param(lambda t: t.tensor(3), 3, id="0-d"),
        pytest.param(lambda t: t.tensor([0.1], dtype=t.bfloat16), [0.10009765625], id="bfloat16"),
        pytest.param(lambda t: t.tensor([1.5]).to(t.float8_e5m2), [1.5], id="float8"),
        pytest.param(lambda t: t.tensor([True, False]), [True, False], id="bool"),
        pytest.param(
            lambda t: t.tensor([1.0, math.nan], requires_grad=True), [1.0, None], id="requires-grad"
        ),
        pytest.param(lambda t: t.arange(6).reshape(2, 3).t(), [[0, 3], [1, 4], [2, 5]], id="transposed"),
        pytest.param(lambda t: t.eye(2).to_sparse(), [[1.0, 0.0], [0.0, 1.0]], id="sparse"),
        pytest.param(lambda t: t.tensor([1 + 2j]).conj().imag, [-2.0], id="neg-view"),
    ],
)
def test_what_must_be_read_back_of_tensors(torch, make, right):
    """A dense tensor must be read back as its numbers, and a sparse one so or be refused."""
    outcome = expected_value(make(torch))
    assert exact(plain(outcome.node)) == exact(right)
    assert not outcome.refused


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(lambda t: t.zeros(2, dtype=t.complex64), "complex64", id="complex"),
        pytest.param(lambda t: t.zeros(2, device="meta"), "meta", id="meta"),
        pytest.param(lambda t: t.zeros(2, dtype=t.bits8), "bits8", id="bits"),
    ],
)
def test_tensors_without_numbers(torch, make, kind):
    """A tensor without JSON numbers must be refused, for S6, by its class, dtype, layout or device."""
    outcome = expected_value([make(torch)])
    assert outcome.refused
    assert {refusal.laws for refusal in outcome.refusals} == {("S6",)}
    assert kind in outcome.refusals[0].types
    assert "Tensor" in outcome.refusals[0].types


REFUSED = [
    *(pytest.param(make(), id=type(make()).__name__) for make in (set, bytes, bytearray, object, Record)),
    pytest.param(Verdict.RIGHT, id="enum"),
    pytest.param(1j, id="complex"),
    pytest.param(iter([1]), id="iterator"),
    pytest.param(np.datetime64("NaT", "s"), id="datetime64"),
    pytest.param(np.zeros(2, "c16"), id="complex-array"),
    pytest.param(np.zeros(2, "i4,f8"), id="records"),
    pytest.param(np.longdouble("0.1"), id="long-double"),
    pytest.param(10**5000, id="too-many-digits"),
    *(
        pytest.param(make(), id=make.__name__)
        for make in (BrokenText, BrokenSequence, BrokenLength, BrokenMapping)
    ),
    pytest.param({BrokenKey(): 1}, id="BrokenKey"),
]


@pytest.mark.parametrize("value", REFUSED)
def test_what_must_be_refused(value):
    """The oracle says that an error must come that names the type, at any depth."""
    for given_ in (value, [{"k": value}]):
        outcome = expected_value(given_)
        assert outcome.refused
        with pytest.raises(ValueError, match="is not declared"):
            plain(outcome.node)
    names = {name for refusal in outcome.refusals for name in refusal.types}
    assert type(value).__name__ in names or "BrokenKey" in names


def test_iterators_are_not_consumed():
    """Looking at a batch takes nothing out of an iterator."""
    iterator = iter([1, 2])
    expect(Batch(1, ["a"], ["b"], ["c"], [0.0], {"x": [iterator], "y": iterator}))
    assert list(iterator) == [1, 2]


def test_circles_must_be_refused():
    """What contains itself must be refused, and what two places share need not."""
    circle = [1]
    circle.append({"k": circle})
    shared = [1]
    assert expected_value(circle).refused
    assert plain(expected_value([shared, shared]).node) == [[1], [1]]


@pytest.mark.parametrize(("depth", "open_"), [(60, False), (2000, True)], ids=["shallow", "deep"])
def test_depth(depth, open_):
    """Nesting within the declared depth must be written, and deeper nesting may be refused."""
    value = 1
    for _ in range(depth):
        value = [value]
    outcome = expected_value(value)
    assert (bool(outcome.refusals), outcome.refused) == (open_, False)


KEYS = [
    pytest.param(1, "1", id="int"),
    pytest.param(True, "true", id="true"),
    pytest.param(None, "null", id="none"),
    pytest.param(1.0, "1.0", id="float"),
    pytest.param(math.nan, "NaN", id="nan"),
    pytest.param(-math.inf, "-Infinity", id="minus-infinity"),
    pytest.param((1, "a"), "(1, 'a')", id="tuple"),
    pytest.param(b"b", "b'b'", id="bytes"),
    pytest.param(frozenset({1}), "frozenset({1})", id="frozenset"),
    pytest.param(Grade.FULL, "1", id="int-enum"),
    pytest.param(Role.USER, "user", id="str-enum"),
    pytest.param(Verdict.RIGHT, "Verdict.RIGHT", id="enum"),
    pytest.param(np.int64(7), "7", id="int64"),
    pytest.param(np.bool_(True), "true", id="numpy-bool"),
    pytest.param(np.float32(0.1), "0.10000000149011612", id="float32"),
    pytest.param("\ud800", "\ufffd", id="surrogate"),
]


@pytest.mark.parametrize(("key", "text"), KEYS)
def test_keys(key, text):
    """Keys become text as in `json` where it takes them, and all others by `str`."""
    assert expected_key(key) == (text, ())
    if isinstance(key, (int, float, type(None))) and not isinstance(key, (enum.Enum, np.generic)):
        assert list(json.loads(json.dumps({key: 0}))) == [text]


SPELLED = [
    pytest.param(1, ["1"], id="int"),
    pytest.param(True, ["true", "True"], id="true"),
    pytest.param(None, ["null", "None"], id="none"),
    pytest.param(1.0, ["1.0", "1"], id="whole-float"),
    pytest.param(1e16, ["1e+16", "1e16"], id="large-float"),
    pytest.param(math.nan, ["NaN", "nan"], id="nan"),
    pytest.param(-math.inf, ["-Infinity", "-inf"], id="minus-infinity"),
    pytest.param((1, "a"), ["(1, 'a')", '[1, "a"]', '[1,"a"]'], id="tuple"),
    pytest.param(b"b", ["b'b'", "b"], id="bytes"),
    pytest.param(frozenset({1}), ["frozenset({1})", "[1]"], id="frozenset"),
    pytest.param(Grade.FULL, ["1", "Grade.FULL", "<Grade.FULL: 1>", "FULL"], id="int-enum"),
    pytest.param(Role.USER, ["user", "Role.USER", "USER"], id="str-enum"),
    pytest.param(Verdict.RIGHT, ["Verdict.RIGHT", "<Verdict.RIGHT: 'right'>", "RIGHT", "right"], id="enum"),
    pytest.param(np.int64(7), ["7", repr(np.int64(7))], id="int64"),
    pytest.param(np.bool_(True), ["true", "True"], id="numpy-bool"),
    pytest.param(np.float32(0.1), ["0.10000000149011612", "0.1"], id="float32"),
    pytest.param(date(2026, 1, 2), ["2026-01-02", "datetime.date(2026, 1, 2)"], id="date"),
]


@pytest.mark.parametrize(("key", "texts"), SPELLED)
def test_key_may_be_spelled_in_any_usual_way(key, texts):
    """A key that is no text may stand as its str, its repr or its JSON text, in a dict and as a column, and as nothing else."""
    for text in texts:
        cell = json.dumps({text: 0})
        assert laws(one({key: 0}), line(f'"x": {cell}')) == set()
        assert laws(one([{"k": {key: 0}}]), line(f'"x": [{{"k": {cell}}}]')) == set()
        assert laws(one(0, key=key), line(cell[1:-1])) == set()
        assert judge_readers(one({key: 0}, key=key), line(f"{json.dumps(text)}: {cell}"), readers=JSON) == ()
    text = isinstance(key, str)
    for wrong in ('"x": {}', '"x": {"other": 0}'):
        assert laws(one({key: 0}), line(wrong)) == {"S9" if text else "S5"}
    assert laws(one(0, key=key), line('"other": 0')) == {"C1" if text else "S5"}


JSON = (READERS["json"], READERS["strict"])


@pytest.mark.parametrize("text", ["a", "1", "nan"])
def test_key_that_is_text_is_spelled_in_one_way(text):
    """A text is read back as itself, and not as its repr or as JSON."""
    for wrong in (repr(text), json.dumps(text)):
        assert laws(one({text: 0}), line(f'"x": {json.dumps({wrong: 0})}')) == {"S9"}
        assert laws(one(0, key=text), line(json.dumps({wrong: 0})[1:-1])) == {"C1"}


NANS = (math.nan, -math.nan)


@pytest.mark.parametrize(
    ("value", "written", "broken"),
    [
        pytest.param({True: 1, "true": 2}, {"True": 1, "true": 2}, set(), id="apart-by-str"),
        pytest.param({True: 1, "true": 2}, {"true": 2, "True": 1}, set(), id="apart-in-another-order"),
        pytest.param({True: 1, "True": 2}, {"True (bool)": 1, "True": 2}, set(), id="renamed-by-str"),
        pytest.param({True: 1, "True": 2}, {"true": 1, "True": 2}, set(), id="apart-by-json"),
        pytest.param({NANS[0]: 1, NANS[1]: 2}, {"nan": 1, "nan (float)": 2}, set(), id="nans"),
        pytest.param({NANS[0]: 1, NANS[1]: 2}, {"nan (float)": 1, "nan": 2}, set(), id="nans-the-last-kept"),
        pytest.param({NANS[0]: 1, NANS[1]: 2}, {"nan": 2}, {"S1", "S5"}, id="merged-nans"),
        pytest.param({True: 1, "True": 2}, {"True": 2}, {"S5"}, id="merged-by-str"),
        pytest.param({1: 1, "1": 2}, {"1": 1, "1 (int)": 2}, {"S1"}, id="text-lost-its-name"),
        pytest.param({True: 1, None: 2}, {"True": 1}, {"S5"}, id="lost"),
        pytest.param({True: 1, None: 2}, {"True": 1, "key": 2}, {"S5"}, id="key-without-its-text"),
        pytest.param({True: 1, None: 2}, {"True": 2, "None": 1}, {"S1"}, id="values-exchanged"),
        pytest.param({True: 1}, {"True": 1, "true": 1}, {"S9"}, id="twice"),
        pytest.param(
            {np.float32(0.1): 1, 0.1: 2}, {"0.1": 2, "0.10000000149011612": 1}, set(), id="one-of-two-texts"
        ),
        pytest.param({np.float32(0.1): 1, 0.1: 2}, {"0.1": 1, "0.1 (float)": 2}, set(), id="one-text"),
    ],
)
def test_spelled_keys_are_told_apart(value, written, broken):
    """However keys are spelled, each is there once with its own value."""
    cell = json.dumps(written)
    found = laws(one(value), line(f'"x": {cell}'))
    assert found == broken
    columns = Batch(2, ["in"], ["out"], ["gt"], [0.5], {key: [item] for key, item in value.items()})
    assert bool(laws(columns, line(cell[1:-1]))) is bool(broken)


def test_column_is_spelled_in_one_way():
    """A column that is spelled otherwise in another row breaks S5."""
    batch = Batch(2, ["in"] * 2, ["out"] * 2, ["gt"] * 2, [0.5] * 2, {math.nan: [0, 1]})
    assert laws(batch, line('"nan": 0') + line('"nan": 1')) == set()
    assert laws(batch, line('"nan": 0') + line('"NaN": 1')) == {"S5"}


@pytest.mark.parametrize("key", [math.nan, True, Role.USER, (1,)], ids=repr)
def test_error_names_a_column_as_the_writer_spells_it(key):
    """An error may name a column whose name is no text by any text of that name."""
    for text in (str(key), repr(key), expected_key(key)[0]):
        assert laws(one({1}, key=key), None, TypeError(f"column {text!r}, row 0: a set")) == set()
        assert laws(one("a", key=key), None, TypeError(f"column {text!r}, row 0")) != set()
    assert laws(one({1}, key=key), None, TypeError("column 'other', row 0: a set")) == {"S7"}


@pytest.mark.parametrize("pair", [(True, "true"), (True, "True"), (None, "None")], ids=repr)
def test_keys_that_may_be_one_may_be_refused(pair):
    """Keys that one spelling makes one are refused by a writer that declares so, and written by one that tells them apart."""
    strict = Policies(collide="error")
    value = dict(zip(pair, (1, 2), strict=True))
    columns = Batch(2, ["in"], ["out"], ["gt"], [0.5], {key: [item] for key, item in value.items()})
    apart = {"null" if pair[1] == "None" else "True" if pair[1] == "true" else "true": 1, pair[1]: 2}
    for batch, content in ((one(value), f'"x": {json.dumps(apart)}'), (columns, json.dumps(apart)[1:-1])):
        refused = ValueError(f"column 'x', row 0: a dict with two keys {pair[1]!r}")
        assert laws(batch, None, refused, strict) == set()
        assert laws(batch, line(content), None, strict) == set()
        assert laws(batch, None, refused) == {"S5"}


def test_a_name_that_may_be_that_of_a_base_column():
    """A column that is called `score` in one spelling only may have the other, and never the place of the base column."""
    field = enum.Enum("Field", {"SCORE": "score"}, type=str).SCORE
    batch = one(1, key=field)
    for policies in (DEFAULTS, Policies(collide="error")):
        assert laws(batch, line('"Field.SCORE": 1'), policies=policies) == set()
        assert laws(batch, line("", score=1), policies=policies) & {"C1", "C2", "S5"}
    assert laws(batch, line('"extra_score": 1')) == set()
    assert laws(batch, None, ValueError("column 'score' is there twice"), Policies(collide="error")) == set()


@given(strategies.colliding_keys())
def test_colliding_keys_are_refused_or_named_apart(pair):
    """Two keys that are one as text are refused by one policy and named apart by the other, in a dict and as columns."""
    batch = Batch(1, ["a"], ["b"], ["c"], [0.0], {key: [0] for key in pair})
    strict = Policies(collide="error")
    assert [refusal.laws for refusal in expected_value(dict.fromkeys(pair, 0), strict).refusals] == [("S5",)]
    assert [refusal.laws for refusal in expect(batch, strict).refusals] == [("S5",)]
    assert "S5" in laws(one(dict.fromkeys(pair, 0)), line('"x": {"one": 0}'), policies=strict)
    assert len(plain(expected_value(dict.fromkeys(pair, 0)).node)) == 2
    assert expect(batch).refusals == ()
    assert len({column.name for column in expect(batch).columns}) == 7


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        pytest.param([1, "1"], ["1 (int)", "1"], id="text-keeps-it"),
        pytest.param(["1", 1], ["1", "1 (int)"], id="in-any-order"),
        pytest.param([True, "true", "true (bool)"], ["true (bool)_2", "true", "true (bool)"], id="taken"),
        pytest.param(["score", "extra_score"], ["extra_score_2", "extra_score"], id="base-name-taken"),
        pytest.param(["a", "b"], ["a", "b"], id="nothing-to-do"),
    ],
)
def test_keys_named_apart(keys, names):
    """Keys that are one as text have names of their own, by the declared rule."""
    texts = ["true" if key is True else str(key) for key in keys]
    assert distinct(keys, texts, ("score",)) == names


@pytest.mark.parametrize(
    ("policies", "value", "right"),
    [
        pytest.param(
            {"non_finite": "string"}, [math.nan, -math.inf], ["NaN", "-Infinity"], id="non-finite-string"
        ),
        pytest.param({"non_finite": "error"}, [math.nan], None, id="non-finite-error"),
        pytest.param({"unknown": "repr"}, {1}, "{1}", id="unknown-repr"),
        pytest.param({"unknown": "repr"}, BrokenText(), None, id="unknown-repr-raises"),
        pytest.param({"keys": "error"}, {1: 0}, None, id="keys-error"),
        pytest.param({"surrogates": "escape"}, "\ud800", "\ud800", id="surrogates-escape"),
    ],
)
def test_policies_of_values(policies, value, right):
    """Each policy changes what must come of the values that it is about."""
    outcome = expected_value(value, Policies(**policies))
    assert outcome.refused if right is None else exact(plain(outcome.node)) == exact(right)


@pytest.mark.parametrize(
    ("policies", "extras", "right"),
    [
        pytest.param({"ragged": "pad"}, {"x": [1]}, {"x": [1, None]}, id="ragged-pad"),
        pytest.param({"ragged": "pad"}, {"x": [1, 2, 3]}, None, id="ragged-too-long"),
        pytest.param(
            {"collide": "rename"}, {"score": [1, 2]}, {"extra_score": [1, 2]}, id="colliding-rename"
        ),
        pytest.param({"scalar": "repeat"}, {"x": "ab"}, {"x": ["ab", "ab"]}, id="scalar-repeat"),
        pytest.param({}, {"x": "ab"}, None, id="scalar-error"),
    ],
)
def test_policies_of_columns(policies, extras, right):
    """Each policy changes what must come of the columns that it is about."""
    batch = Batch(1, ["a", "b"], ["a", "b"], ["a", "b"], [0.0, 1.0], extras)
    expectation = expect(batch, Policies(**policies))
    assert expectation.refused is (right is None)
    if right is not None:
        found = {
            column.name: [plain(each.node) for each in column.outcomes] for column in expectation.columns
        }
        assert {name: found[name] for name in right} == right


def test_unknown_policy():
    """A policy that does not exist is one clear error."""
    with pytest.raises(ValueError, match="non_finite must be one of null, string, error, not 'zero'"):
        Policies(non_finite="zero")


def one(value=0, *, key="x"):
    return Batch(2, ["in"], ["out"], ["gt"], [0.5], {key: [value]})


def line(extra, **base):
    row = {"input": "in", "output": "out", "gts": "gt", "score": 0.5, "step": 2, **base}
    text = json.dumps(row)[:-1] + (f", {extra}" if extra else "") + "}\n"
    return text.encode("utf-8", "surrogatepass")


def laws(batch, content, error=None, policies=DEFAULTS, **options):
    return {law for law, _ in judge_rows(batch, policies, content, error, **options)}


@given(strategies.writable())
@settings(max_examples=50)
def test_right_file_is_right(batch):
    """A file of what the oracle says must be read back is found right."""
    expectation = expect(batch)
    values = {c.name: [plain(outcome.node) for outcome in c.outcomes] for c in expectation.columns}
    rows = [{name: values[name][row] for name in values} for row in range(expectation.rows)]
    content = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
    assert judge_rows(batch, DEFAULTS, content) == ()


@pytest.mark.parametrize(
    ("value", "written", "broken"),
    [
        pytest.param(np.arange(2), '"x": "[0 1]"', {"S1"}, id="array-as-text"),
        pytest.param(np.int64(3), '"x": "3"', {"S1"}, id="integer-as-text"),
        pytest.param(np.bool_(True), '"x": 1', {"S1"}, id="boolean-as-integer"),
        pytest.param(2, '"x": 2.0', {"S1"}, id="integer-as-float"),
        pytest.param([1, 2, 3], '"x": [1, 3]', {"S1"}, id="elided"),
        pytest.param(math.nan, '"x": NaN', {"S2"}, id="bare-nan"),
        pytest.param([math.inf], '"x": [1e999]', {"S2", "S4"}, id="infinity-as-a-number"),
        pytest.param("é", '"x": "Ã©"', {"S3", "S9"}, id="wrong-text"),
        pytest.param("a\ud800", '"x": "a\ud800"', {"S3"}, id="surrogate-in-the-bytes"),
        pytest.param(2**70, '"x": 1180591620717411303425', {"S4"}, id="digits"),
        pytest.param(0.1, '"x": 0.1000001', {"S4"}, id="rounded"),
        pytest.param({1: 2}, '"x": {}', {"S5"}, id="lost-key"),
        pytest.param({1: 2, "b": 3}, '"x": {"1": 2, "1": 2, "b": 3}', {"S5"}, id="two-equal-keys"),
        pytest.param({1: 1, "1": 2}, '"x": {"1": 2}', {"S5"}, id="merged-keys"),
        pytest.param({1}, '"x": "{1}"', {"S7"}, id="unknown-as-text"),
        pytest.param("a\u2028b", '"x": "a\u2028b"', {"S8"}, id="raw-line-break"),
        pytest.param("a", '"x": "b"', {"S9"}, id="another-text"),
        pytest.param("a", "", {"C1"}, id="vanished-column"),
        pytest.param("a", '"x": "a", "y": 1', {"S9"}, id="column-of-nobody"),
        pytest.param("a", '"x": "a"', set(), id="right"),
    ],
)
def test_wrong_value_breaks_its_law(value, written, broken):
    """Each way to write a value wrongly is found, for the law that it breaks."""
    assert laws(one(value), line(written)) == broken


@pytest.mark.parametrize(
    ("extras", "content", "broken"),
    [
        pytest.param({"x": [1, 2]}, line(""), {"C1"}, id="dropped-column"),
        pytest.param({"score": [1]}, line("", score=1), {"C2"}, id="replaced-column"),
        pytest.param({"x": "a"}, line('"x": "a"'), {"C4"}, id="split-text"),
        pytest.param({1: [0], "1": [1]}, line('"1": 1'), {"S5"}, id="merged-columns"),
    ],
)
def test_wrong_column_breaks_its_law(extras, content, broken):
    """Each way to write a column that does not fit is found, for the law that it breaks."""
    batch = Batch(2, ["in"], ["out"], ["gt"], [0.5], extras)
    assert laws(batch, content) == broken


@pytest.mark.parametrize(
    ("content", "broken"),
    [
        pytest.param(b"\xff\n", {"S3"}, id="encoding"),
        pytest.param(b"\xef\xbb\xbf" + line('"x": 0'), {"S3"}, id="byte-order-mark"),
        pytest.param(line('"x": 0')[:-1], {"S8"}, id="no-newline"),
        pytest.param(line('"x": 0') * 2, {"S8"}, id="too-many-lines"),
        pytest.param(b"[1]\n", {"S2"}, id="no-object"),
        pytest.param(b"{'x': 0}\n", {"S2"}, id="no-json"),
        pytest.param(None, {"S7"}, id="neither-file-nor-error"),
    ],
)
def test_wrong_file_breaks_its_law(content, broken):
    """A file that no strict reader takes is found, for the law that it breaks."""
    assert laws(one(), content) == broken


@pytest.mark.parametrize(
    ("value", "words", "broken"),
    [
        pytest.param({1}, "column 'x', row 0: a set cannot be written", set(), id="telling"),
        pytest.param({1}, "column x, row 1 (set)", set(), id="counted-from-1"),
        pytest.param({1}, "a set cannot be written", {"S7"}, id="no-column"),
        pytest.param({1}, "column 'x': a set", {"S7"}, id="no-row"),
        pytest.param({1}, "column 'x', row 0: cannot be written", {"S7"}, id="no-type"),
        pytest.param("a", "column 'x', row 0: a str cannot be written", {"S9"}, id="refused-without-need"),
        pytest.param("\ud800", "UnicodeEncodeError: surrogates not allowed", {"S3"}, id="surrogate"),
        pytest.param({np.int64(1): 0}, "TypeError: keys must be str, int", {"S5"}, id="key"),
        pytest.param(2**70, "TypeError: Integer exceeds 64-bit range", {"S4"}, id="big-integer"),
        pytest.param(np.arange(2), "TypeError: not JSON serializable", {"S1"}, id="array"),
    ],
)
def test_error_must_come_and_tell(value, words, broken):
    """An error is right where it must come and names column, row and type, and breaks a law elsewhere."""
    assert laws(one(value), None, TypeError(words)) == broken


def test_error_that_comes_too_late():
    """What the caller can mend must be raised by the call, and what it cannot may come later."""
    late = TypeError("column 'x': a str is no column")
    split = Batch(2, ["in"], ["out"], ["gt"], [0.5], {"x": "a"})
    assert laws(split, None, late, at_call=False) == {"C4"}
    assert laws(split, None, late) == set()
    unequal = Batch(2, ["in", "b"], ["out"], ["gt"], [0.5])
    assert laws(unequal, None, ValueError("index out of range"), at_call=False) == {"C3"}
    assert laws(one({1}), None, TypeError("column 'x', row 0: a set"), at_call=False) == set()


def uneven(**columns):
    """Two rows, but for these columns."""
    return Batch(
        7, **{"inputs": ["a"] * 2, "outputs": ["b"] * 2, "gts": ["c"] * 2, "scores": [0.5] * 2, **columns}
    )


PREFIX = "dump of step 7 to ROOT/2/1/7.jsonl was not accepted: "


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param({"outputs": ["b"]}, "columns differ in length: input 2, output 1", id="reference"),
        pytest.param({"outputs": ["b"]}, "column 'output' holds 1 values and not 2", id="name-and-numbers"),
        pytest.param({"outputs": ["b"]}, "column 'output' does not fit", id="name-in-quotes"),
        pytest.param({"outputs": ["b"]}, 'bad column "outputs"', id="argument-in-quotes"),
        pytest.param({"outputs": ["b"]}, "column output: list index out of range", id="name-of-a-column"),
        pytest.param({"outputs": ["b"]}, "the output column does not fit", id="column-behind"),
        pytest.param({"outputs": ["b"]}, "len(outputs) is 1", id="name-and-its-number"),
        pytest.param({"outputs": ["b"]}, "there are too few responses", id="too-few"),
        pytest.param({"outputs": ["b"]}, "inputs/outputs do not match", id="match"),
        pytest.param({"outputs": ["b"]}, "expected 2 rows, got 1", id="both-numbers"),
        pytest.param({"outputs": ["b"]}, "2 != 1", id="nothing-but-numbers"),
        pytest.param({"outputs": ["b"]}, "operands could not be broadcast: shapes (2,) (1,)", id="numpy"),
        pytest.param({"outputs": ["b"]}, "the columns do not agree", id="columns-at-all"),
        pytest.param({"outputs": ["b"]}, "zip() argument 2 is shorter than argument 1", id="zip"),
        pytest.param({"inputs": ["a"] * 3}, "column 'output' holds 2 values and not 3", id="first-differs"),
        pytest.param({"inputs": ["a"] * 3}, "column 'input' does not fit", id="the-first-itself"),
        pytest.param({"gts": ["c"] * 3}, "one ground truth per row, please", id="ground-truth"),
        pytest.param({"scores": [0.5]}, "a score is missing", id="missing"),
        pytest.param({"scores": []}, "score: 0", id="none"),
    ],
)
def test_error_tells_that_columns_are_of_different_lengths(columns, words):
    """An error at the call tells of columns that do not fit by a name, by numbers or in words, however it says so."""
    assert laws(uneven(**columns), None, ValueError(PREFIX + words)) == set()
    assert laws(uneven(**columns), None, ValueError(PREFIX + words), at_call=False) == {"C3"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param({"outputs": ["b"]}, "list index out of range", id="index-error"),
        pytest.param({"outputs": ["b"]}, "bad batch", id="bad-batch"),
        pytest.param({"outputs": ["b"]}, "bad input", id="bad-input"),
        pytest.param({"outputs": ["b"]}, "invalid output", id="invalid-output"),
        pytest.param({"outputs": ["b"]}, "column 'score' does not fit", id="a-column-that-fits"),
        pytest.param({"outputs": ["b"]}, "row 1: 2", id="a-row"),
        pytest.param({"outputs": ["b"]}, "step 2, batch 1", id="other-numbers"),
        pytest.param({"outputs": ["b"]}, "index 1 is out of bounds for axis 0 with size 2", id="numpy-index"),
        pytest.param({"outputs": ["b"]}, "not enough values to unpack (expected 2, got 1)", id="unpacking"),
        pytest.param({"outputs": ["b"]}, "f() missing 1 positional argument: 'outputs'", id="call"),
        pytest.param({"outputs": ["b"]}, "1.2 s", id="part-of-a-number"),
        pytest.param({"outputs": ["b"]}, "", id="nothing"),
    ],
)
def test_error_that_tells_nothing_of_lengths_is_accused(columns, words):
    """An error that tells neither which column does not fit nor that one does breaks C3, whatever step and path it names."""
    for error in (IndexError(words), WrapperError(PREFIX + words)):
        ((law, message),) = judge_rows(uneven(**columns), DEFAULTS, None, error)
        assert law == "C3"
        assert "the error does not name the column that is of another length: " in message


class WrapperError(Exception):
    """The writer's own wrapper."""


def test_what_is_told_of_lengths_may_stand_in_the_cause():
    """The writer's own error may tell nothing where what it was raised from does."""
    error = WrapperError("the batch was not accepted")
    error.__cause__ = ValueError("outputs: 1 of 2")
    assert laws(uneven(outputs=["b"]), None, error) == set()


def test_file_of_a_refused_batch():
    """A batch that is refused must not leave a file."""
    assert laws(one({1}), line('"x": 0'), TypeError("column 'x', row 0: a set")) == {"S7"}


def test_messages_name_row_and_key():
    """A finding says in one sentence which row and key, what was read, and what had to be."""
    batch = Batch(2, ["in"] * 2, ["out"] * 2, ["gt"] * 2, [0.5] * 2, {"x": [0, {"k": [np.int64(3)]}]})
    content = line('"x": 0') + line('"x": {"k": ["3"]}')
    assert judge_rows(batch, DEFAULTS, content) == (
        ("S1", 'row 1, key "x": the int64 at ["k"][0] is read back as a string "3" instead of an integer 3'),
    )


def test_cause_of_an_error_counts():
    """What an error says is what it and all it was raised from say."""
    error = RuntimeError("dump failed")
    error.__cause__ = TypeError("column 'x', row 0: a set")
    assert laws(one({1}), None, error) == set()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda extras: extras.update(uid=[1]), id="key-added"),
        pytest.param(lambda extras: extras["nan"].__setitem__(0, None), id="value-replaced"),
        pytest.param(lambda extras: extras["deep"][0]["k"].append(1), id="deep-list-grown"),
        pytest.param(lambda extras: extras["array"].__setitem__(0, 9), id="array-written"),
        pytest.param(lambda extras: extras["objects"][0].append(1), id="object-in-an-array"),
        pytest.param(lambda extras: extras.__setitem__("nan", [math.nan]), id="equal-column-replaced"),
    ],
)
def test_change_of_the_callers_objects_is_seen(change):
    """A change of what the caller handed over, at any depth, breaks C5, and reading it does not."""
    objects = np.empty(1, dtype=object)
    objects[0] = []
    extras = {"nan": [math.nan], "deep": [{"k": []}], "array": np.arange(2), "objects": objects}
    before = picture(extras)
    expect(Batch(1, ["a"], ["b"], ["c"], [0.0], extras))
    assert changed(before, picture(extras)) == ()
    change(extras)
    ((law, message),) = changed(before, picture(extras))
    assert law == "C5"
    assert "is changed by the dump" in message


@given(strategies.generations())
@settings(max_examples=50)
def test_looking_changes_nothing(batch):
    """The oracle changes nothing of any batch, and says the same twice."""
    given_ = {name: getattr(batch, name) for name in ("inputs", "outputs", "gts", "scores", "extras")}
    before = picture(given_)
    assert expect(batch).refusals == expect(batch).refusals
    assert changed(before, picture(given_)) == ()


def test_user_string_is_one_value():
    """A UserString may be written as its text or be refused, and is never split."""
    outcome = expected_value(UserString("ab"))
    assert (plain(outcome.node), outcome.refused, bool(outcome.refusals)) == ("ab", False, True)


def test_oracle_uses_no_writers_code():
    """Nothing of the oracle imports the reference writer."""
    folder = Path(fault_injection.oracle.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.py")]
    modules = {
        getattr(node, "module", None) or node.names[0].name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert len(trees) > 5
    assert not any(module.startswith("verl_dump") for module in modules)
