"""The copy taken at the call, and the lines made of it."""

import enum
import json
import math
import subprocess
import sys
from collections import OrderedDict, UserDict
from typing import NamedTuple

import pytest

from verl_dump.encoding import encode, snapshot

HUGE = 10**30 + 1


def take(*, n=1, **given):
    columns = {"inputs": ["i"] * n, "outputs": ["o"] * n, "scores": [0.0] * n}
    return snapshot(3, **{**columns, **given})


def text(batch):
    return b"".join(encode(batch)).decode("utf-8")


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def rows(batch):
    return [json.loads(line, parse_constant=refuse_constant) for line in text(batch).splitlines()]


def written(value):
    """What a reader gets for `value` as a value of an extra column."""
    return rows(take(extras={"x": [value]}))[0]["x"]


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


class Number(enum.IntEnum):
    ONE = 1


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
        pytest.param(Point(1, 2), [1, 2], id="named-tuple"),
        pytest.param(range(3), [0, 1, 2], id="range"),
        pytest.param(UserDict(a=1), {"a": 1}, id="user-dict"),
        pytest.param(OrderedDict(b=1, a=2), {"b": 1, "a": 2}, id="ordered-dict"),
        pytest.param(["a", "b"], ["a", "b"], id="strings"),
        pytest.param([1.0, 2.5], [1.0, 2.5], id="floats"),
        pytest.param([1e308, 1e308], [1e308, 1e308], id="floats-whose-sum-overflows"),
        pytest.param([], [], id="empty-list"),
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
        pytest.param(None, "null", id="none"),
        pytest.param(0.5, "0.5", id="float"),
        pytest.param((1, "a"), "(1, 'a')", id="tuple"),
        pytest.param(b"b", "b'b'", id="bytes"),
        pytest.param(Number.ONE, "1", id="int-enum"),
        pytest.param(Word.GOOD, "good", id="str-enum"),
        pytest.param("\ud800", "\ufffd", id="lone-surrogate"),
    ],
)
def test_keys_become_text(key, expected):
    """A key of any kind becomes text, as a key of a dict and as the name of a column."""
    assert written({key: 1}) == {expected: 1}
    assert rows(take(extras={key: [1]}))[0][expected] == 1


@pytest.mark.parametrize(
    "keys",
    [(1, "1"), (None, "null"), (True, "true"), ("\ud800", "\ud801")],
    ids=["int", "none", "true", "surrogate"],
)
def test_keys_never_merge(keys):
    """Two keys that are one as text are an error at the call, in a dict and among the columns."""
    with pytest.raises(ValueError, match=r"column 'x', row 0: two keys of a dict are the same as text"):
        take(extras={"x": [dict.fromkeys(keys, 0)]})
    with pytest.raises(ValueError, match="has the name of another column"):
        take(extras={key: [0] for key in keys})


@pytest.mark.parametrize("name", ["input", "output", "gts", "score", "step"])
def test_extra_named_like_a_base_column(name):
    """An extra with the name of a base column is an error at the call that names it."""
    with pytest.raises(ValueError, match=f"extra column '{name}' has the name of another column"):
        take(extras={name: [1]})


def test_unequal_base_columns():
    """Base columns of unequal length are an error at the call that names every length."""
    with pytest.raises(ValueError, match="input 2, output 1, gts 2, score 2"):
        snapshot(1, inputs=["a", "b"], outputs=["c"], gts=["d", "e"], scores=[1, 2])


def test_ragged_extra():
    """An extra of another length is an error at the call that names it, never a dropped column."""
    with pytest.raises(ValueError, match="column 'acc' has 3 values for 2 rows"):
        take(n=2, extras={"acc": [1, 2, 3]})


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


def test_key_without_text():
    """A key whose own method raises is an error that names column and row."""
    with pytest.raises(TypeError, match="column 'x', row 0: no text"):
        take(extras={"x": [{Hostile(): 1}]})


def test_circle():
    """A value that contains itself is an error at the call that names column and row."""
    circle = []
    circle.append(circle)
    with pytest.raises(ValueError, match="column 'x', row 1: a list is nested too deeply or contains itself"):
        take(n=2, extras={"x": [1, circle]})


def test_number_too_long():
    """A number of more digits than a reader takes is an error at the call."""
    with pytest.raises(ValueError, match="column 'x', row 0: an int of 20001 bits"):
        take(extras={"x": [1 << 20_000]})


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
        pytest.param(lambda np: np.arange(5000), list(range(5000)), id="long"),
        pytest.param(lambda np: np.asfortranarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]], id="fortran"),
        pytest.param(lambda np: np.array([1.5, np.inf]), [1.5, None], id="inf-inside"),
        pytest.param(lambda np: np.array([1, 256], dtype=">i4"), [1, 256], id="big-endian"),
        pytest.param(
            lambda np: np.array([{"a": np.int8(1)}, [2]], dtype=object), [{"a": 1}, [2]], id="object"
        ),
        pytest.param(lambda np: np.ma.masked_array([1, 2], mask=[0, 1]), [1, None], id="masked"),
        pytest.param(lambda np: {np.int64(7): np.bool_(False)}, {"7": False}, id="key"),
    ],
)
def test_numpy(make, expected):
    """A numpy value is written as Python's own value of the same JSON type, whole."""
    value = make(pytest.importorskip("numpy"))
    assert written(value) == expected
    assert json.dumps(written(value)) == json.dumps(expected)


@pytest.mark.parametrize("dtype", ["c16", "M8[ns]", "m8[s]", "S3", "i4,f4", "g"])
def test_numpy_without_json_type(dtype):
    """A numpy value that `tolist` would change or leave as it is raises and names the dtype."""
    np = pytest.importorskip("numpy")
    array = np.zeros(2, dtype=dtype)
    with pytest.raises(TypeError, match=r"column 'x', row 0: .*cannot be written"):
        take(extras={"x": [array]})
    with pytest.raises(TypeError, match=r"column 'x', row 0: .*cannot be written"):
        take(extras={"x": [array[0]]})
    with pytest.raises(TypeError, match=r"column 'x': .*cannot be written"):
        take(n=2, extras={"x": array})


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
