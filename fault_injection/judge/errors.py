"""The rules of group E: who is told of a failure, how often, and what remains afterwards."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from fault_injection.history import Ended, Exited, Hung, Link, Logged, Mark, Operated, Threads
from fault_injection.judge.facts import DEATHS, Dump, Facts, Raised, mentions, names_directory
from fault_injection.judge.rows import holds_texts

ESSENTIAL = frozenset({"fsync", "close"})
"""Operations whose failure is the failure of the dump, even where the bytes can still be read for now.

Of the others (write, flush, rename) the file itself tells whether they were made good.
"""
RAISERS = frozenset({"strike", "raise_os_error"})
"""The functions of the mechanisms that raise: a traceback that ends in one of them is the traceback of the operation."""
KEPT_OPEN = 16
"""Descriptors that a writer may keep open for the next run: of its directories, of a lock, of an index."""

_WRONG = re.compile(
    r"fail|error|exception|lost|\bnot\b|could|cannot|unable|missing|without|undrained|pending|never|drop",
    re.IGNORECASE,
)
"""Words of which one is in every sentence that tells of a loss."""
_STEPS = frozenset({"step", "steps", "global_step", "global_steps"})
"""Attributes of an exception that hold steps."""
_PATH = re.compile(r"""[^\s'"`()\[\]{}<>,;:=|@]*(?:[/\\]|\.[a-z_])[^\s'"`()\[\]{}<>,;:=|@]*""", re.IGNORECASE)
"""What stands in a text as a path or as the name of a file."""


def raised(facts: Facts) -> Iterator[str]:
    """E1: a failed dump is raised (several failed dumps are E3's, dead workers E8's)."""
    if not facts.deadly and not facts.shaped and len(_failed(facts)) == 1:
        yield from _untold(facts)


def all_raised(facts: Facts) -> Iterator[str]:
    """E3: of several failed dumps, each is raised."""
    if not facts.deadly and not facts.shaped and len(_failed(facts)) > 1:
        yield from _untold(facts)


def raised_once(facts: Facts) -> Iterator[str]:
    """E2: no exception object, and no injected failure, is raised by two calls."""
    told: dict[tuple[str, int], Raised] = {}
    reports: dict[int, list[Raised]] = {}
    for each in facts.raised:
        if each.call == "fit":
            continue
        if (first := _said_before(facts, each, reports)) is not None:
            yield f"the failure that {first} raised was told again by {_next(first, each)}: {_short(each.failure.links[0])}"
            return
        for link in each.failure.links:
            keys = [("object", link.serial)] + ([("strike", link.strike)] if link.strike is not None else [])
            for key in keys:
                first = told.setdefault(key, each)
                if first.position != each.position:
                    yield f"{_short(link)} was raised by {first} and again by {_next(first, each)}"
                    return


def telling(facts: Facts) -> Iterator[str]:
    """E4: what was raised names step and path and keeps the original with its errno and traceback."""
    strikes = {operated.number: operated for _, operated in facts.strikes}
    for each in facts.raised:
        about = [facts.dumps[number] for number in sorted(facts.about(each))]
        if not about or each.call == "fit":
            continue
        words = each.failure.words
        for dump in about:
            if not mentions(words, dump.step):
                yield f"the failure of {dump} raised by {each} does not name the step: {_short(each.failure.links[0])}"
                return
            if wrong := _misnamed(facts, each, dump):
                step = f"step {', '.join(map(str, sorted(wrong)))} instead of its own"
                yield f"the failure of {dump} raised by {each} names {step}: {_short(each.failure.links[0])}"
                return
            if not names_directory(words, dump):
                yield f"the failure of {dump} raised by {each} does not name the path: {_short(each.failure.links[0])}"
                return
    for number, operated in strikes.items():
        message = _original(facts, number, operated) or _unrecognisable(facts, number, operated)
        if message is not None:
            yield message
            return


