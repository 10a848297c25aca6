"""The copying of values at its edges: what counts as held, as a level, and as a class."""

import runpy
import subprocess
import sys
import types
from typing import NamedTuple

import pytest

from verl_dump import encoding, native
from verl_dump.encoding import snapshot
from verl_dump.policies import Policies
from verl_dump.values import Copier


class Point(NamedTuple):
    x: int
    y: int


def take(*, n=1, **given):
    columns = {"inputs": ["i"] * n, "outputs": ["o"] * n, "scores": [0.0] * n}
    return snapshot(3, **{**columns, **given})


def copied(*values, **policies):
    """The copies of `values`, each in a row of an extra column."""
    return dict(take(n=len(values), extras={"x": list(values)}, policies=Policies(**policies)).columns)["x"]


def held(value):
    """The bytes of a value and of all that it holds."""
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sys.getsizeof(value) + sum(map(held, inner))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda i: None, id="constants"),
        pytest.param(lambda i: f"text {i}", id="texts"),
        pytest.param(lambda i: 1000 + i, id="ints"),
        pytest.param(lambda i: i / 3, id="floats"),
        pytest.param(lambda i: (i / 3, 1000 + i)[i % 2], id="floats-and-ints"),
        pytest.param(lambda i: (i / 3, f"text {i}")[i % 2], id="floats-and-texts"),
        pytest.param(lambda i: [f"text {i}", str(i)], id="lists"),
        pytest.param(lambda i: [str(i), i / 3, 10**20 + i, [i / 3]], id="mixed-lists"),
        pytest.param(lambda i: {f"key {i}": f"text {i}", "score": i / 3, "none": None}, id="dicts"),
        pytest.param(lambda i: {f"Schlüssel {i}": [i / 3]}, id="dicts-of-other-keys"),
    ],
)
def test_size_counts_all_that_is_held(make):
    """The estimated size of a batch is that of its columns and of all that they hold, the steps and the names included."""
    batch = take(n=1000, inputs=[make(i) for i in range(1000)], extras={"e" * 9000: [None] * 1000})
    bytes_held = sum(held(name) + held(values) for name, values in batch.columns)
    bytes_held -= 999 * sys.getsizeof(3)  # there is one step
    assert batch.size == pytest.approx(bytes_held, rel=0.02)


def nested(depth, wrap):
    value = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [[1, "a"], v], lambda v: {"s": {"a": 1}, "k": v}, lambda v: [[], {}, v]],
    ids=["list", "dict", "empty"],
)
def test_depth_is_counted_per_value(wrap):
    """However many lists and dicts lie beside or before each other, only those within each other count as levels."""
    beside = nested(99, wrap)
    assert copied(beside, beside, beside) == [beside] * 3
    with pytest.raises(ValueError, match=r"column 'x', row 1: a (list|dict) is nested too deeply"):
        copied(beside, nested(100, wrap))


def test_the_key_that_is_there_twice_is_named():
    """Where two keys that are one as text are an error, it is that text that the error names."""
    with pytest.raises(ValueError, match="a dict has two keys '1', as text: rename one"):
        copied({"a": 0, 1: 0, "1": 0, "b": 0}, collide="error")


