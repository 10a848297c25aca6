"""The strategies: what they reach, how small their examples get, and what they import."""

import collections.abc
import math
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

np = pytest.importorskip("numpy")

from fault_injection import strategies  # noqa: E402
from fault_injection.strategies.arrays import _broadcast  # noqa: E402
from fault_injection.strategies.keys import BASE_NAMES  # noqa: E402
from fault_injection.strategies.specimens import BrokenText, DeepDict, DeepList  # noqa: E402
from fault_injection.strategies.tensors import _dense  # noqa: E402
from fault_injection.strategies.text import LINE_BREAKS  # noqa: E402

LAWS = ("S1", "S2", "S3", "S4", "S5", "S7", "S8", "S9", "C1", "C2", "C3", "C4", "C5")
SEARCH = settings(
    max_examples=1_000,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
needs_torch = pytest.mark.skipif(not strategies.has_torch(), reason="torch is not installed")
needs_pandas = pytest.mark.skipif(not strategies.has_pandas(), reason="pandas is not installed")


@pytest.fixture(autouse=True)
def torch_cache(monkeypatch, tmp_path_factory):
    """Where torch puts the folder that it makes when the first nested tensor is made."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("torch")))


def reaches(strategy, wanted):
    """Whether the strategy makes such an example within the search; it is not shrunk."""
    try:
        find(strategy, wanted, settings=settings(SEARCH, phases=[Phase.generate]))
    except NoSuchExample:
        return False
    return True


def inside(value, depth=20):
    """The value, its keys, and everything below, down to some depth: some values have no bottom."""
    yield value
    if isinstance(value, dict) and depth:
        for key, item in value.items():
            yield key
            yield from inside(item, depth - 1)
    elif type(value) in {list, tuple} and depth:
        for item in value:
            yield from inside(item, depth - 1)
    elif isinstance(value, np.ndarray):
        for item in value.flat:
            yield item


def everything(batch):
    """Every value of a batch, at any depth."""
    for column in (batch.inputs, batch.outputs, batch.gts, batch.scores, batch.extras):
        yield from inside(column)


def is_nan(value):
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def has_strange_key(value):
    if isinstance(value, dict):
        return any(not isinstance(key, str) for key in value) or any(map(has_strange_key, value.values()))
    return isinstance(value, list) and any(map(has_strange_key, value))


def is_ragged(batch):
    return any(
        isinstance(column, (list, tuple)) and len(column) != len(batch.inputs)
        for column in batch.extras.values()
    )


@pytest.mark.parametrize(
    ("law", "wanted"),
    [
        pytest.param("S2", lambda batch: any(map(is_nan, everything(batch))), id="nan"),
        pytest.param("S5", lambda batch: has_strange_key(batch.extras), id="key-that-is-no-text"),
        pytest.param("C1", is_ragged, id="ragged-column"),
        pytest.param("C2", lambda batch: any(name in BASE_NAMES for name in batch.extras), id="collision"),
        pytest.param("C4", lambda batch: "x" in str(list(batch.extras.values())[:1]), id="split-text"),
        pytest.param(
            "S4",
            lambda batch: any(type(v) is int and abs(v) >= 2**64 for v in everything(batch)),
            id="big-integer",
        ),
        pytest.param(
            "S3",
            lambda batch: any(isinstance(v, str) and not v.isprintable() for v in everything(batch)),
            id="surrogate",
        ),
        pytest.param(
            "S1", lambda batch: any(isinstance(v, np.ndarray) for v in everything(batch)), id="array-in-a-row"
        ),
        pytest.param(
            "S7", lambda batch: any(isinstance(v, frozenset) for v in everything(batch)), id="unknown-type"
        ),
    ],
)
def test_examples_shrink_to_one_row_and_one_key(law, wanted):
    """A failing batch is shrunk to one row and at most one extra column."""
    batch = find(strategies.for_law(law), wanted, settings=SEARCH)
    assert len(batch.inputs) == 1
    assert len(batch.extras) <= 1
    assert set(batch.inputs) | set(batch.outputs) <= {"a", "", *batch.inputs[:1]}


def test_ragged_column_of_all_batches_shrinks():
    """A ragged column found among batches of every kind is shrunk to one row and one key."""
    batch = find(strategies.generations(), lambda b: bool(b.inputs) and is_ragged(b), settings=SEARCH)
    assert len(batch.inputs) == 1
    assert len(batch.extras) == 1


@pytest.mark.parametrize("law", LAWS)
def test_each_law_has_its_batches(law):
    """For each law there are batches, and two calls ask for the same strategy."""
    assert strategies.for_law(law) is strategies.for_law(law)
    assert reaches(strategies.for_law(law), lambda batch: len(batch.inputs) > 1)


@pytest.mark.parametrize("law", ["S6", "S10", "D1", ""])
def test_law_without_batches(law):
    """A law that is none of these groups, or needs torch where none is asked for, is one clear error."""
    with pytest.raises(ValueError, match="torch=True" if law == "S6" else "is no law"):
        strategies.for_law(law)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(lambda a: a.ndim == 0, id="0-d"),
        pytest.param(lambda a: a.ndim == 3, id="3-d"),
        pytest.param(lambda a: a.size == 0, id="empty"),
        pytest.param(lambda a: a.size > 1000, id="long"),
        pytest.param(lambda a: a.flags.f_contiguous and not a.flags.c_contiguous, id="fortran"),
        pytest.param(lambda a: not a.flags.c_contiguous and not a.flags.f_contiguous, id="strided"),
        pytest.param(lambda a: not a.flags.writeable, id="read-only"),
        pytest.param(lambda a: a.dtype.kind in "iuf" and not a.dtype.isnative, id="other-byte-order"),
        pytest.param(lambda a: isinstance(a, np.ma.MaskedArray) and a.mask.any(), id="masked"),
        *(
            pytest.param(lambda a, kind=kind: a.dtype.kind == kind, id=name)
            for kind, name in zip(
                "biufcOUSVMm",
                "bool integer unsigned float complex object text bytes record date duration".split(),
                strict=True,
            )
        ),
    ],
)
def test_arrays_of_every_kind(wanted):
    """Arrays of every rank, memory order, byte order and dtype are made."""
    assert reaches(strategies.arrays(), wanted)


@pytest.mark.parametrize("char", "?bBhHiIqQefdgFDMmSU")
def test_numpy_scalars_of_every_dtype(char):
    """Numpy scalars of every dtype are made."""
    kind = np.dtype(char)
    assert reaches(
        strategies.numpy_scalars(),
        lambda v: (
            isinstance(v, np.generic)
            and v.dtype.kind == kind.kind
            and (kind.kind in "SUMm" or v.dtype == kind)
        ),
    )


@needs_torch
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(lambda t: str(t.dtype) == "torch.bfloat16", id="bfloat16"),
        pytest.param(lambda t: "float8" in str(t.dtype), id="float8"),
        pytest.param(lambda t: t.is_complex(), id="complex"),
        pytest.param(lambda t: t.is_quantized, id="quantized"),
        pytest.param(lambda t: t.is_nested, id="nested"),
        pytest.param(lambda t: "jagged" in str(t.layout), id="jagged"),
        pytest.param(lambda t: "sparse_coo" in str(t.layout), id="sparse-coo"),
        pytest.param(lambda t: "sparse_csr" in str(t.layout), id="sparse-csr"),
        pytest.param(lambda t: t.device.type == "meta", id="meta"),
        pytest.param(lambda t: not t.is_nested and t.ndim == 0, id="0-d"),
        pytest.param(lambda t: t.requires_grad, id="requires-grad"),
        pytest.param(lambda t: "strided" in str(t.layout) and not t.is_contiguous(), id="non-contiguous"),
        pytest.param(lambda t: t.is_conj(), id="conj-view"),
        pytest.param(lambda t: "strided" in str(t.layout) and t.is_neg(), id="neg-view"),
    ],
)
def test_tensors_of_every_kind(wanted):
    """Tensors of every dtype and layout are made."""
    assert reaches(strategies.tensors(), wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(lambda c: isinstance(c, list), id="list"),
        pytest.param(lambda c: isinstance(c, tuple), id="tuple"),
        pytest.param(lambda c: isinstance(c, np.ndarray) and c.dtype.kind == "f", id="array"),
        pytest.param(lambda c: isinstance(c, np.ndarray) and c.dtype.kind == "O", id="object-array"),
        pytest.param(lambda c: isinstance(c, np.ndarray) and c.ndim > 1, id="matrix"),
        pytest.param(lambda c: type(c).__name__ in {"Tensor", "Parameter"}, id="tensor", marks=needs_torch),
        pytest.param(lambda c: type(c).__name__ == "Series", id="series", marks=needs_pandas),
    ],
)
def test_columns_of_every_form(wanted):
    """Columns come in every form that trainers hand over."""
    forms = strategies.columns(
        2, strategies.texts(), torch=strategies.has_torch(), pandas=strategies.has_pandas()
    )
    assert reaches(forms, wanted)


@pytest.mark.parametrize("char", [*LINE_BREAKS, *"\0\ufeff\u0301🙂", chr(0xD800), chr(0xDFFF)], ids=ascii)
def test_texts_with_every_trouble(char):
    """Each character that breaks lines, terminals, encoders or parsers comes in a text."""
    assert reaches(strategies.texts(), lambda text: char in text)


def test_texts_without_surrogates():
    """Texts can be had without the surrogates that no file can hold."""
    assert not reaches(
        strategies.texts(surrogates=False), lambda t: any("\ud800" <= c <= "\udfff" for c in t)
    )


@pytest.mark.parametrize(
    "kind",
    [int, float, bool, type(None), tuple, bytes, frozenset, np.generic],
    ids=lambda kind: kind.__name__,
)
def test_keys_of_every_kind(kind):
    """Keys of every hashable kind are made."""
    assert reaches(strategies.keys(), lambda key: isinstance(key, kind))


@given(strategies.colliding_keys())
def test_colliding_keys_are_two(pair):
    """Two colliding keys are two in a Python dict."""
    assert len(dict.fromkeys(pair)) == 2


@given(strategies.writable())
def test_writable_columns_fit(batch):
    """In a batch that can be written every column has a value for each row."""
    assert {len(column) for column in batch.extras.values()} <= {len(batch.inputs)}
    assert all(isinstance(column, collections.abc.Sized) for column in batch.extras.values())


def test_torch_and_pandas_are_not_imported():
    """Neither import nor batches without tensors bring torch or pandas."""
    code = (
        "import sys; from fault_injection import strategies as s, oracle\n"
        "from hypothesis import find, settings\n"
        "find(s.generations(), lambda b: bool(b.extras), settings=settings(database=None, derandomize=True))\n"
        "print([n for n in ('torch', 'pandas', 'pyarrow', 'polars', 'duckdb') if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [
        pytest.param(strategies.broken_objects(), "Broken", id="broken"),
        pytest.param(strategies.deep_objects((2000,)), "Deep", id="deep"),
        pytest.param(strategies.circular_objects(), "...", id="circular"),
        pytest.param(strategies.for_law("S7"), "extras=", id="batch"),
    ],
)
def test_reports_can_show_examples(strategy, shown):
    """A failing example is shown, also where the object cannot show itself."""

    @settings(SEARCH, max_examples=20)
    @given(strategy)
    def check(value):
        raise AssertionError("seen")

    with pytest.raises(AssertionError) as caught:
        check()
    assert shown in "\n".join(caught.value.__notes__)


def test_broken_objects_raise():
    """Whatever is asked of a broken object raises."""
    for ask in (str, repr, len, iter, lambda thing: thing[0]):
        with pytest.raises(RuntimeError):
            ask(BrokenText())


def test_a_broadcast_array_is_one_row_in_memory():
    """A broadcast array has the shape of what it was made of, and each of its rows is the first, in the same place."""
    made = _broadcast(np.arange(6).reshape(3, 2))
    assert made.tolist() == [[0, 1]] * 3
    assert made.strides[0] == 0
    for array in (np.array(5), np.zeros((0, 2))):
        assert _broadcast(array) is array


@needs_torch
@pytest.mark.parametrize("how", ["strided", "expanded"])
def test_a_tensor_has_the_shape_it_was_asked_for(how):
    """However its elements lie in memory, a tensor has its shape and its value."""
    made = _dense("float32", [2, 3], 0.5, how)
    assert made.tolist() == [[0.5] * 3] * 2
    assert not made.is_contiguous()


@pytest.mark.parametrize("cls", [DeepList, DeepDict])
def test_what_is_too_deep_is_shown_by_its_class(cls):
    """A report can show what is nested deeper than Python can."""
    assert repr(cls()) == f"{cls.__name__}()"


def test_writable_batches_have_rows():
    """What reward functions return can be made without any option."""
    assert reaches(strategies.writable(), lambda batch: len(batch.inputs) > 0)
