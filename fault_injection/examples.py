"""Searches examples for one that breaks a law of serialization or columns, and shrinks it to the smallest."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fault_injection.errors import Registry
from fault_injection.history import Ended, Event, Failure, Final, History, Hung, Mark
from fault_injection.judge import Violation
from fault_injection.sweep import TrialResult
from fault_injection.watch import Watchdog

if TYPE_CHECKING:
    from fault_injection.subject import Subject
    from fault_injection.targets.base import Batch

PREFIX = "example:"
"""What the plan of an example begins with; the rest is Hypothesis's own blob."""
_BLOB = re.compile(r"@reproduce_failure\('([^']+)', b'([^']+)'\)")
_LONGEST_TEXT = 1500


@dataclass(frozen=True, repr=False)
class _Boxed:
    """A batch that Hypothesis can show: its own objects' `__repr__` may raise, or be a megabyte."""

    batch: Batch

    def __repr__(self) -> str:
        return "batch"


class BrokenLawError(Exception):
    """An example that breaks the law; its message is the sentence of what happened."""


class BadExampleError(ValueError):
    """An example's text that this version cannot make a batch of."""


@dataclass(frozen=True)
class Dumped:
    """What became of one batch.

    Args:
        content: the bytes of its file, or None.
        failure: what was raised.
        at_call: whether the call of dump raised it.
        findings: (law, message) of everything that is wrong.
    """

    content: bytes | None
    failure: Failure | None
    at_call: bool
    findings: tuple[tuple[str, str], ...]


class Bench:
    """Dumps one batch after another, each by a fresh writer into an empty directory, and judges it.

    Args:
        subject: what is tested.
        scratch: a directory for files.
        on_hang: called when a call never ends; must not return.
        readers: whether readers that are heavy to import are asked as well, where they are installed.
    """

    def __init__(
        self, subject: Subject, scratch: str, on_hang: Callable[[], None], *, readers: bool = False
    ) -> None:
        self.subject = subject
        self._readers = readers
        self.root = tempfile.mkdtemp(prefix="examples-", dir=scratch)
        self.tried = 0
        self._watchdog = Watchdog(lambda: self.tried, lambda: False, lambda: None, on_hang)

    def close(self) -> None:
        """Remove the files and stop watching."""
        self._watchdog.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def dump(self, batch: Batch) -> Dumped:
        """Dump a batch and say what is wrong with what came of it."""
        from fault_injection.oracle import changed, expect, judge_expectation, picture

        self.tried += 1
        target = self.subject.make()
        takes_gts = getattr(target, "_takes_gts", True)
        # Looked at before the call: a writer may change what it is given.
        expectation = expect(batch, self.subject.policies, gts=takes_gts)
        columns = (batch.inputs, batch.outputs, batch.gts, batch.scores, batch.extras)
        before = picture(columns)
        directory = os.path.join(self.root, str(self.tried))
        target.open()
        called = self._call(lambda: target.dump(directory, batch))
        drained = self._call(target.drain)
        error = called or drained
        registry = Registry(self.root)
        failure = None if error is None else registry.failure(error)
        content = _read(os.path.join(directory, f"{batch.step}.jsonl"))
        shutil.rmtree(directory, ignore_errors=True)
        found = list(judge_expectation(expectation, content, failure, at_call=called is not None))
        found += [("C5", message) for _, message in changed(before, picture(columns))]
        if content is not None and not found:
            found += self._by_readers(expectation, content)
        return Dumped(content, failure, called is not None, tuple(found))

    def _by_readers(self, expectation: Any, content: bytes) -> tuple[tuple[str, str], ...]:
        from fault_injection.oracle import READERS, judge_readers

        readers = tuple(r for r in READERS.values() if not r.missing and (self._readers or _is_loaded(r)))
        return judge_readers(expectation, content, readers=readers)

    def _call(self, call: Callable[[], Any]) -> BaseException | None:
        self._watchdog.begin()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - whatever it raises is what the example is about
            return error
        finally:
            self._watchdog.end()
        return None