def test_a_key_of_bytes_where_bytes_are_no_text():
    """Under `python -bb`, which makes an error of bytes taken for text, a key of bytes is the text that it is otherwise."""
    code = (
        "from verl_dump.encoding import snapshot; "
        "print(snapshot(1, inputs=[0], outputs=[0], scores=[0], extras={b'k': [0]}).columns[-1][0])"
    )
    run = subprocess.run([sys.executable, "-bb", "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("b'k'\n", "")


def test_orjson_is_taken_where_it_is(monkeypatch):
    """What is installed for speed is what encodes, and without it the module is there all the same."""
    orjson = types.SimpleNamespace(OPT_APPEND_NEWLINE=7, dumps=lambda row, option: (row, option))
    monkeypatch.setitem(sys.modules, "orjson", orjson)
    assert runpy.run_path(encoding.__file__)["_fast"]({"a": 1}) == ({"a": 1}, 7)
    monkeypatch.setitem(sys.modules, "orjson", None)  # so that importing it fails
    assert runpy.run_path(encoding.__file__)["_fast"] is None


class Tensor:
    """A tensor that can be read only when it is detached and on the host, and a nested one only in its parts."""

    ndim, dtype, layout, device = 1, "torch.half", "torch.strided", "cuda:0"

    def __init__(self, values, *, is_nested=False, detached=False, on_host=False):
        self.values, self.is_nested = values, is_nested
        self.detached, self.on_host = detached, on_host

    def detach(self):
        return Tensor(self.values, is_nested=self.is_nested, detached=True)

    def unbind(self):
        assert self.is_nested
        return tuple(self.values)

    def cpu(self):
        return Tensor(self.values, is_nested=self.is_nested, detached=self.detached, on_host=True)

    def tolist(self):
        if self.is_nested or not self.detached or not self.on_host:
            raise RuntimeError("no values here")
        return self.values


@pytest.fixture
def torch(monkeypatch):
    """A torch of these tensors."""
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor))


def test_a_tensor_is_brought_to_the_host(torch):
    """A tensor is read detached and from the host's memory, as a value and as a column; of a nested one each part."""
    assert copied(Tensor([0.5, 1.0]), [Tensor([2.0])]) == [[0.5, 1.0], [[2.0]]]
    parts = [Tensor([0.5]), Tensor([1.0, 2.0])]
    assert copied(Tensor(parts, is_nested=True)) == [[[0.5], [1.0, 2.0]]]
    columns = dict(take(n=2, scores=Tensor([3, 4]), extras={"x": Tensor(parts, is_nested=True)}).columns)
    assert (columns["score"], columns["x"]) == ([3, 4], [[0.5], [1.0, 2.0]])


def test_a_tensor_that_cannot_be_read_is_described(torch, monkeypatch):
    """The error of a tensor that has no values says of what type it is, how it is laid out and where it lies."""
    monkeypatch.setattr(Tensor, "cpu", lambda self: self)
    said = "a Tensor of torch.half, torch.strided, on cuda:0 raises RuntimeError: no values here"
    with pytest.raises(TypeError, match=f"^column 'x', row 0: {said}$"):
        copied(Tensor([1.0]))


@pytest.mark.parametrize("name", ["NA", "NaT"])
def test_a_hole_is_null(monkeypatch, name):
    """What pandas has for a missing value is null, by whichever of its names there is one."""
    pandas = types.ModuleType("pandas")
    setattr(pandas, name, object())
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert copied(getattr(pandas, name)) == [None]


@pytest.mark.parametrize("package", ["numpy", "torch", "pandas"])
def test_a_package_that_lacks_its_classes(monkeypatch, package):
    """A module named like a package, but without its classes, is no matter of any value."""
    monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    assert copied(Point(1, 2)) == [[1, 2]]
    with pytest.raises(TypeError, match="column 'x', row 0: a object cannot be written"):
        copied(object())
    assert not native.is_missing(None)


@pytest.mark.parametrize(
    ("items", "taken"),
    [
        pytest.param(["a", "b", "a"], True, id="texts"),
        pytest.param([0.5, -1.25], True, id="floats"),
        pytest.param([1, -3, 2], True, id="ints"),
        pytest.param([1, 0.5], False, id="ints-and-floats"),
        pytest.param([0.5, float("nan")], False, id="not-finite"),
        pytest.param([1, 1 << 40_000], False, id="long-int"),
        pytest.param([[]], False, id="nested"),
    ],
)
def test_scalars_of_one_kind_are_taken_over_at_once(items, taken):
    """A list of texts, of finite floats or of ints that can be read back is its own copy, without a look at each."""
    copy = Copier(Policies()).flat(items)
    assert copy is (items if taken else None)