def own_batch(facts: Facts) -> Iterator[str]:
    """E5: a call that raised another dump's failure kept its own batch, or said that it did not."""
    for each in facts.raised:
        if each.dump is None:
            continue
        dump = facts.dumps[each.dump]
        if dump not in facts.lost or facts.told_of(dump) or facts.refused(each):
            continue
        # A batch that met a fault of its own is E1's and E3's.
        if any(
            not own or dump.number in own
            for own in facts.owner_of_strike.values()
            if own != facts.about(each)
        ):
            continue
        if facts.about(each) - {dump.number}:
            yield f"the call of {dump} raised an earlier failure; its own batch is missing and nobody said so"


def primary(facts: Facts) -> Iterator[str]:
    """E6: fit() raises the training error, with the failures of the dump attached."""
    for mark in facts.history.of(Mark):
        if mark.name != "way out" or not mark.text:
            continue
        fits = [e for e in facts.history.of(Ended) if e.call == "fit"]
        if not fits or fits[-1].failure is None:
            yield f"fit() swallowed the training error {mark.text}"
            return
        failure = fits[-1].failure
        if mark.text not in failure.links[0].types:
            yield f"fit() raised {failure} instead of the training error {mark.text}"
        for dump in facts.lost:
            if holds_texts(facts.final.get(dump.name), dump.rows):
                # What the writer makes of the other columns is judged where it writes, not here.
                continue
            if dump.failure is None and not facts.told_of(dump):
                yield f"the failure of {dump}, found on the way out, is not attached to the training error"
                return


def ended(facts: Facts) -> Iterator[str]:
    """E7: after drain there is no worker, nothing pending and nothing left open; draining again does nothing; the next run starts clean."""
    for threads in facts.history.of(Threads):
        if threads.alive:
            name = re.sub(r"[-_\d]+$", "", threads.alive[0])
            yield f"after drain the writer's thread ({name}) lives on"
            break
    for each in facts.raised:
        if each.call == "drain" and _follows_a_drain(facts, each.position):
            yield f"a second drain raised again: {each.failure}"
            break
    for number in (int(mark.text) for mark in facts.history.of(Mark) if mark.name == "left open"):
        if number > KEPT_OPEN:
            yield f"{number} descriptors below the root are open though everything is drained"
    clean = next(
        (i for i, e in enumerate(facts.history.events) if isinstance(e, Mark) and e.name == "next run"), None
    )
    if clean is None or facts.disturbed >= 0 or any(position > clean for position, _ in facts.strikes):
        return
    for each in facts.raised:
        if each.position > clean:
            yield f"the next run did not start clean: {each} raised {each.failure}"
            return
    for dump in facts.lost:
        if dump.start > clean and not facts.shaped:
            yield f"the next run did not start clean: {dump} is not on disk"
            return


def death_reported(facts: Facts) -> Iterator[str]:
    """E8: a dead worker is reported, and no call waits for it."""
    for hung in facts.history.of(Hung):
        yield f"{_named(facts, hung)} never returned"
    if facts.deadly:
        yield from _untold(facts)


def warned(facts: Facts) -> Iterator[str]:
    """E9: in warn mode nothing is raised; each failure is logged with step and path, and drain tells the number."""
    for each in facts.raised:
        yield f"{each} raised {each.failure} in warn mode"
        return
    logged = [event.text for event in facts.history.of(Logged)]
    failed = _failed(facts)
    for dump in (facts.dumps[number] for number in sorted(failed)):
        lines = [text for text in logged if mentions(text, dump.step)]
        if not lines:
            yield f"the failure of {dump} was not logged with its step"
            return
        if not any(names_directory(text, dump) for text in lines):
            yield f"the failure of {dump} was logged without its path"
            return
    # A failure that left the file whole may be counted or not; a dump that nothing is logged of cannot.
    most = sum(any(mentions(text, dump.step) for text in logged) for dump in facts.dumps)
    drains = [i for i, e in enumerate(facts.history.events) if isinstance(e, Mark) and e.name == "draining"]
    after = [e.text for e in facts.history.events[drains[0] :] if isinstance(e, Logged)] if drains else []
    numbers = {int(number) for text in after for number in re.findall(r"(?<!\d)\d+(?!\d)", text)}
    if failed and not numbers & set(range(len(failed), most + 1)):
        yield f"drain gave no summary that counts the {len(failed)} failed dumps"


