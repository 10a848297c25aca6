"""The rules of group Q: what waits, for how long, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fault_injection.history import Ended, Exited, Hung, Mark, Seen, Waited
from fault_injection.judge.facts import Facts, mentions


def returns(facts: Facts) -> Iterator[str]:
    """Q1: no call of dump waited while the disk was held."""
    for event in facts.history.of(Waited):
        if event.dump is not None:
            yield f"with the disk stalled the call of {facts.dumps[event.dump]} did not return"
            return


def bounded(facts: Facts) -> Iterator[str]:
    """Q2: before the limit a call waited or was refused, and what was accepted was not lost for it."""
    for mark in facts.history.of(Mark):
        if mark.name == "unbounded":
            yield f"with the disk stalled {mark.text} were accepted, and nothing said stop"
    if facts.shaped:
        for dump in facts.lost:
            if dump.failure is None and not facts.told_of(dump):
                yield f"{dump} was accepted while the queue was full and is not on disk"
                return


def deadline(facts: Facts) -> Iterator[str]:
    """Q3: drain past its deadline raises and names the steps; nothing is lost by it; the exit is not held."""
    for waited in facts.history.of(Waited):
        if waited.call == "drain-deadline":
            yield "drain with a timeout did not return while the disk was stuck"
            return
    exited = next(iter(facts.history.of(Exited)), None)
    yield from _past_deadline(facts) if exited is None else _ended_in_time(facts, exited)


def _past_deadline(facts: Facts) -> Iterator[str]:
    for i, event in enumerate(facts.history.events):
        if not isinstance(event, Ended) or event.call != "drain-deadline":
            continue
        pending = [d for d in facts.dumps if d.end < i and d.failure is None and not facts.was_written(d, i)]
        if pending and event.failure is None:
            yield f"drain returned at its deadline as if all were well, with {len(pending)} dump{'s' * (len(pending) != 1)} not on disk"
            return
        for dump in pending:
            if event.failure is not None and not mentions(event.failure.words, dump.step):
                yield f"drain's deadline passed and the error does not name step {dump.step}, which is not on disk"
                return
    for dump in facts.lost:
        # To be named as pending is not to be told of a failure.
        if not any(told.call != "drain-deadline" for told in facts.told_of(dump)):
            yield f"{dump} is lost after a drain that ran out of time and a second one that did not"
            return


def _ended_in_time(facts: Facts, exited: Exited) -> Iterator[str]:
    for _ in facts.history.of(Hung):
        yield "a stuck write held the exit of the process far beyond its deadline"
        return
    for dump in facts.lost:
        if exited.code == 0 and not mentions(exited.stderr, dump.step):
            yield f"the process ended at its deadline and did not say that step {dump.step} is not on disk"
            return


def ordered(facts: Facts) -> Iterator[str]:
    """Q4: final names appear in the order in which the dumps were handed over."""
    first: dict[str, int] = {}
    for position, event in enumerate(facts.history.of(Seen)):
        for name, content in event.files:
            if content is not None and name not in facts.older:
                first.setdefault(name, position)
    order = [d for d in facts.dumps if d.name in first and d.run == 0]
    seen = list(dict.fromkeys(d.name for d in order))
    for earlier, later in itertools.pairwise(seen):
        if first[later] < first[earlier]:
            yield f"{later} was on disk before {earlier}, which was handed over first"
            return


def after_drain(facts: Facts) -> Iterator[str]:
    """Q5: the dump after the drain is on disk, or its call or the next drain raised."""
    for dump in facts.lost:
        if not any(r.position > dump.start for r in facts.raised):
            yield f"{dump}, handed over after a drain, was accepted and is not on disk"
            return
    for hung in facts.history.of(Hung):
        yield f"{hung.call} after a drain never returned"
        return


def from_threads(facts: Facts) -> Iterator[str]:
    """Q6: every dump of every thread is on disk, and every failed one was raised."""
    for dump in facts.dumps:
        if facts.shaped and dump.failure is not None and not facts.said_no(dump):
            yield f"{dump}, handed over from a thread of its own, raised {dump.failure}"
            return
    silent = facts.unreported()
    if silent:
        yield f"{silent[0].name}, handed over from a thread of its own, is not on disk, and nobody was told"


def forked(facts: Facts) -> Iterator[str]:
    """Q7: the child ends by itself and touches none of the parent's dumps, which are all written once."""
    for mark in facts.history.of(Mark):
        if mark.name == "child hung":
            yield f"the forked child never ended ({mark.text})"
        if mark.name == "child wrote":
            yield f"the forked child wrote {mark.text}, a pending dump of its parent"
    for dump in facts.lost:
        if dump.failure is None and not facts.told_of(dump):
            yield f"{dump}, pending at the fork, is not on disk"
            return
    for name in dict.fromkeys(d.name for d in facts.dumps):
        rows = facts.on_disk.get(name)
        if rows is not None and len(rows) > sum(len(d.rows) for d in facts.dumps if d.name == name):
            yield f"{name} holds its rows twice after the fork"
