"""The copy taken at the call, and the lines made of it."""

import enum
import gc
import json
import math
import re
import subprocess
import sys
import weakref
from collections import Counter, OrderedDict, UserDict, UserList, UserString, deque
from decimal import Decimal
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_dump import encoding
from verl_dump.encoding import encode, snapshot
from verl_dump.policies import Policies
from verl_dump.values import MAX_DEPTH

HUGE = 10**30 + 1
FAST = encoding._fast


@pytest.fixture(autouse=True, params=["json", *(["orjson"] if FAST else [])])
def encoder(request, monkeypatch):
    """Each test holds with the standard library's encoder, and with the fast one where it is installed."""
    monkeypatch.setattr(encoding, "_fast", FAST if request.param == "orjson" else None)


def take(*, n=1, **given):
    columns = {"inputs": ["i"] * n, "outputs": ["o"] * n, "scores": [0.0] * n}
    return snapshot(3, **{**columns, **given})


def text(batch):
    return b"".join(encode(batch)).decode("utf-8")


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def nested(depth, wrap=lambda inner: [inner]):
    value = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def rows(batch):
    return [json.loads(line, parse_constant=refuse_constant) for line in text(batch).splitlines()]


def written(value, **policies):
    """What a reader gets for `value` as a value of an extra column."""
    return rows(take(extras={"x": [value]}, policies=Policies(**policies)))[0]["x"]


def test_row_order():
    """The keys of a row come in the order input, output, gts, score, step, extras."""
    batch = take(gts=["g"], extras={"zeta": [1], "acc": [2]})
    assert list(rows(batch)[0].items()) == [
        ("input", "i"),
        ("output", "o"),
        ("gts", "g"),
        ("score", 0.0),
        ("step", 3),
        ("zeta", 1),
        ("acc", 2),
    ]


def test_a_line_has_nothing_needless():
    """A row has no spaces between its parts and no escapes that JSON does not need, so that it can be searched."""
    ascii_text = "".join(map(chr, range(32, 127))).replace('"', "").replace("\\", "")
    batch = take(inputs=[ascii_text + "é漢😀"], gts=[None], extras={"n": [{"k": [1, 0.5, True]}]})
    values = '"output":"o","gts":null,"score":0.0,"step":3,"n":{"k":[1,0.5,true]}'
    assert text(batch) == f'{{"input":"{ascii_text}é漢😀",{values}}}\n'


def test_without_gts():
    """A batch without ground truths has no such column."""
    assert "gts" not in rows(take())[0]


def test_missing_ground_truths_stay():
    """A ground truth of None is a null in its row, not a missing column."""
    assert rows(take(gts=[None]))[0]["gts"] is None


def test_empty_batch():
    """A batch without rows is a file without lines."""
    assert text(take(n=0)) == ""


def test_no_extras():
    """Extras of None are no extras."""
    assert rows(take(extras=None)) == rows(take(extras={}))


class Word(str, enum.Enum):
    GOOD = "good"


class Masked(str):
    __slots__ = ()

    def __str__(self):
        return "***"

    __repr__ = __str__


class Number(enum.IntEnum):
    ONE = 1


class Count(int):
    __slots__ = ()

    def __str__(self):
        return "***"

    __repr__ = __str__