def not_silent(facts: Facts) -> Iterator[str]:
    """E10: what is lost when a process ends without draining is on stderr or in the exit code."""
    exited = next(iter(facts.history.of(Exited)), None)
    if exited is None:
        return
    untold = list(facts.unreported())
    untold += [dump for _, dump in _swallowed(facts) if dump not in untold]
    if not untold or exited.code != 0 or says(exited.stderr, untold[0], facts):
        return
    state = "which is not on disk" if untold[0] in facts.lost else "an operation of which failed"
    yield f"the process ended with exit code 0 and said nothing of {untold[0]}, {state}"


def _untold(facts: Facts) -> Iterator[str]:
    silent = facts.unreported()
    if silent:
        names = ", ".join(str(dump) for dump in silent)
        yield f"{names} {'is' if len(silent) == 1 else 'are'} not on disk, and no call ever raised the failure"
        return
    for strike, dump in _swallowed(facts):
        yield f"{strike.fault} at the {strike.op.kind} of {dump} was swallowed: no call ever raised it"
        return


def _failed(facts: Facts) -> set[int]:
    """The dumps that failed: not on disk, or an essential operation of theirs failed for good."""
    return {dump.number for dump in facts.lost} | {number for _, number in _struck(facts)}


def _swallowed(facts: Facts) -> Iterator[tuple[Operated, Dump]]:
    """The dumps of which an essential operation failed for good, and which nobody was told of; with the operation."""
    for strike, number in _struck(facts):
        dump = facts.dumps[number]
        if not facts.told_of(dump):
            yield strike, dump


def _struck(facts: Facts) -> Iterator[tuple[Operated, int]]:
    """Every strike at an essential operation that was not tried again with success, with each dump it belongs to."""
    operated = [(i, e) for i, e in enumerate(facts.history.events) if isinstance(e, Operated)]
    for position, strike in facts.strikes:
        kind, path = strike.op.kind, strike.op.path
        if kind not in ESSENTIAL:
            continue
        owners = facts.owner_of_strike[strike.number]
        written = any(e.op.kind == "write" and e.op.path == path for i, e in operated if i <= position)
        # The second try may go to a file of another name.
        again = any(
            e.op.kind == kind and (e.op.path == path or facts.owners(e) & owners)
            for i, e in operated
            if i > position and (i, e) not in facts.strikes
        )
        if written and not again:
            yield from ((strike, number) for number in sorted(owners))


def _original(facts: Facts, number: int, operated: Operated) -> str | None:
    """Whether the failure that reports a strike still holds the original exception; a message where it does not."""
    owners = facts.owner_of_strike[number]
    reports = [r for r in facts.raised if r.call != "fit" and owners & facts.about(r)]
    if not reports:
        return None
    links = [link for r in reports for link in r.failure.links]
    strikes_of_owner = {n for n, who in facts.owner_of_strike.items() if who & owners}
    kind = operated.fault if operated.fault in DEATHS else "OSError"
    kept = [
        link
        for link in links
        if link.strike in strikes_of_owner
        or (link.strike is None and kind in link.types and link.errno == (operated.errno or None))
    ]
    if not kept:
        return f"{reports[0]} raised {reports[0].failure}; the original {operated.fault} cannot be reached from it"
    # Where the kernel itself refuses a call of C code, no function of a mechanism is there to be seen.
    by_kernel = facts.history.mechanism == "kernel"
    if not any(link.frames and (by_kernel or link.frames[-1] in RAISERS) for link in kept):
        return f"the traceback of the write is gone from what {reports[0]} raised"
    return None


def _misnamed(facts: Facts, each: Raised, dump: Dump) -> frozenset[int]:
    """The steps that the failure of a dump names elsewhere than in paths, where the dump's own is not among them.

    Named by a path alone, it may come with others that failed too, each in an exception of its own, and with words of the
    call's own batch, which was not accepted.
    """
    links = each.failure.links
    stated = [_stated(facts, link) for link in links]
    every: frozenset[int] = frozenset().union(*stated)
    pending = [value for link in links for name, value in link.attributes if name == "pending"]
    failed = {facts.dumps[number].step for number in _failed(facts)}
    strikes = [link.strike for link in links if link.strike is not None]
    shown = any(dump.number in facts.owner_of_strike.get(strike, ()) for strike in strikes)
    if dump.step in every or mentions("\n".join(pending), dump.step) or not (shown or dump.step in failed):
        return frozenset()
    own = {facts.dumps[each.dump].step} if each.dump is not None and facts.refused(each) else set()
    pairs = zip(links, stated, strict=True)
    apart = any(steps <= own and mentions(link.words, dump.step) for link, steps in pairs)
    return frozenset() if apart and every <= failed else every


