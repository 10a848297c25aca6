"""One account of a trial through the kernel, out of what its child told and what the kernel was asked."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import replace

from fault_injection.history import Ended, Event, Failure, Mark, Operated

STRUCK = "struck"
"""The mark by which a child tells of an error that the kernel gave: the number of the operation and the error's name."""


def merged(events: list[Event], asked: set[int]) -> list[Event]:
    """One account of the operations out of two: what the fault layer of the child saw, and what the kernel was asked."""
    operated = [e for e in events if isinstance(e, Operated)]
    by_kernel = Counter(e.op.kind for e in operated if id(e) in asked)
    by_layer = Counter(e.op.kind for e in operated if id(e) not in asked)
    events = [e for e in events if not (isinstance(e, Mark) and e.name in {STRUCK, "unseen"})]
    if by_kernel - by_layer:
        # C code: the kernel's account is the only whole one, and its numbers are not those that errors were marked with.
        return [_unmarked(e) for e in events if not isinstance(e, Operated) or id(e) in asked]
    kept: list[Event] = []
    for event in events:
        if not isinstance(event, Operated) or id(event) not in asked:
            kept.append(event)
        elif event.fault:
            place = _place(kept, event)
            if place is None:
                # The child took the call for another operation, as where it opens a file without a name.
                kept.append(event)
                continue
            number = kept[place].number  # type: ignore[union-attr]
            kept[place] = replace(event, number=number)
    return kept


def _place(events: list[Event], asked: Operated) -> int | None:
    """Where the child told of the operation that the kernel then asked about: it tells first, so it is the last one."""
    places = (
        i
        for i in range(len(events) - 1, -1, -1)
        if isinstance(told := events[i], Operated)
        and (told.op.kind, told.op.path) == (asked.op.kind, asked.op.path)
    )
    return next(places, None)


def _unmarked(event: Event) -> Event:
    if not isinstance(event, Ended) or event.failure is None:
        return event
    links = tuple(replace(link, strike=None) for link in event.failure.links)
    return replace(event, failure=Failure(links))


def folded(events: list[Event]) -> tuple[list[Event], int]:
    """The events with each noted error put to its operation, and the number of errors."""
    struck = {}
    for event in events:
        if isinstance(event, Mark) and event.name == STRUCK:
            number, name = event.text.split()
            struck[int(number)] = name
    kept = [e for e in events if not (isinstance(e, Mark) and e.name == STRUCK)]
    return [
        replace(e, fault=struck[e.number], errno=getattr(errno, struck[e.number]))
        if isinstance(e, Operated) and e.number in struck
        else e
        for e in kept
    ], len(struck)