class Measure(float):
    __slots__ = ()

    def __repr__(self):
        return "***"


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(True, True, id="true"),
        pytest.param(None, None, id="none"),
        pytest.param(0.1, 0.1, id="float"),
        pytest.param(5e-324, 5e-324, id="smallest-float"),
        pytest.param(HUGE, HUGE, id="beyond-64-bits"),
        pytest.param(-HUGE, -HUGE, id="negative-beyond-64-bits"),
        pytest.param([1, [2, {"a": (3, 4)}]], [1, [2, {"a": [3, 4]}]], id="nested"),
        pytest.param(Word.GOOD, "good", id="str-enum"),
        pytest.param(Number.ONE, 1, id="int-enum"),
        pytest.param(Count(7), 7, id="int-of-other-text"),
        pytest.param(Measure(0.5), 0.5, id="float-of-other-text"),
        pytest.param(Point(1, 2), [1, 2], id="named-tuple"),
        pytest.param(range(3), [0, 1, 2], id="range"),
        pytest.param(UserDict(a=1), {"a": 1}, id="user-dict"),
        pytest.param(OrderedDict(b=1, a=2), {"b": 1, "a": 2}, id="ordered-dict"),
        pytest.param(["a", "b"], ["a", "b"], id="strings"),
        pytest.param([1.0, 2.5], [1.0, 2.5], id="floats"),
        pytest.param([1e308, 1e308], [1e308, 1e308], id="floats-whose-sum-overflows"),
        pytest.param([], [], id="empty-list"),
        pytest.param(UserString("ab"), "ab", id="user-string"),
        pytest.param(Masked("secret"), "secret", id="text-of-other-str"),
        pytest.param(deque([1, 2]), [1, 2], id="deque"),
        pytest.param(Counter("aab"), {"a": 2, "b": 1}, id="counter"),
        pytest.param([1, 2.5, "a", None, True], [1, 2.5, "a", None, True], id="mixed"),
        pytest.param([1, HUGE], [1, HUGE], id="integers"),
        pytest.param(-0.0, -0.0, id="negative-zero"),
        pytest.param(1e16, 1e16, id="float-with-exponent"),
        pytest.param("\x00\x1f\x7f\ufeff", "\x00\x1f\x7f\ufeff", id="control-characters"),
    ],
)
def test_value_and_type_stay(value, expected):
    """A value is read back with its value and its JSON type, at any depth."""
    assert written(value) == expected
    assert json.dumps(written([value])) == json.dumps([expected])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=["nan", "inf", "minus-inf"])
def test_non_finite_is_null(value):
    """A number that is not finite is null at any depth."""
    assert written(value) is None
    assert written([1.0, value]) == [1.0, None]
    assert written({"a": [{"b": value}]}) == {"a": [{"b": None}]}
    assert rows(take(scores=[value]))[0]["score"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
    ids=["nan", "inf", "minus-inf"],
)
def test_non_finite_policies(value, text):
    """By policy a number that is not finite is its name as text, or an error that names column, row and type."""
    assert written([{"a": value}], non_finite="string") == [{"a": text}]
    with pytest.raises(ValueError, match=f"column 'x', row 0: a float is not finite: {text}"):
        written([1.0, value], non_finite="error")


def test_opposite_infinities_are_null():
    """Infinities that cancel out in a sum are null all the same."""
    assert written([math.inf, -math.inf, 1.0]) == [None, None, 1.0]


@pytest.mark.parametrize(
    "char", [*"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"], ids=lambda char: f"u{ord(char):04x}"
)
def test_one_row_is_one_line(char):
    """A row is one line for a reader that splits wherever `str.splitlines` does, and the text is unchanged."""
    batch = take(n=2, inputs=[f"a{char}b", char], extras={f"k{char}": [{char: char}] * 2})
    assert len(text(batch).splitlines()) == 2
    assert rows(batch)[0]["input"] == f"a{char}b"
    assert rows(batch)[1][f"k{char}"] == {char: char}


