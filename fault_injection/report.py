"""Reports: verdicts as text for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fault_injection.history import (
    Ended,
    Event,
    Exited,
    Final,
    HandedOver,
    History,
    Hung,
    Logged,
    Mark,
    Older,
    Operated,
    Seen,
    Threads,
    Waited,
)
from fault_injection.interleave.summary import Interleaved
from fault_injection.interleave.summary import as_text as interleavings_as_text
from fault_injection.interleave.summary import as_values as interleavings_as_values
from fault_injection.laws import LAWS
from fault_injection.matrix import Outcome, as_table, as_values
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import Spec
from fault_injection.verdict import Found, Verdict

FORMAT = 1
"""The version of the JSON report; it grows when a field changes its meaning or goes away."""


@dataclass(frozen=True)
class Report:
    """The verdicts of one run on one subject.

    Args:
        spec: how the subject was named.
        label: how it is shown.
        seed: the seed.
        verdicts: one for each law that was asked for.
        trials: how many trials were run.
        seconds: how long they took.
        exits: the cells of the exit matrix that were judged.
        interleavings: the schedules that were run.
    """

    spec: Spec
    label: str
    seed: int
    verdicts: tuple[Verdict, ...]
    trials: int
    seconds: float
    exits: tuple[Outcome, ...] = ()
    interleavings: tuple[Interleaved, ...] = ()

    @property
    def violated(self) -> bool:
        """Whether any law is violated."""
        return any(verdict.status == "violated" for verdict in self.verdicts)


def versions() -> dict[str, str]:
    """The versions that a verdict may depend on."""
    from importlib import metadata

    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for name in ("verl-dump", "numpy", "pyfakefs"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def user_id() -> int:
    """The effective user, on which permissions depend; -1 where the system has none."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


