"""The rule of group X: at a way out of `fit()`, are all data on disk, and has every failure come out? Judged apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fault_injection.history import Exited, Hung, Mark, Seen
from fault_injection.judge import data
from fault_injection.judge.errors import says
from fault_injection.judge.facts import Dump, Facts, Raised, mentions
from fault_injection.judge.rows import holds_texts
from fault_injection.ways import ATTACHED, END, NOBODY, WHOLE, Cell, cell_of

DATA, ERRORS = "data: ", "errors: "
"""How a message begins that tells of data, and of errors."""


@dataclass(frozen=True)
class _Fit:
    """One `fit()` of the trial.

    Args:
        dumps: those that were handed over in it.
        end: the position in the history at which it had ended; the length of the history where only the end counts.
        raised: what it raised.
    """

    dumps: tuple[Dump, ...]
    end: int
    raised: Raised | None


def left_well(facts: Facts) -> Iterator[str]:
    """X: the demands of the trial's cell of the matrix, on the data and on the errors."""
    cell = cell_of(facts.history.scenario, facts.history.plan)
    if cell is None:
        return
    for hung in facts.history.of(Hung):
        yield f"{DATA}{hung.call} never ended"
        yield f"{ERRORS}{hung.call} never ended"
        return
    if cell.data == WHOLE:
        yield from (DATA + message for message in _torn(facts))
        return
    fits = _fits(facts, cell)
    for fit in fits:
        yield from (DATA + message for message in _data(facts, cell, fit))
    yield from (DATA + message for message in _never_handed_over(facts))
    if cell.errors == NOBODY:
        return
    for number, fit in enumerate(fits):
        yield from (ERRORS + message for message in _errors(facts, cell, fit, fits[:number]))


def _fits(facts: Facts, cell: Cell) -> list[_Fit]:
    ends = [i for i, e in enumerate(facts.history.events) if isinstance(e, Mark) and e.name == "left"]
    fits, begin = [], 0
    for end in ends or [len(facts.history.events)]:
        raised = [r for r in facts.raised if r.call == "fit" and begin <= r.position <= end]
        dumps = tuple(d for d in facts.dumps if begin <= d.start < end)
        # Where the process goes on, or ended by itself, its end is what counts.
        position = len(facts.history.events) if cell.data == END else end
        fits.append(_Fit(dumps, position, raised[-1] if raised else None))
        begin = end
    return fits


def _data(facts: Facts, cell: Cell, fit: _Fit) -> Iterator[str]:
    # What the disk refuses, sooner or later, is a matter of errors; what it would take is one of data.
    failed = _failed(facts, fit)
    missing = [d for d in _missing(facts, fit, fit.end) if d not in failed]
    if cell.write == "stuck" and cell.data == END and missing:
        missing = [d for d in missing if not _is_named(facts, d)]
    if not missing:
        return
    later = all(_is_there(facts, d, len(facts.history.events)) for d in missing)
    when = "when the process had ended" if cell.data == END else "when fit() ended"
    which = f"{len(missing)} of {len(fit.dumps)} dumps {'was' if len(missing) == 1 else 'were'}"
    steps = ", ".join(str(d.step) for d in missing)
    end = "; written later, while the process lived" if later and cell.data != END else ""
    yield f"{when}, {which} not on disk (step{'s' * (len(missing) != 1)} {steps}){end}"


def _errors(facts: Facts, cell: Cell, fit: _Fit, earlier: list[_Fit]) -> Iterator[str]:
    wanted = [mark.text for mark in facts.history.of(Mark) if mark.name == "way out" and mark.text]
    if wanted and cell.errors == ATTACHED:
        if fit.raised is None:
            yield f"fit() swallowed the {wanted[0]}"
            return
        if wanted[0] not in fit.raised.failure.links[0].types:
            yield f"fit() raised {fit.raised.failure} instead of the {wanted[0]}"
    failed = _failed(facts, fit)
    if not failed and not wanted and fit.raised is not None and not facts.strikes and cell.data != END:
        yield f"fit() raised {fit.raised.failure}, though nothing failed"
    silent = [d for d in failed if not _is_told(facts, cell, fit, d, len(failed))]
    if silent:
        names = ", ".join(str(d) for d in silent)
        yield f"{names} failed, and {_nobody(facts, cell, fit)}"
    if fit.raised is not None and not failed:
        old = [d for each in earlier for d in each.dumps if d.number in facts.about(fit.raised)]
        if old:
            yield f"the second fit() raised the failure of {old[0]} again, which the first had raised"


def _nobody(facts: Facts, cell: Cell, fit: _Fit) -> str:
    if cell.data == END:
        exited = next(facts.history.of(Exited))
        return f"the process ended with {exited.code} and did not say so"
    if fit.raised is None:
        return "fit() returned as if nothing had"
    return f"what fit() raised does not tell: {fit.raised.failure}"