def test_lone_surrogate():
    """A lone surrogate becomes U+FFFD in its place, and all else of the line is as handed over."""
    batch = take(n=2, inputs=["a\ud800b\U0001f600", "\udfff"], outputs=["漢字", "o"])
    assert [row["input"] for row in rows(batch)] == ["a\ufffdb\U0001f600", "\ufffd"]
    assert [row["output"] for row in rows(batch)] == ["漢字", "o"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param(1, "1", id="int"),
        pytest.param(True, "true", id="true"),
        pytest.param(False, "false", id="false"),
        pytest.param(None, "null", id="none"),
        pytest.param(0.5, "0.5", id="float"),
        pytest.param((1, "a"), "(1, 'a')", id="tuple"),
        pytest.param(b"b", "b'b'", id="bytes"),
        pytest.param(Number.ONE, "1", id="int-enum"),
        pytest.param(Count(7), "7", id="int-of-other-text"),
        pytest.param(Measure(0.5), "0.5", id="float-of-other-text"),
        pytest.param(Decimal("1.50"), "1.50", id="decimal"),
        pytest.param(Word.GOOD, "good", id="str-enum"),
        pytest.param("\ud800", "\ufffd", id="lone-surrogate"),
        pytest.param(math.nan, "NaN", id="nan"),
        pytest.param(-math.inf, "-Infinity", id="minus-infinity"),
        pytest.param(Masked("secret"), "secret", id="text-of-other-str"),
    ],
)
def test_keys_become_text(key, expected):
    """A key of any kind becomes text, as a key of a dict and as the name of a column."""
    assert written({key: 1}) == {expected: 1}
    assert rows(take(extras={key: [1]}))[0][expected] == 1


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        pytest.param((1, "1"), ["1 (int)", "1"], id="int-first"),
        pytest.param(("1", 1), ["1", "1 (int)"], id="text-first"),
        pytest.param((None, "null"), ["null (NoneType)", "null"], id="none"),
        pytest.param((True, "true"), ["true (bool)", "true"], id="true"),
        pytest.param(("\ud800", "\ud801"), ["\ufffd", "\ufffd (str)"], id="surrogates"),
        pytest.param(("\ud800", "\ufffd"), ["\ufffd (str)", "\ufffd"], id="surrogate-and-its-text"),
        pytest.param((1, "1", "1 (int)"), ["1 (int)_2", "1", "1 (int)"], id="other-name-taken"),
        pytest.param(
            tuple(float("nan") for _ in range(4)),
            ["NaN", "NaN (float)", "NaN (float)_2", "NaN (float)_3"],
            id="nans",
        ),
    ],
)
def test_keys_never_merge(keys, names):
    """Of keys that are one as text those that are text keep it, others get their type, in a dict and as columns."""
    assert list(written(dict(zip(keys, range(3), strict=False))).items()) == list(
        zip(names, range(3), strict=False)
    )
    assert list(rows(take(extras={key: [0] for key in keys}))[0])[4:] == names
    with pytest.raises(ValueError, match=r"column 'x', row 0: a dict has two keys '.*', as text"):
        written(dict.fromkeys(keys, 0), collide="error")
    with pytest.raises(ValueError, match=r"the row has two keys '.*', as text"):
        take(extras={key: [0] for key in keys}, policies=Policies(collide="error"))


@pytest.mark.parametrize("name", ["input", "output", "gts", "score", "step"])
def test_extra_named_like_a_base_column(name):
    """An extra with the name of a base column gets another that no column has, or by policy is an error."""
    assert rows(take(extras={name: [7]}))[0] == {**rows(take())[0], f"extra_{name}": 7}
    both = rows(take(extras={name: [7], f"extra_{name}": [8]}))[0]
    assert both == {**rows(take())[0], f"extra_{name}": 8, f"extra_{name}_2": 7}
    with pytest.raises(ValueError, match=f"the row has two keys '{name}', as text: rename one"):
        take(extras={name: [1]}, policies=Policies(collide="error"))


def test_unequal_base_columns():
    """Base columns of unequal length are an error at the call that names every length."""
    with pytest.raises(ValueError, match="input 2, output 1, gts 2, score 2"):
        snapshot(1, inputs=["a", "b"], outputs=["c"], gts=["d", "e"], scores=[1, 2])


def test_ragged_extra():
    """An extra of another length is an error at the call that names it, never a dropped column."""
    with pytest.raises(ValueError, match="column 'acc' has 3 values for 2 rows"):
        take(n=2, extras={"acc": [1, 2, 3]})