def replay_command(report: Report, law: str, found: Found) -> str:
    """The command that runs one trial alone and shows what happened."""
    words = ["verl-dump", "check", *report.spec.arguments, "--law", law]
    if report.seed:
        words += ["--seed", str(report.seed)]
    words += [f"--{need}" for need in ("torch", "ray") if need in SCENARIOS[found.scenario].needs]
    return shlex.join([*words, "--scenario", found.scenario, "--plan", found.plan])


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; the README documents the format.

    Args:
        report: what to show.

    Returns:
        `format`, `target`, `versions`, `seed`, `uid`, `trials`, `seconds`, `laws`, where `fit()` was driven `exits`,
        and where threads were scheduled `interleavings`.
    """
    more: dict[str, Any] = {"exits": as_values(report.exits)} if report.exits else {}
    if report.interleavings:
        more["interleavings"] = interleavings_as_values(report.interleavings)
    return {
        "format": FORMAT,
        "target": report.label,
        "versions": versions(),
        "seed": report.seed,
        "uid": user_id(),
        "trials": report.trials,
        "seconds": round(report.seconds, 3),
        "laws": [_law_json(report, verdict) for verdict in report.verdicts],
        **more,
    }


def _law_json(report: Report, verdict: Verdict) -> dict[str, Any]:
    violations = [
        {
            "message": f.message,
            "scenario": f.scenario,
            "plan": f.plan,
            "replay": replay_command(report, verdict.law, f),
        }
        for f in verdict.violations
    ]
    out: dict[str, Any] = {
        "id": verdict.law,
        "status": verdict.status,
        "trials": verdict.trials,
        "violations": violations,
    }
    if verdict.violated:
        out["violated"] = verdict.violated
    if verdict.reason:
        out["reason"] = verdict.reason
    return out


def write_json(reports: list[Report], path: str) -> None:
    """Write the JSON report: an object for one subject, `{"format": …, "reports": […]}` for several.

    Args:
        reports: one for each subject.
        path: the file; `-` for standard output.

    Raises:
        OSError: the file cannot be written.
    """
    value = (
        as_json(reports[0])
        if len(reports) == 1
        else {"format": FORMAT, "reports": [as_json(r) for r in reports]}
    )
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if path == "-":
        print(text, end="")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def header(label: str, seed: int) -> str:
    """The line that says what is tested and with what."""
    parts = [f"{name} {version}" for name, version in versions().items() if name != "system"]
    return f"target {label}; {', '.join(parts)}; seed {seed}; uid {user_id()}"


def as_text(report: Report, *, quiet: bool = False) -> str:
    """The report for people.

    Args:
        report: what to show.
        quiet: show violated laws and the last line only.
    """
    lines = []
    for verdict in report.verdicts:
        if quiet and verdict.status != "violated":
            continue
        lines += _law_text(report, verdict)
    if not quiet:
        lines += as_table(report.exits)
        lines += interleavings_as_text(report.interleavings)
    count = dict.fromkeys(("holds", "violated", "not claimed", "skipped"), 0)
    for verdict in report.verdicts:
        count[verdict.status] += 1
    words = {"holds": "held", "violated": "violated", "not claimed": "not claimed", "skipped": "skipped"}
    summary = ", ".join(f"{count[s]} {words[s]}" for s in words if count[s])
    lines.append(
        f"{report.label}: {summary}; {report.trials:,} trial{'s' * (report.trials != 1)} in {report.seconds:.1f} s"
    )
    return "\n".join(lines)


def _law_text(report: Report, verdict: Verdict) -> list[str]:
    law = LAWS[verdict.law]
    if verdict.status == "holds":
        return [f"{law.id:<4} holds        {verdict.trials:>5} trials  {law.sentence}"]
    if verdict.status in {"not claimed", "skipped"}:
        return [f"{law.id:<4} {verdict.status:<12} {verdict.reason}"]
    lines = [f"{law.id:<4} VIOLATED     {verdict.violated} of {verdict.trials} trials  {law.sentence}"]
    for found in verdict.violations:
        lines += [f"       {found.message}", f"         {replay_command(report, verdict.law, found)}"]
    return lines


def as_story(history: History) -> str:
    """A history for people, a line for each event.

    Args:
        history: what happened.
    """
    lines = [f"scenario {history.scenario}, plan {history.plan}, seed {history.seed}"]
    for event in history.events:
        text = _line(event)
        if text:
            lines.append(f"  {text}")
    return "\n".join(lines)


def _line(event: Event) -> str:  # noqa: C901 - one short case for each kind of event
    if isinstance(event, HandedOver):
        return f"dump {event.dump + 1}: step {event.step}, {len(event.rows)} rows, to {event.directory}/"
    if isinstance(event, Ended):
        name = f"dump {event.dump + 1}" if event.dump is not None else event.call
        return f"{name} returned" if event.failure is None else f"{name} raised {event.failure}"
    if isinstance(event, Operated):
        who = "caller" if event.op.caller else "worker"
        struck = f"  <-- {event.fault}" if event.fault else ""
        return f"  {event.number:>3} {who} {event.op}{struck}"
    if isinstance(event, Seen):
        files = (f"{n} ({'gone' if c is None else f'{len(c):,} bytes'})" for n, c in event.files)
        return f"  on disk: {', '.join(files)}"
    if isinstance(event, Waited):
        return f"{event.call} waited for the held disk"
    if isinstance(event, Hung):
        return f"{event.call} never returned"
    if isinstance(event, Threads):
        return f"threads left: {', '.join(event.alive)}" if event.alive else ""
    if isinstance(event, Final):
        return "at the end: " + (", ".join(f"{n} ({len(c):,} bytes)" for n, c in event.files) or "no files")
    if isinstance(event, Older):
        return f"an earlier run left {event.name} ({len(event.content):,} bytes)"
    if isinstance(event, Logged):
        return f"logged {event.level}: {event.text.splitlines()[0] if event.text else ''}"
    if isinstance(event, Exited):
        return f"the process ended with {event.code}; stderr: {event.stderr.strip() or 'empty'}"
    if isinstance(event, Mark):
        return f"-- {event.name} {event.text}".rstrip()
    return ""