def _is_told(facts: Facts, cell: Cell, fit: _Fit, dump: Dump, failures: int) -> bool:
    """Whether the failure of one dump, of so many that failed, has come out."""
    driver = [mark.text for mark in facts.history.of(Mark) if mark.name == "driver"]
    if cell.way.place == "ray" and cell.data != END:
        # The actor's own end tells nobody: the driver has to be told, and by name if fit() did so.
        named = fit.raised is not None and mentions(fit.raised.failure.words, dump.step)
        if not driver or (named and not mentions(driver[0], dump.step)):
            return False
    if cell.data == END and _is_on_stderr(facts, dump, failures):
        return True
    # In a process of its own, what fit() raised is what the interpreter ends with, and prints unless it is an exit.
    if fit.raised is None or (cell.data == END and "SystemExit" in fit.raised.failure.links[0].types):
        return False
    if dump.number in facts.about(fit.raised):
        return True
    nameless = facts.loose(fit.raised) or (fit.raised in facts.nameless and _holds_more(fit.raised))
    return bool(nameless) and failures == 1


_WAYS_OUT = frozenset({"TrainingError", "KeyboardInterrupt", "SystemExit", "CancelledError"})
"""What ends a training by itself, and so tells of no dump."""


def _holds_more(raised: Raised) -> bool:
    """Whether something was raised, or attached, besides what has ended the training."""
    return any(link.notes or not _WAYS_OUT.intersection(link.types) for link in raised.failure.links)


def _is_on_stderr(facts: Facts, dump: Dump, failures: int) -> bool:
    """Whether stderr tells of the failure: by its step, or by a line for each failure."""
    lines = [line for line in _stderr(facts).splitlines() if says(line, dump, facts)]
    if failures > 1:
        # Of several failures one may be told at length; what counts is how often a dump is said to have failed.
        lines = [line for line in lines if _OF_A_DUMP.search(line) and not line.startswith(" ")]
    return _is_named(facts, dump) or len(lines) >= failures


_OF_A_DUMP = re.compile(r"(?<![\w/.-])dumps?(?![\w/.-])", re.IGNORECASE)
_PROGRESS = re.compile(r"\d+/\d+")


def _is_named(facts: Facts, dump: Dump) -> bool:
    """Whether a line of stderr tells of a loss and names the step, which a progress bar (`7/9`) does not."""
    lines = _PROGRESS.sub("", _stderr(facts)).splitlines()
    return any(mentions(line, dump.step) and says(line, dump, facts) for line in lines)


def _torn(facts: Facts) -> Iterator[str]:
    """The files that are not whole after the end of the process, before which nobody could mend them."""
    for name, content in sorted(facts.final.items()):
        if name.endswith(".jsonl") and not data.whole(facts, name, content, len(facts.history.events)):
            yield f"{name} holds {data.amount(content)} of {data.expected(facts, name)}"


def _never_handed_over(facts: Facts) -> Iterator[str]:
    """A training that ends as it should, but has dumped less than it was to."""
    due = [int(mark.text) for mark in facts.history.of(Mark) if mark.name == "due"]
    if due and len(facts.dumps) < due[0] and not facts.raised and not facts.strikes:
        yield f"fit() handed over {len(facts.dumps)} dumps of the {due[0]} that were due"


def _is_there(facts: Facts, dump: Dump, position: int) -> bool:
    """Whether the file held every row of the dump when it was last seen before a position in the history."""
    if position >= len(facts.history.events):
        content = facts.final.get(dump.name)
    else:
        content = None
        for event in facts.history.events[: position + 1]:
            if isinstance(event, Seen):
                content = dict(event.files).get(dump.name, content)
    return holds_texts(content, dump.rows)


def _missing(facts: Facts, fit: _Fit, position: int) -> list[Dump]:
    """The dumps that were accepted, and not on disk at a position in the history."""
    return [d for d in fit.dumps if not _is_there(facts, d, position) and not facts.said_no(d)]


def _failed(facts: Facts, fit: _Fit) -> list[Dump]:
    """Those that are not on disk because a fault has struck them, or of whose failure a call has told.

    A fault at a directory, or at a file whose name does not tell its step, struck one of those that nothing else
    explains.
    """
    missing = _missing(facts, fit, len(facts.history.events))
    owned = frozenset().union(*facts.owner_of_strike.values())
    told = frozenset().union(*map(facts.about, facts.raised))
    # To close a file tries the write again that has failed.
    loose = {
        o.op.path if o.op.kind in {"write", "flush", "close"} else o.number
        for _, o in facts.strikes
        if not facts.owner_of_strike[o.number]
    }
    known = [d for d in missing if d.number in owned | told]
    others = [d for d in missing if d not in known]
    return known + others[: max(0, len(loose) - sum(d.number not in owned for d in known))]


def _stderr(facts: Facts) -> str:
    return "".join(event.stderr for event in facts.history.of(Exited))