def test_ragged_extra_is_padded():
    """By policy null fills up a shorter extra at its end, and a longer one is an error all the same."""
    pad = Policies(ragged="pad")
    assert [row["acc"] for row in rows(take(n=3, extras={"acc": [1.5]}, policies=pad))] == [1.5, None, None]
    with pytest.raises(ValueError, match="column 'acc' has 3 values for 2 rows"):
        take(n=2, extras={"acc": [1, 2, 3]}, policies=pad)


@pytest.mark.parametrize("value", ["abc", {"a": 1}, None, 3], ids=lambda v: type(v).__name__)
def test_scalar_extra_is_repeated(value):
    """By policy an extra that is no column is the value of every row; a base column that is none is an error."""
    batch = take(n=2, extras={"x": value}, policies=Policies(scalar="repeat"))
    assert [row["x"] for row in rows(batch)] == [value, value]
    with pytest.raises(TypeError, match="column 'output'"):
        take(outputs=value, policies=Policies(scalar="repeat"))


@pytest.mark.parametrize(
    "values", ["abc", b"abc", {"a": 1}, None, 3, 1.5, {1, 2}, iter([1])], ids=lambda v: type(v).__name__
)
def test_no_column(values):
    """What is no column of values is an error at the call that names column and type."""
    with pytest.raises(TypeError, match=f"column 'x': a {type(values).__name__} is no column"):
        take(extras={"x": values})
    with pytest.raises(TypeError, match="column 'output'"):
        take(outputs=values)


def test_extras_of_another_kind():
    """Extras that are no dict of columns are one clear error."""
    with pytest.raises(TypeError, match="extras must be a dict of columns, not a list"):
        take(extras=["acc"])


class Hostile:
    def __len__(self):
        raise RuntimeError("no length")

    def __getitem__(self, index):
        raise RuntimeError("no item")

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "value", [{1, 2}, b"b", bytearray(b"b"), 1j, object(), Hostile(), pytest], ids=lambda v: type(v).__name__
)
def test_unknown_type(value):
    """A value without a JSON type is an error at the call that names column, row and type."""
    with pytest.raises(TypeError, match=f"column 'x', row 1: a {type(value).__name__} cannot be written"):
        take(n=2, extras={"x": [1, value]})
    with pytest.raises(TypeError, match=f"column 'x', row 0: a {type(value).__name__} cannot be written"):
        take(extras={"x": [[{"deep": value}]]})


def test_unknown_type_as_repr():
    """By policy a value without a JSON type is its repr; one whose repr raises is a text that says so."""
    assert written([{1}, b"b", 1j], unknown="repr") == ["{1}", "b'b'", "1j"]
    assert written(Hostile(), unknown="repr") == "<a Hostile raises RuntimeError: no text>"
    assert written({Hostile(): 1}, unknown="repr") == {"<a Hostile raises RuntimeError: no text>": 1}


def test_key_without_text():
    """A key whose own method raises is an error that names column, row and type."""
    with pytest.raises(TypeError, match="column 'x', row 0: a Hostile raises RuntimeError: no text"):
        take(extras={"x": [{Hostile(): 1}]})
    with pytest.raises(TypeError, match="a Hostile raises RuntimeError: no text"):
        take(extras={Hostile(): [1]})


class BrokenList(list):
    def __iter__(self):
        raise BrokenError

    __len__ = __iter__


class BrokenDict(UserDict):
    def items(self):
        raise BrokenError


class BrokenError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "make", [BrokenList, BrokenDict, lambda: BrokenDict(a=1)], ids=["list", "dict", "full-dict"]
)
def test_broken_container(make):
    """A container whose own methods raise is an error at the call that names column, row and its type."""
    kind = type(make()).__name__
    with pytest.raises(TypeError, match=f"column 'x', row 0: a {kind} raises BrokenError"):
        take(extras={"x": [[{"a": make()}]]})


def test_broken_columns():
    """A column, or the dict of them, whose own methods raise is an error at the call that names its type."""
    with pytest.raises(TypeError, match="column 'x': a BrokenList raises BrokenError"):
        take(extras={"x": BrokenList()})

    class Extras(UserDict):
        def keys(self):
            raise BrokenError

    with pytest.raises(TypeError, match="a Extras raises BrokenError"):
        take(extras=Extras())


