"""The documentation page of the mechanisms, made from what each says that it can do."""

from __future__ import annotations

from collections.abc import Mapping

from fault_injection.fault import CATALOGUE
from fault_injection.mechanisms import disk, kernel, memory
from fault_injection.mechanisms.kernel.means import MEANS
from fault_injection.op import OPS

_INTRODUCTION = """\
# The mechanisms

<!-- Made from fault_injection/mechanisms by `python -m fault_injection.docs mechanisms`; edit those and run it again. -->

A mechanism makes a plan real. A plan gives the same history through each mechanism that supports it: the same error at
the same call, and the same bytes left; `tests/test_mechanisms_agree.py` runs them against each other.

| mechanism | how | good for |
|---|---|---|
| memory | pyfakefs: a sized mount, permissions by user | hermetic, any system, thousands of examples |
| disk | the calls of `open`, `io` and `os` of this process below one directory, over a real one | every operation, every error, sweeps, crash states |
| kernel | a child over a system that truly fails, by one of the stages below | the truth of the other two; writers that write in C |

## What strikes where

`all` stands for every operation that the fault applies to.

"""
_STAGES = """
## The stages of the kernel mechanism

A plan goes to the first stage that can make it real: those that change the system come before those that change the
answer of a call. What C code does under a changed system leaves no note in Python; such a writer's calls are answered.

| stage | how | faults | needs | remark |
|---|---|---|---|---|
"""
_MEANS = """
## What the stages need

A machine that lacks a means is told so once, before the run; the units that need it are left out and counted, and
`--strict` makes that a failure.

| means | how to get it |
|---|---|
"""
_MEMORY = {
    "ENOSPC": "bytes>N; a write that does not fit is refused whole",
    "EACCES": "open#1+ and mkdir#1+",
}
"""Where a fault of the fake file system is narrower than the plan's words."""


def mechanisms_page() -> str:
    """The page of the mechanisms, as Markdown: fault by mechanism, then the stages and what they need."""
    rows = "".join(map(_row, CATALOGUE))
    head = "| fault | what happens | memory | disk | kernel | stages |\n|---|---|---|---|---|---|\n"
    stages = "".join(
        f"| {stage.name} | {stage.how} | {_faults(stage.faults)} | {', '.join(stage.needs) or 'nothing'} | {stage.remark} |\n"
        for stage in kernel.STAGES.values()
    )
    means = "".join(f"| {name} | {remedy} |\n" for name, (_, remedy) in MEANS.items())
    return f"{_INTRODUCTION}{head}{rows}{_STAGES}{stages}{_MEANS}{means}"


def _row(name: str) -> str:
    kind = CATALOGUE[name]
    cells = [name, kind.meaning]
    for table in (memory.CAPABILITIES, disk.CAPABILITIES, kernel.CAPABILITIES):
        said = _ops(name, table)
        cells.append(f"{said} ({_MEMORY[name]})" if table is memory.CAPABILITIES and said else said)
    cells.append(", ".join(stage.name for stage in kernel.STAGES.values() if name in stage.faults))
    return "| " + " | ".join(cells) + " |\n"


def _ops(name: str, table: Mapping[str, tuple[str, ...]]) -> str:
    if name not in table:
        return ""
    applies = [op for op in OPS if op in CATALOGUE[name].ops]
    without = [op for op in applies if op not in table[name]]
    if not without:
        return "all" if len(applies) > 1 else applies[0]
    return f"all but {', '.join(without)}" if len(without) < 3 else ", ".join(table[name])


def _faults(faults: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(faults) if len(faults) < 4 else f"{len(faults)} faults"