def search(bench: Bench, law: str, seed: int, count: int, *, torch: bool) -> tuple[TrialResult, ...]:
    """Try examples until one breaks the law, and shrink that one.

    Args:
        bench: where batches are dumped.
        law: the identifier of a law of the groups S and C.
        seed: chooses the examples.
        count: how many are tried.
        torch: whether tensors may be among them.

    Returns:
        A result for each example that was tried; the last one violates, if any does.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis import seed as seeded

    from fault_injection.strategies import for_law

    def one(boxed: _Boxed) -> None:
        for message in _against(law, boxed.batch, bench.dump(boxed.batch)):
            raise BrokenLawError(message)

    test = given(for_law(law, torch=torch).map(_Boxed))(one)
    test = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=True,
        verbosity=Verbosity.quiet,
    )(test)
    held = TrialResult("none", (law,), ())
    try:
        seeded(seed)(test)()
    except BrokenLawError as error:
        blob = _blob("\n".join(getattr(error, "__notes__", ())))
        found = TrialResult(f"{PREFIX}{blob}", (law,), (Violation(law, str(error)),))
        return (held,) * (bench.tried - 1) + (found,)
    return (held,) * bench.tried


def _against(law: str, batch: Batch, dumped: Dumped) -> list[str]:
    """What a law has against the dump of one of its batches."""
    from fault_injection.oracle import SILENTLY_LOST

    # Of a batch without rows no file is demanded.
    lost = bool(batch.inputs or batch.outputs or batch.scores)
    return [m for broken, m in dumped.findings if broken == law or (lost and m == SILENTLY_LOST)]


def replay(
    bench: Bench, law: str, plan: str, *, torch: bool, scenario: str, seed: int
) -> tuple[TrialResult, History]:
    """Dump one example again and tell what became of it.

    Args:
        bench: where it is dumped.
        law: the law whose strategy made it.
        plan: `example:` and the blob.
        torch: whether tensors may be in it.
        scenario: for the history.
        seed: for the history.

    Returns:
        The result, and the history with the batch in it.

    Raises:
        BadExampleError: the blob is none of this strategy's, or of another version of Hypothesis.
    """
    from hypothesis import given, reproduce_failure, settings
    from hypothesis.errors import HypothesisException

    from fault_injection.strategies import for_law

    events: list[Event] = []
    messages: list[str] = []

    def one(boxed: _Boxed) -> None:
        batch = boxed.batch
        events.append(Mark("batch", _shown(batch)))
        dumped = bench.dump(batch)
        call = "dump" if dumped.at_call else "drain"
        events.append(Ended(call, failure=dumped.failure))
        files = {} if dumped.content is None else {f"{batch.step}.jsonl": dumped.content}
        events.append(Final(tuple(files.items())))
        if dumped.content is not None:
            events.append(Mark("file", dumped.content[:_LONGEST_TEXT].decode("utf-8", "backslashreplace")))
        messages.extend(_against(law, batch, dumped))
        raise BrokenLawError

    version, _, blob = plan.removeprefix(PREFIX).partition("/")
    try:
        test = settings(database=None, deadline=None)(given(for_law(law, torch=torch).map(_Boxed))(one))
        reproduce_failure(version, blob.encode())(test)()
    except BrokenLawError:
        pass
    except (HypothesisException, ValueError) as error:
        raise BadExampleError(f"{plan} is no example of {scenario}: {str(error).splitlines()[0]}") from None
    history = History(scenario, plan, "disk", seed, tuple(events), 1)
    violations = tuple(Violation(law, message) for message in messages)
    return TrialResult(plan, (law,), violations), history


def hung_history(scenario: str, seed: int) -> History:
    """The history of an example whose call never ended."""
    return History(scenario, "none", "disk", seed, (Hung("dump"),), 0, complete=False)


def _blob(notes: str) -> str:
    match = _BLOB.search(notes)
    return f"{match[1]}/{match[2]}" if match else "unknown"


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _is_loaded(reader: Any) -> bool:
    return all(name in sys.modules for name in reader.modules)


def _shown(batch: Batch) -> str:
    try:
        text = repr(batch)
    except Exception as error:  # noqa: BLE001 - an object of the example may do anything
        text = f"<cannot be shown: {type(error).__name__}>"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters)"