def test_class_that_raises():
    """An object that raises when it is asked for its class is an error that names column, row and type."""

    class Lazy:
        @property
        def __class__(self):
            raise RuntimeError("not loaded")

    with pytest.raises(TypeError, match="column 'x', row 0: a Lazy raises RuntimeError"):
        take(extras={"x": [Lazy()]})


def test_proxies():
    """Proxies, whose type is one and whose class is that of what they stand for, are each written as that."""
    one, other = UserList([1]), UserDict(a=1)
    assert written([weakref.proxy(one), weakref.proxy(other)]) == [[1], {"a": 1}]


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: {"k": v}, lambda v: (v,)], ids=["list", "dict", "tuple"]
)
def test_depth(wrap):
    """A value of 100 levels is written whole, and a deeper one is an error that names column and row."""
    assert written(nested(100, wrap)) == json.loads(json.dumps(nested(100, wrap)))
    for depth in (101, 2000):
        with pytest.raises(ValueError, match=r"column 'x', row 0: a (list|dict|tuple) is nested too deeply"):
            written(nested(depth, wrap))


def test_little_stack_left():
    """Where the caller has little stack left, a deep value is the same error."""

    def sink(frames):
        return sink(frames - 1) if frames else written(nested(MAX_DEPTH))

    with pytest.raises((ValueError, RecursionError)) as caught:
        for frames in range(sys.getrecursionlimit()):
            sink(frames)
    assert "column 'x', row 0: a list is nested too deeply" in str(caught.value)


@pytest.mark.parametrize("name", ["non_finite", "unknown", "ragged", "collide", "scalar"])
def test_policies_are_checked(name):
    """A policy of another name is an error that lists what there is."""
    with pytest.raises(ValueError, match=f"{name} must be one of .*error.*, not 'drop'"):
        Policies(**{name: "drop"})


def test_circle():
    """A value that contains itself is an error at the call that names column and row."""
    circle = []
    circle.append(circle)
    with pytest.raises(ValueError, match="column 'x', row 1: a list is nested too deeply or contains itself"):
        take(n=2, extras={"x": [1, circle]})


def test_number_too_long():
    """A number of more digits than a reader takes is an error at the call."""
    for value in (1 << 20_000, [1, 1 << 20_000], [1, -(1 << 20_000)]):
        with pytest.raises(ValueError, match="column 'x', row 0: an int of 20001 bits"):
            take(extras={"x": [value]})


def test_memory_error_stays():
    """Want of memory while a value is copied is not taken for a bad value."""

    class Hungry(UserDict):
        def items(self):
            raise MemoryError

    with pytest.raises(MemoryError):
        take(extras={"x": [Hungry()]})


def test_nothing_is_shared():
    """What the caller changes afterwards, at any depth, does not change the copy."""
    inner, inputs, column = {"a": [1]}, ["i"], [None]
    column[0] = inner
    extras = {"x": column}
    batch = take(inputs=inputs, extras=extras)
    inner["a"].append(2)
    inner["b"] = 3
    inputs[0] = "changed"
    column.append(4)
    extras["y"] = [5]
    assert rows(batch) == [{"input": "i", "output": "o", "score": 0.0, "step": 3, "x": {"a": [1]}}]


def test_caller_is_not_changed():
    """What the caller handed over is as it was."""
    extras = {1: [{2: math.nan}]}
    take(extras=extras)
    assert list(extras) == [1]
    assert list(extras[1][0]) == [2]
    assert math.isnan(extras[1][0][2])


class Watched:
    """Makes objects that can be watched by a weak reference."""

    class List(list):
        pass

    class Dict(dict):
        pass

    class Text(str):
        __slots__ = ("__weakref__",)


