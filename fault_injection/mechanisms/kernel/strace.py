"""Injection by strace at the k-th call on a known path, as it is done by hand: `strace -f -P PATH -e inject=…`.

strace takes whole names only and counts the calls of each thread and each system call by itself. So the trial is rehearsed
once without a fault: the rehearsal tells on which path, and as the how manieth call of its thread, the operation will come.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fault_injection.op import Op
from fault_injection.plan import Plan, Rule

SYSTEM_CALLS: dict[str, str] = {
    "mkdir": "mkdir,mkdirat",
    "open": "open,openat",
    "read": "read,pread64,readv,preadv",
    "write": "write,pwrite64,writev,pwritev",
    "fsync": "fsync,fdatasync",
    "fsyncdir": "fsync,fdatasync",
    "truncate": "truncate,ftruncate,fallocate",
    "close": "close",
    "rename": "rename,renameat,renameat2",
    "link": "link,linkat,symlink,symlinkat",
    "unlink": "unlink,unlinkat",
    "rmdir": "rmdir,unlinkat",
}
"""The system calls of each kind of operation; a `?` lets strace pass over one that this machine does not have."""

_LONGEST = 60
"""Seconds that strace may take to end after the traced process."""
_ATTACHED = re.compile(r"attached")
_DONE = re.compile(r"\((?:INJECTED|DELAYED)")


@dataclass(frozen=True)
class Rehearsed:
    """What a run without faults did.

    Args:
        pid: its process.
        operations: in order, each with whether its thread was the caller's.
    """

    pid: int
    operations: tuple[Op, ...]


class CannotAimError(ValueError):
    """No path and count that strace understands mean what the plan means for this writer."""


@dataclass(frozen=True)
class Aim:
    """What strace is told.

    Args:
        paths: the names it watches, relative to the root.
        calls: the system calls.
        what: `error=EIO`, `delay_enter=50000` or `signal=KILL`.
        when: which of the calls of a thread.
    """

    paths: tuple[str, ...]
    calls: str
    what: str
    when: str


def takes(plan: Plan) -> str:
    """Why a plan cannot be put to strace, in one line, or the empty text when it can."""
    if len(plan.rules) > 1:
        return "the stage strace takes one rule at a time"
    for rule in plan.rules:
        kind = rule.fault.kind
        # Of a lost fsync strace can raise the error, but not take the bytes away.
        if not (kind.errno or kind.name in {"slow", "kill"}) or kind.name == "lost":
            return f"rule {rule}: the stage strace has errors, slow and kill, and no {kind.name}"
        if rule.op not in SYSTEM_CALLS or rule.span.step > 1 or rule.glob:
            return f"rule {rule}: the stage strace has OP#k, OP#k+ and OP#k..m of one system call, for every path"
    return ""


def aim(rule: Rule, rehearsed: Rehearsed, pid: int) -> Aim | None:
    """Find the path and the count that mean what a rule means.

    Args:
        rule: what fails.
        rehearsed: the run without faults.
        pid: the process that strace is going to watch; writers put theirs into the names of files.

    Returns:
        The aim, or None where the run without faults has no such operation.

    Raises:
        CannotAimError: there is none.
    """
    ops = [op for op in rehearsed.operations if op.kind == rule.op]
    struck = [i for i in range(len(ops)) if i + 1 in rule.span]
    if not struck:
        return None
    threads = _threads(rehearsed, rule.op)
    paths = {ops[i].path for i in struck}
    if rule.op in {"open", "close"} and paths & _folders(rehearsed):
        raise CannotAimError(f"rule {rule}: strace cannot tell the opening of a directory from its listing")
    near = [i for i, op in enumerate(ops) if op.path in paths]
    places = {i: sum(threads[j] == threads[i] for j in near if j <= i) for i in near}
    first, last = places[struck[0]], places[struck[-1]]
    when = (
        str(first)
        if len(struck) == 1 and rule.span.last
        else f"{first}+"
        if rule.span.last is None
        else f"{first}..{last}"
    )
    predicted = [i for i in near if places[i] >= first and (rule.span.last is None or places[i] <= last)]
    if predicted != struck:
        raise CannotAimError(f"rule {rule}: strace cannot tell these operations from others of the same name")
    renamed = tuple(re.sub(rf"(?<!\d){rehearsed.pid}(?!\d)", str(pid), path) for path in sorted(paths))
    return Aim(renamed, _calls(rule.op), _what(rule), when)


def _threads(rehearsed: Rehearsed, kind: str) -> list[tuple[bool, int]]:
    """Which thread did each operation of a kind, as far as that can be told: the caller, or the last one started."""
    threads, started = [], 0
    for op in rehearsed.operations:
        started += op.kind == "thread"
        if op.kind == kind:
            threads.append((op.caller, started))
    return threads


def _folders(rehearsed: Rehearsed) -> set[str]:
    return {op.path for op in rehearsed.operations if op.kind in {"mkdir", "fsyncdir"}}


def _calls(op: str) -> str:
    return ",".join(f"?{name}" for name in SYSTEM_CALLS[op].split(","))


def _what(rule: Rule) -> str:
    if rule.fault.name == "kill":
        return "signal=KILL"
    if rule.fault.name == "slow":
        return f"delay_enter={int(rule.fault.amount * 1000)}"
    return f"error={rule.fault.name}"


def attach(pid: int, output: str, arguments: list[str]) -> subprocess.Popen[str]:
    """Start strace on a process that waits, with all of its threads and what they will start.

    Args:
        pid: the process.
        output: the file that takes the calls.
        arguments: what to trace and to inject.

    Returns:
        strace, as soon as it has attached.

    Raises:
        RuntimeError: it could not.
    """
    command = ["strace", "-f", "-p", str(pid), "-o", output, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = []
    for line in process.stderr or ():
        said.append(line)
        if _ATTACHED.search(line):
            return process
    process.communicate()
    raise RuntimeError(f"strace could not attach: {''.join(said).strip()}")


def wait(process: subprocess.Popen[str]) -> None:
    """Wait until strace has ended, as it does with the last process that it traces."""
    try:
        process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


class Tracer:
    """One strace at work.

    Args:
        process: strace itself.
        output: where it writes the calls.
    """

    def __init__(self, process: subprocess.Popen[str], output: str) -> None:
        self._process, self._output = process, output
        self.fired = 0

    def end(self) -> None:
        """Wait for strace, which ends with the traced process, and count what it injected."""
        wait(self._process)
        with open(self._output, encoding="utf-8", errors="replace") as file:
            self.fired = sum(bool(_DONE.search(line)) for line in file)


@contextmanager
def tracing(pid: int, root: str, aimed: Aim) -> Iterator[Tracer]:
    """Attach strace to a process that waits, and see it through to its end.

    Args:
        pid: the process, with all of its threads.
        root: the directory of the trial.
        aimed: what to inject.

    Yields:
        The tracer, as soon as strace has attached.

    Raises:
        RuntimeError: strace could not attach.
    """
    with tempfile.NamedTemporaryFile(prefix="strace-") as output:
        names: Iterable[str] = (os.path.join(os.path.realpath(root), path) for path in aimed.paths)
        command = ["-e", f"trace={aimed.calls}"]
        command += [word for name in names for word in ("-P", os.path.normpath(name))]
        command += ["-e", f"inject={aimed.calls}:{aimed.what}:when={aimed.when}"]
        process = attach(pid, output.name, command)
        tracer = Tracer(process, output.name)
        try:
            yield tracer
        finally:
            tracer.end()