def _stated(facts: Facts, link: Link) -> frozenset[int]:
    """The steps that an exception names elsewhere than in a path: those of the trial, and its attribute `step`."""
    texts = [_PATH.sub(" ", text) for text in (link.text, *link.notes)]
    texts += [value for name, value in link.attributes if name in _STEPS]
    said = {dump.step for dump in facts.dumps if any(mentions(text, dump.step) for text in texts)}
    return frozenset(
        said | {int(value) for name, value in link.attributes if name == "step" and value.isdecimal()}
    )


def _unrecognisable(facts: Facts, number: int, operated: Operated) -> str | None:
    """Whether a strike is told of by an error only that neither holds it nor names its dump; a message where it is."""
    if any(link.strike == number for r in facts.raised for link in r.failure.links):
        return None
    events = facts.history.events
    position = next(i for i, e in enumerate(events) if e is operated)
    clean = next(
        (i for i, e in enumerate(events) if isinstance(e, Mark) and e.name == "next run"), len(events)
    )
    nameless = [r for r in facts.nameless if position < r.position < clean and r.call != "fit"]
    failed = {n for n in _failed(facts) if not facts.told_of(facts.dumps[n])}
    owners = facts.owner_of_strike[number] or failed
    if nameless and owners & failed:
        return f"{nameless[0]} raised {nameless[0].failure}, from which neither the step nor the {operated.fault} can be told"
    return None


def _said_before(facts: Facts, each: Raised, reports: dict[int, list[Raised]]) -> Raised | None:
    """The call that told of the same dumps before, where this one tells of nothing else: a copy of an old failure."""
    steps = {facts.dumps[number].step for number in facts.about(each)}
    # A step that was dumped twice may fail twice.
    fresh = [n for n in steps if len(reports.get(n, [])) < sum(dump.step == n for dump in facts.dumps)]
    first = reports[min(steps)][0] if steps and not fresh else None
    # Past a deadline the steps that are pending are named, and may fail yet.
    if each.call != "drain-deadline":
        for step in steps:
            reports.setdefault(step, []).append(each)
    return None if any(link.strike is not None for link in each.failure.links) else first


def _next(first: Raised, each: Raised) -> str:
    return f"the next {each}" if str(first) == str(each) else str(each)


def _short(link: Link) -> str:
    text = link.text.splitlines()[0] if link.text else ""
    return f"{link.types[0]}({text})"


def _follows_a_drain(facts: Facts, position: int) -> bool:
    calls = [e.call for e in facts.history.events[:position] if isinstance(e, Ended)]
    return calls[-1:] == ["drain"]


def _named(facts: Facts, hung: Hung) -> str:
    return f"the call of {facts.dumps[hung.dump]}" if hung.dump is not None else hung.call


def says(stderr: str, dump: Dump, facts: Facts) -> bool:
    """Whether what a process wrote to stderr tells of the loss of a dump, or of what struck it."""
    texts = [os.strerror(o.errno) for _, o in facts.strikes if o.errno]
    texts += [errno.errorcode[o.errno] for _, o in facts.strikes if o.errno]
    texts += [o.fault for _, o in facts.strikes if not o.errno]
    if any(text in stderr for text in texts):
        return True
    # Talk of dumps is not enough: a line must say of this dump, or of dumps, that something went wrong.
    of_dumps = re.compile(r"(?<![\w/.-])dump(s|ed|ing)?(?![\w/.-])", re.IGNORECASE)
    return any(
        _WRONG.search(line) and (mentions(line, dump.step) or of_dumps.search(line))
        for line in stderr.splitlines()
    )