def test_nothing_is_kept():
    """The copy holds none of the objects that the caller handed over, once he has let go of them."""
    column = Watched.List([Watched.Dict(a=Watched.List([Watched.Text("t")])), None])
    seen = [weakref.ref(each) for each in (column, column[0], column[0]["a"], column[0]["a"][0])]
    extras = Watched.Dict(x=column, y=Watched.List(["a", "b"]), z=Watched.List([1, 2]))
    seen += [weakref.ref(extras), weakref.ref(extras["y"]), weakref.ref(extras["z"])]
    batch = take(n=2, extras=extras)
    del column, extras
    gc.collect()
    assert [ref() for ref in seen] == [None] * 7
    assert rows(batch)[0]["x"] == {"a": ["t"]}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters())
    | st.sampled_from(["\ud800", "a\u2028\x85\u2029b", "\x00\x1f\x7f\ufeff", "“…”"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=json_values)
def test_encoders_agree(value):
    """Whatever is written, both encoders write lines that are read back alike, to the last bit and type."""
    batch = take(extras={"x": [value]})
    lines = []
    for fast in (None, FAST):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoding, "_fast", fast)
            lines.append(text(batch))
    assert lines[0].splitlines() == [lines[0].removesuffix("\n")]
    assert repr(json.loads(lines[0])) == repr(json.loads(lines[1]))


def test_size():
    """The estimated size covers the text held, and grows with what is nested."""
    assert take(inputs=["x" * 100_000]).size > 100_000
    assert take(extras={"x": [[0.5] * 1000]}).size > 24_000
    assert take(extras={"x": [{"k": list(range(1000))}]}).size > 28_000


def test_blocks():
    """A file is encoded in blocks of about 1 MiB, each of whole lines."""
    blocks = list(encode(take(n=50, inputs=["x" * 100_000] * 50)))
    assert len(blocks) == 5
    assert all((1 << 20) <= len(block) < (1 << 20) + 101_000 for block in blocks[:-1])
    assert all(block.endswith(b"\n") for block in blocks)
    lines = [json.loads(line) for block in blocks for line in block.splitlines()]
    assert [len(row["input"]) for row in lines] == [100_000] * 50


def test_no_import():
    """Nothing that a trainer may lack is imported."""
    code = "import sys, verl_dump; print([n for n in ('numpy', 'torch', 'pandas', 'ray', 'verl') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda np: np.bool_(True), True, id="bool"),
        pytest.param(lambda np: np.int8(-3), -3, id="int8"),
        pytest.param(lambda np: np.uint64(2**64 - 1), 2**64 - 1, id="uint64"),
        pytest.param(lambda np: np.float32(0.1), 0.10000000149011612, id="float32"),
        pytest.param(lambda np: np.float64(0.1), 0.1, id="float64"),
        pytest.param(lambda np: np.float64("nan"), None, id="nan"),
        pytest.param(lambda np: np.str_("a"), "a", id="str"),
        pytest.param(lambda np: np.array(5), 5, id="zero-dim"),
        pytest.param(lambda np: np.array(None), None, id="zero-dim-none"),
        pytest.param(lambda np: np.arange(5000), list(range(5000)), id="long"),
        pytest.param(lambda np: np.asfortranarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]], id="fortran"),
        pytest.param(lambda np: np.array([1.5, np.inf]), [1.5, None], id="inf-inside"),
        pytest.param(lambda np: np.array([1, 256], dtype=">i4"), [1, 256], id="big-endian"),
        pytest.param(
            lambda np: np.array([{"a": np.int8(1)}, [2]], dtype=object), [{"a": 1}, [2]], id="object"
        ),
        pytest.param(lambda np: np.ma.masked_array([1, 2], mask=[0, 1]), [1, None], id="masked"),
        pytest.param(lambda np: np.longdouble(0.5), 0.5, id="long-double"),
        pytest.param(lambda np: np.array([0.5, np.nan], dtype="g"), [0.5, None], id="long-doubles"),
        pytest.param(lambda np: {np.int64(7): np.bool_(False)}, {"7": False}, id="key"),
        pytest.param(lambda np: {np.bool_(False): 1}, {"false": 1}, id="bool-key"),
        pytest.param(lambda np: {np.float32(0.1): 1}, {"0.10000000149011612": 1}, id="float32-key"),
        pytest.param(lambda np: {np.datetime64("2026-01-02"): 1}, {"2026-01-02": 1}, id="date-key"),
    ],
)
def test_numpy(make, expected):
    """A numpy value is written as Python's own value of the same JSON type, whole."""
    value = make(pytest.importorskip("numpy"))
    assert written(value) == expected
    assert json.dumps(written(value)) == json.dumps(expected)


