"""The readers that a dump must be equal for; all but the first two are optional and imported when first used."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fault_injection.oracle.batch import BatchLike, Expectation, expect
from fault_injection.oracle.compare import as_spelled, show
from fault_injection.oracle.limits import Limits, beyond, same
from fault_injection.oracle.outcome import Field, Fields
from fault_injection.oracle.policies import DEFAULTS, Policies
from fault_injection.oracle.strict import parse

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Reader:
    """Somebody's way to read a dump file.

    Args:
        name: what reports call it.
        modules: the packages it needs.
        read: reads the bytes of a file, with every guess at types turned off that can be.
        limits: what it cannot hold.
    """

    name: str
    modules: tuple[str, ...]
    read: Callable[[bytes], Rows]
    limits: Limits

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed."""
        return tuple(module for module in self.modules if importlib.util.find_spec(module) is None)


def _load(module: str) -> Any:
    """Import an optional package, for which there need not be type stubs either."""
    return importlib.import_module(module)


def _json(content: bytes) -> Rows:
    return [json.loads(line) for line in content.decode("utf-8").split("\n")[:-1]]


def _strict(content: bytes) -> Rows:
    return [parse(line) for line in content.decode("utf-8").split("\n")[:-1]]


def _pandas(content: bytes) -> Rows:
    frame = _load("pandas").read_json(
        io.BytesIO(content),
        lines=True,
        orient="records",
        dtype=False,
        convert_axes=False,
        convert_dates=False,
        precise_float=True,
    )
    return list(frame.to_dict("records"))


def _pyarrow(content: bytes) -> Rows:
    arrow_json = _load("pyarrow.json")
    # A row that is longer than a block is an error of the reader's, not of the file.
    options = arrow_json.ReadOptions(use_threads=False, block_size=max(len(content) + 1, 1 << 20))
    return list(arrow_json.read_json(io.BytesIO(content), read_options=options).to_pylist())


def _datasets(content: bytes) -> Rows:
    datasets = _load("datasets")
    with tempfile.TemporaryDirectory() as folder, _no_progress(datasets):
        path = os.path.join(folder, "1.jsonl")
        with open(path, "wb") as file:
            file.write(content)
        data = datasets.Dataset.from_json(path, cache_dir=os.path.join(folder, "cache"), keep_in_memory=True)
        return list(data.to_list())


@contextlib.contextmanager
def _no_progress(datasets: Any) -> Iterator[None]:
    # Even a hidden bar starts a thread that looks after it, and that thread does not end.
    bars, hidden = _load("tqdm").tqdm, datasets.are_progress_bars_disabled()
    interval, bars.monitor_interval = bars.monitor_interval, 0
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        bars.monitor_interval = interval
        if not hidden:
            datasets.enable_progress_bars()


def _polars(content: bytes) -> Rows:
    return list(_load("polars").read_ndjson(io.BytesIO(content), infer_schema_length=None).to_dicts())


_DUCKDB = (
    "SELECT * FROM read_json(?, format='newline_delimited', sample_size=-1, maximum_depth=-1, "
    "map_inference_threshold=-1, convert_strings_to_integers=false, maximum_object_size=268435456)"
)


def _duckdb(content: bytes) -> Rows:
    with (
        tempfile.TemporaryDirectory() as folder,
        _load("duckdb").connect(config={"threads": 1}) as connection,
    ):
        path = os.path.join(folder, "1.jsonl")
        with open(path, "wb") as file:
            file.write(content)
        found = connection.execute(_DUCKDB, [path])
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


_COLUMNAR = Limits(lowest=-(1 << 63), highest=(1 << 63) - 1, mixed=False)
_ARROW = Limits(lowest=-(1 << 63), highest=(1 << 63) - 1, mixed=False, dates=False)

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("json", (), _json, Limits()),
        Reader("strict", (), _strict, Limits()),
        Reader(
            "pandas",
            ("pandas",),
            _pandas,
            Limits(lowest=-(1 << 63), highest=(1 << 63) - 1, subnormals=False, holes=False),
        ),
        Reader("pyarrow", ("pyarrow",), _pyarrow, _ARROW),
        Reader("datasets", ("datasets",), _datasets, _ARROW),
        Reader("polars", ("polars",), _polars, _COLUMNAR),
        Reader(
            "duckdb",
            ("duckdb",),
            _duckdb,
            Limits(
                lowest=-(1 << 63),
                highest=(1 << 63) - 1,
                mixed=False,
                dates=False,
                empty_objects=False,
                any_key=False,
            ),
        ),
    )
}
"""Every reader by its name."""


def available_readers() -> tuple[Reader, ...]:
    """The readers whose packages are installed."""
    return tuple(reader for reader in READERS.values() if not reader.missing)


def missing_readers() -> tuple[str, ...]:
    """The readers that cannot be asked here, each with the packages that are not installed."""
    return tuple(
        f"{name} (needs {', '.join(reader.missing)})" for name, reader in READERS.items() if reader.missing
    )


def judge_readers(
    batch: BatchLike | Expectation,
    content: bytes,
    policies: Policies = DEFAULTS,
    *,
    readers: tuple[Reader, ...] | None = None,
    gts: bool = True,
) -> tuple[tuple[str, str], ...]:
    """List what readers get back that is not equal to what was handed over (law S9).

    A reader is not asked where the batch holds what it can hold in no file, such as a column of several types.

    Args:
        batch: what was handed over, or what must come of it.
        content: the bytes of the file.
        policies: what the writer declares.
        readers: whom to ask; None: all whose packages are installed.
        gts: whether the writer takes ground truths.

    Returns:
        ("S9", message) for each difference.
    """
    expectation = batch if isinstance(batch, Expectation) else expect(batch, policies, gts=gts)
    if expectation.refused or not expectation.rows:
        return ()
    try:
        rows = _rows(expectation, content)
    except ValueError:
        return ()
    asked = available_readers() if readers is None else readers
    return tuple(finding for reader in asked for finding in _ask(reader, rows, content))


def _rows(expectation: Expectation, content: bytes) -> Rows:
    """The rows that must be read back, with the keys as the file spells them."""
    lines = content.splitlines()
    rows = []
    for number in range(expectation.rows or 0):
        columns = expectation.columns
        nodes = (Field(c.name, c.laws, c.kind, c.outcomes[number].node, c.others) for c in columns)
        try:
            got = json.loads(lines[number])
        except (IndexError, ValueError, RecursionError):
            got = None
        rows.append(as_spelled(Fields(tuple(nodes), (), "row"), got))
    return rows


def _ask(reader: Reader, rows: Rows, content: bytes) -> Iterator[tuple[str, str]]:
    if beyond(rows, reader.limits):
        return
    try:
        got = reader.read(content)
    except Exception as error:  # noqa: BLE001 - each reader has its own
        yield "S9", f"{reader.name} cannot read the file: {type(error).__name__}: {str(error)[:160]}"
        return
    if len(got) != len(rows):
        yield "S9", f"{reader.name} reads {len(got)} rows instead of {len(rows)}"
        return
    for number, (right, wrong) in enumerate(zip(rows, got, strict=True)):
        for name in right:
            if name not in wrong or not same(right[name], wrong[name]):
                found = show(wrong[name]) if name in wrong else "nothing"
                yield (
                    "S9",
                    (
                        f"row {number}, key {show(name)}: {reader.name} reads {found} instead of {show(right[name])}"
                    ),
                )
