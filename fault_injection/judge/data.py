"""The rules of group D: what is on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from fault_injection.batches import canonical, read_rows
from fault_injection.history import Exited, Mark, Operated, Seen
from fault_injection.judge.facts import Dump, Facts, mentions


def complete(facts: Facts) -> Iterator[str]:
    """D1: where nothing failed, every dump is in its file, the file holds nothing else, and nothing is raised."""
    if facts.killed:
        yield from _after_kill(facts)
    if not facts.shaped or facts.strikes:
        return
    if not facts.faults:
        for each in facts.raised:
            if not facts.refused(each):
                yield f"on a healthy disk {each} raised {each.failure}"
                return
    for dump in facts.dumps:
        if dump.failure is not None or dump.number in facts.superseded or facts.told_of(dump):
            continue
        if facts.is_written(dump):
            if foreign := _foreign_rows(facts, dump):
                yield f"{dump.name} holds {_rows(foreign)} that nobody handed over for that step"
            continue
        yield f"{dump} was accepted and drained without error, but {_difference(facts, dump)}"


def _after_kill(facts: Facts) -> Iterator[str]:
    """What a drain had acknowledged outlives the kill, and the next run over the same directory works."""
    for dump in facts.dumps:
        if facts.is_acknowledged(dump) and not facts.outlived(dump):
            yield f"{dump} was drained without error before the kill, and is not on disk after it"
            return
    for each in facts.raised:
        if each.position > facts.killed[-1]:
            yield f"the next run over what the kill had left does not work: {each} raised {each.failure}"
            return
    for dump in facts.lost:
        if dump.start > facts.killed[-1]:
            yield f"the next run over what the kill had left does not work: {_difference(facts, dump)}"
            return


def whole_at_every_instant(facts: Facts) -> Iterator[str]:
    """D2: whatever is under a final name, at any operation, is one of the complete contents that it may have."""
    names = {dump.name for dump in facts.dumps} | facts.older.keys()
    for i, event in enumerate(facts.history.events):
        if not isinstance(event, Seen):
            continue
        for name, content in event.files:
            if content is None:
                continue
            if name not in names:
                if in_sight(facts, name):
                    yield f"{name} matches *.jsonl but is no dump"
            elif not whole(facts, name, content, i):
                yield f"{_when(facts, event, i)}, {name} held {amount(content)} of {expected(facts, name)}"
                return


def nothing_left_behind(facts: Facts) -> Iterator[str]:
    """D3: after the last drain there are complete dumps and nothing else; older files are as they were, or replaced."""
    names = {dump.name for dump in facts.dumps} | facts.older.keys()
    for name, content in facts.final.items():
        if name in names:
            if not whole(facts, name, content, len(facts.history.events)):
                yield f"after drain {name} holds {amount(content)} of {expected(facts, name)}"
        elif not (
            _could_not_clear(facts, name) or _is_published(facts, name) or facts.history.marked("killed")
        ):
            yield f"after drain {name} is left behind ({len(content):,} bytes)"
    for name in facts.older:
        if name not in facts.final and not facts.cleared:
            yield f"the complete {name} of an earlier run is gone"


def _is_published(facts: Facts, name: str) -> bool:
    """Whether a file is one that the writer keeps beside its dumps, such as an index: renamed into place, of no step."""
    targets = {operated.op.target for operated in facts.history.of(Operated) if operated.op.kind == "rename"}
    of_a_step = any(mentions(name.rpartition("/")[2], dump.step) for dump in facts.dumps)
    # In memory only refused operations are seen; the disk mechanism has seen the others.
    known = name in targets or facts.history.mechanism == "memory"
    return known and not of_a_step and not name.endswith(".jsonl")


def others_written(facts: Facts) -> Iterator[str]:
    """D4: no more dumps are lost than were struck, and none that was not."""
    if facts.shaped or facts.cleared:
        return
    lost = [d for d in facts.lost if not facts.said_no(d)]
    owners = [facts.owner_of_strike[operated.number] for _, operated in facts.strikes]
    struck = frozenset().union(*owners, frozenset())
    untouched = [dump for dump in lost if dump.number not in struck]
    # An operation on a directory or a random name may have been any one dump's.
    if len(untouched) <= owners.count(frozenset()):
        return
    if len(lost) > len(owners):
        names = ", ".join(str(d.step) for d in lost)
        yield (
            f"{len(owners)} operation{'s' * (len(owners) != 1)} failed, but "
            f"{len(lost)} dump{'s are' if len(lost) != 1 else ' is'} missing (steps {names})"
        )
        return
    yield f"{untouched[0]} is missing, though only other dumps' operations failed"


def as_handed_over(facts: Facts) -> Iterator[str]:
    """D5: a dump whose objects were changed after the call is equal to its twin that was left alone."""
    for text in (mark.text for mark in facts.history.of(Mark) if mark.name == "twins"):
        left_alone, changed = (facts.dumps[int(number)] for number in text.split())
        twin = _without_step(facts.final.get(left_alone.name))
        rows = _without_step(facts.final.get(changed.name))
        if rows is None and twin is not None:
            yield f"{changed.name} is missing or torn, and the file of its twin, which was left alone, is whole"
        elif rows is None and not facts.raised:
            yield f"{changed.name} is missing: global_steps was advanced after the call of {changed}"
        if twin is None or rows is None:
            continue
        for number, (right, wrong) in enumerate(zip(twin, rows, strict=False), 1):
            keys = [k for k in {**right, **wrong} if canonical(right.get(k)) != canonical(wrong.get(k))]
            if keys:
                yield f"the caller's change after the call reached the file: row {number} of {changed} differs in {keys[0]!r}"
                return
        if len(twin) != len(rows):
            yield f"the caller's change after the call reached the file: {_rows(len(rows))} of {changed} instead of {len(twin)}"
        steps = {row.get("step") for row in _parsed(facts.final[changed.name]) or []}
        if steps != {changed.step}:
            yield f"the rows of {changed} carry step {sorted(map(str, steps))}: it was read after the call had returned"


def both_of_one_step(facts: Facts) -> Iterator[str]:
    """D6: of two dumps of one step in one run, none is missing unless its failure was raised."""
    for dump in facts.lost:
        twins = [
            d for d in facts.dumps if d.name == dump.name and d.run == dump.run and d.number != dump.number
        ]
        if facts.died_with(dump):
            # Nobody had acknowledged it, and the process that could have told of it is gone.
            continue
        if not twins or _rows_anywhere(facts, dump) or not _silently(facts, dump, twins):
            continue
        if facts.ever_written(dump):
            yield f"the rows of {dump} were on disk; another dump of that step in the same run took them away"
        elif not facts.strikes:
            yield f"step {dump.step} was dumped twice in one run; the rows of {dump} are lost and nobody was told"
    for name in dict.fromkeys(d.name for d in facts.dumps):
        last = max((d for d in facts.dumps if d.name == name), key=lambda d: d.number)
        if (
            last.run
            and not facts.strikes
            and last in facts.lost
            and not facts.told_of(last)
            and not facts.died_with(last)
            and not last.failure
        ):
            yield f"{last} of the restarted run is not on disk: {_difference(facts, last)}"


def _silently(facts: Facts, dump: Dump, twins: list[Dump]) -> bool:
    """Whether more dumps of one step are lost than failures were raised: by their words the failures do not differ."""
    if facts.said_no(dump):
        return False
    lost = [each for each in (dump, *twins) if each in facts.lost and not facts.said_no(each)]
    told = {r.position: r for each in lost for r in facts.told_of(each) if not facts.refused(r)}
    strikes = [{link.strike for link in r.failure.links} - {None} for r in told.values()]
    return len(lost) > sum(max(len(each), 1) for each in strikes)


def _when(facts: Facts, seen: Seen, position: int) -> str:
    if seen.number:
        return f"before operation {seen.number}"
    if any(exited.code < 0 for exited in facts.history.of(Exited)):
        return "after the process was killed"
    later = any(isinstance(event, Operated) for event in facts.history.events[position:])
    return "while the writer was at rest" if later else "at the end"


def in_sight(facts: Facts, name: str) -> bool:
    """Whether a reader that globs in or below a dump directory finds the file: no hidden folder lies between."""
    for folder in {os.path.dirname(dump.name) for dump in facts.dumps}:
        inside, _, rest = name.partition(f"{folder}/")
        if not inside and not any(part.startswith(".") for part in rest.split("/")[:-1]):
            return True
    return False


def _could_not_clear(facts: Facts, name: str) -> bool:
    """Whether an operation that would have removed the file failed: on it, or on a folder of its own that holds it."""
    folders = {os.path.dirname(dump.name) for dump in facts.dumps}
    for _, operated in facts.strikes:
        kind, path = operated.op.kind, operated.op.path
        if path == name and kind == "unlink":
            return True
        if path not in folders and name.startswith(f"{path}/") and kind in {"open", "unlink", "rmdir"}:
            return True
    return False


def in_utf8(facts: Facts) -> Iterator[str]:
    """S3: the dump does not depend on the locale; examples of strange text are judged by the oracle."""
    for dump in facts.lost:
        told = [raised for raised in facts.raised if raised.position >= dump.end]
        why = f": {told[0].failure}" if told else f": {_difference(facts, dump)}"
        yield f"under a locale of ASCII only {dump} is not on disk as handed over{why}"


def whole(facts: Facts, name: str, content: bytes, position: int) -> bool:
    """Whether the content is a complete file: the older one, or whole dumps that were handed over by then."""
    if content == facts.older.get(name):
        return True
    rows = read_rows(content)
    if rows is None:
        return False
    # Values are judged by D1 and by the laws of serialization; here the prompts tell which rows are there.
    pieces = [_prompts(d.rows) for d in facts.dumps if d.name == name and d.start < position]
    if name in facts.older:
        pieces.append(_prompts(read_rows(facts.older[name]) or ()))
    return _is_made_of(_prompts(rows), pieces)


def _prompts(rows: tuple[str, ...]) -> list[object]:
    return [json.loads(row).get("input") for row in rows]


def _is_made_of(prompts: list[object], pieces: list[list[object]]) -> bool:
    """Whether the prompts are those of some of the pieces, each used at most once, one after the other."""
    if not prompts:
        return [] in pieces
    for i, piece in enumerate(pieces):
        if piece and prompts[: len(piece)] == piece:
            rest = prompts[len(piece) :]
            if not rest or _is_made_of(rest, pieces[:i] + pieces[i + 1 :]):
                return True
    return False


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def amount(content: bytes) -> str:
    """What a file holds, in words."""
    lines, rest = content.count(b"\n"), len(content) - content.rfind(b"\n") - 1
    torn = f" and a torn one of {rest:,} bytes" if rest else ""
    return f"{lines} complete row{'s' * (lines != 1)}{torn}" if content else "nothing"


def expected(facts: Facts, name: str) -> str:
    """What a file should hold, in words."""
    sizes = [len(d.rows) for d in facts.dumps if d.name == name]
    if not sizes:
        return "its content"
    return f"{' or '.join(map(str, dict.fromkeys(sizes)))} row{'s' * (sizes[-1] != 1)}"


def _difference(facts: Facts, dump: Dump) -> str:
    """What is there instead of a dump that is not on disk."""
    content = facts.final.get(dump.name)
    if content is None:
        return f"there is no {dump.name}"
    rows = read_rows(content)
    if rows is None:
        return f"{dump.name} is torn"
    if len(rows) != len(dump.rows):
        return f"{dump.name} holds {_rows(len(rows))} instead of {len(dump.rows)}"
    number, right, wrong = next(
        (number, right, wrong)
        for number, (right, wrong) in enumerate(zip(dump.rows, rows, strict=True), 1)
        if right != wrong
    )
    want, got = json.loads(right), json.loads(wrong)
    for key in want:
        if key not in got:
            return f"row {number} of {dump.name} lacks {key!r}"
        if canonical(want[key]) != canonical(got[key]):
            return f"row {number} of {dump.name} has another {key!r}"
    return f"row {number} of {dump.name} has the extra {next(k for k in got if k not in want)!r}"


def _foreign_rows(facts: Facts, dump: Dump) -> int:
    mine = [row for d in facts.dumps if d.name == dump.name for row in d.rows]
    mine += read_rows(facts.older.get(dump.name, b"")) or ()
    rows = list(facts.on_disk[dump.name] or ())
    for row in mine:
        if row in rows:
            rows.remove(row)
    return len(rows)


def _rows_anywhere(facts: Facts, dump: Dump) -> bool:
    return any(rows is not None and set(dump.rows) <= set(rows) for rows in facts.on_disk.values())


def _parsed(content: bytes | None) -> list[dict[str, object]] | None:
    rows = None if content is None else read_rows(content)
    return None if rows is None else [json.loads(row) for row in rows]


def _without_step(content: bytes | None) -> list[dict[str, object]] | None:
    rows = _parsed(content)
    return None if rows is None else [{k: v for k, v in row.items() if k != "step"} for row in rows]