@pytest.mark.parametrize("dtype", ["c16", "M8[ns]", "m8[s]", "S3", "i4,f4"])
def test_numpy_without_json_type(dtype):
    """A numpy value that `tolist` would change or leave as it is raises and names the dtype."""
    np = pytest.importorskip("numpy")
    array = np.zeros(2, dtype=dtype)

    def said(place, value):
        dtype = re.escape(str(value.dtype))
        return f"^column 'x'{place}: a {type(value).__name__} of dtype {dtype} cannot be written"

    with pytest.raises(TypeError, match=said(", row 0", array)):
        take(extras={"x": [array]})
    with pytest.raises(TypeError, match=said(", row 0", array[0])):
        take(extras={"x": [array[0]]})
    with pytest.raises(TypeError, match=said("", array)):
        take(n=2, extras={"x": array})


def test_long_double_that_no_double_holds():
    """A long double that a double would round is an error, or by policy its repr with all of its digits."""
    np = pytest.importorskip("numpy")
    value = np.nextafter(np.longdouble(1), np.longdouble(2))
    if value == float(value):
        pytest.skip("long doubles are doubles on this platform")
    with pytest.raises(TypeError, match=r"column 'x', row 0: a longdouble of dtype .* cannot be written"):
        written(value)
    assert written([np.array([value])], unknown="repr") == [[repr(value)]]


def test_numpy_columns():
    """An array is a column with a value for each of its first dimension; a 0-d array is none."""
    np = pytest.importorskip("numpy")
    batch = take(
        n=2, scores=np.array([1.5, np.nan], dtype=np.float32), extras={"x": np.arange(4).reshape(2, 2)}
    )
    assert [(row["score"], row["x"]) for row in rows(batch)] == [(1.5, [0, 1]), (None, [2, 3])]
    with pytest.raises(TypeError, match="column 'x': a ndarray is no column"):
        take(extras={"x": np.array(1)})


def test_numpy_is_copied():
    """An array that the caller changes afterwards is written as it was."""
    np = pytest.importorskip("numpy")
    array, nested = np.array([1, 2]), np.array([{"a": [1]}], dtype=object)
    batch = take(n=2, extras={"x": array, "y": [nested, nested]})
    array[0] = 9
    nested[0]["a"].append(9)
    assert [(row["x"], row["y"]) for row in rows(batch)] == [(1, [{"a": [1]}]), (2, [{"a": [1]}])]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda t: t.tensor(3), 3, id="zero-dim"),
        pytest.param(lambda t: t.tensor([0.5, 2.0], dtype=t.bfloat16), [0.5, 2.0], id="bfloat16"),
        pytest.param(lambda t: t.tensor([1.0], requires_grad=True), [1.0], id="requires-grad"),
        pytest.param(lambda t: t.tensor([True, False]), [True, False], id="bool"),
        pytest.param(lambda t: t.tensor([float("nan"), 1.0]), [None, 1.0], id="nan"),
        pytest.param(lambda t: t.arange(6).reshape(2, 3).t(), [[0, 3], [1, 4], [2, 5]], id="non-contiguous"),
    ],
)
def test_torch(make, expected):
    """A tensor is written as the nested list of its values."""
    assert written(make(pytest.importorskip("torch"))) == expected


def test_torch_without_values():
    """A tensor that has no values to write raises and names the column."""
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="column 'x', row 0"):
        take(extras={"x": [torch.zeros(2, device="meta")]})
    with pytest.raises(TypeError, match="column 'x', row 0: a complex cannot be written"):
        take(extras={"x": [torch.zeros(2, dtype=torch.complex64)]})


def test_torch_columns():
    """A tensor is a column with a value for each of its first dimension, as it was at the call."""
    torch = pytest.importorskip("torch")
    scores = torch.tensor([1.0, 2.0])
    batch = take(n=2, scores=scores)
    scores.zero_()
    assert [row["score"] for row in rows(batch)] == [1.0, 2.0]


@pytest.mark.parametrize("layout", ["strided", "jagged"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_torch_nested(layout, tmp_path, monkeypatch):
    """The parts of a nested tensor are lists of their own length, in a row and as the rows of a column."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # made by the first jagged tensor
    torch = pytest.importorskip("torch")
    nested_tensor = torch.nested.nested_tensor([torch.ones(2), torch.zeros(1)], layout=getattr(torch, layout))
    assert written(nested_tensor) == [[1.0, 1.0], [0.0]]
    assert [row["x"] for row in rows(take(n=2, extras={"x": nested_tensor}))] == [[1.0, 1.0], [0.0]]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda t: t.eye(2).to_sparse(), id="sparse"),
        pytest.param(lambda t: t.zeros(2, device="meta"), id="meta"),
        pytest.param(lambda t: t.quantize_per_tensor(t.ones(2), 0.5, 0, t.qint8), id="quantized"),
        pytest.param(lambda t: t.zeros(2, dtype=t.bits8), id="bits"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation")
def test_torch_says_what_tensor(make):
    """A tensor whose values cannot be had is one line that names column, row, dtype, layout and device."""
    value = make(pytest.importorskip("torch"))
    with pytest.raises(TypeError, match="column 'x', row 0: a Tensor of torch") as caught:
        take(extras={"x": [[value]]})
    assert f"{value.dtype}, {value.layout}, on {value.device} raises " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_torch_is_not_kept():
    """The copy holds no tensor or array, nor the memory of one."""
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    tensor, array = torch.ones(2, 3), np.ones((2, 3))
    seen = [weakref.ref(tensor), weakref.ref(array)]
    batch = take(n=2, extras={"t": tensor, "a": array, "c": [tensor[0], {"deep": array}]})
    del tensor, array
    gc.collect()
    assert [ref() for ref in seen] == [None, None]
    assert rows(batch)[1]["t"] == [1.0, 1.0, 1.0]


def test_numpy_as_repr():
    """By policy each element of a dtype without a JSON type is its repr, and nothing is left out."""
    np = pytest.importorskip("numpy")
    days = np.arange(2000).astype("M8[D]")
    assert written(days, unknown="repr") == [repr(day) for day in days]
    assert written(days[0], unknown="repr") == repr(days[0])
    assert written(np.zeros((), dtype="c16"), unknown="repr") == repr(np.complex128(0))
    assert written(np.array([b"ab"]), unknown="repr") == [repr(np.bytes_(b"ab"))]
    batch = take(n=2, extras={"x": days[:2]}, policies=Policies(unknown="repr"))
    assert [row["x"] for row in rows(batch)] == [repr(day) for day in days[:2]]
    assert written(np.zeros((0, 2), dtype="M8[D]")) == []


def test_pandas():
    """A Series is a list or a column in the order of its rows, whatever its index, and a missing value is null."""
    pandas = pytest.importorskip("pandas")
    series = pandas.Series([1, None], index=[7, 0], dtype="Int64")
    assert written(series) == [1, None]
    assert [row["x"] for row in rows(take(n=2, extras={"x": series}))] == [1, None]
    assert written([pandas.NA, pandas.NaT, pandas.Series(["a"])]) == [None, None, ["a"]]
    with pytest.raises(TypeError, match="column 'x', row 1: a Timestamp cannot be written"):
        take(n=2, extras={"x": [1, pandas.Timestamp("2026-01-01")]})
