"""The stages of the kernel mechanism: ways to put a child over a system that truly fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from fault_injection.fault import CATALOGUE, ERRNO_FAULTS
from fault_injection.mechanisms.kernel import strace, system
from fault_injection.mechanisms.kernel.notes import Around, lowered
from fault_injection.op import OPS
from fault_injection.plan import Plan, Span
from fault_injection.targets.errors import TargetError

FOLDER = "dump"
"""Where dumps go, below the root; what the plans about permissions are about."""
_ALWAYS = Span(1)
_WILD = set("*?[")
PAGE = 4096
"""Bytes in which tmpfs hands out its space."""


def _nothing(root: str, plan: Plan) -> None:
    del root, plan


@dataclass(frozen=True)
class Stage:
    """One way to make plans real.

    Args:
        name: in one word.
        how: what it does, for the table.
        faults: the operations that each of its faults can strike.
        needs: the means that it needs, keys of `fault_injection.mechanisms.kernel.means.MEANS`.
        takes: why a plan cannot be made real so, in one line, or the empty text.
        remark: where its meaning is narrower than the plan's words.
        ground: done in the child before anything is laid down.
        enter: done in the child after that; may return what surrounds each real call of the writer.
        leave: done by the parent after the end of the child.
        asks: whether the kernel asks the harness about the child's calls.
        traces: whether strace is attached to the child.
        sees: whether the child can look at the files itself.
    """

    name: str
    how: str
    faults: Mapping[str, tuple[str, ...]]
    needs: tuple[str, ...]
    takes: Callable[[Plan], str]
    remark: str = ""
    ground: Callable[[str, Plan], None] = _nothing
    enter: Callable[[str, Plan], Around | None] = _nothing
    leave: Callable[[str, Plan], None] = _nothing
    asks: bool = False
    traces: bool = False
    sees: bool = True

    def supports(self, plan: Plan) -> str:
        """Why a plan cannot be made real so, in one line, or the empty text when it can."""
        return self.takes(plan)


def _folder_rule(stage: str, fault: str) -> Callable[[Plan], str]:
    """Takes the plans that say that no file, or no directory, can ever be made."""

    def takes(plan: Plan) -> str:
        for rule in plan.rules:
            fits = rule.op in {"open", "mkdir"} and rule.span == _ALWAYS and not rule.glob
            if rule.fault.name != fault or not fits or len(plan.rules) > 1:
                return f"rule {rule}: the stage {stage} has open#1+:{fault} and mkdir#1+:{fault}"
        return ""

    return takes


def _closed_folder(root: str, plan: Plan) -> str:
    """The directory in which nothing may be made: the dump directory, which must exist then, or the root."""
    if any(rule.op == "mkdir" for rule in plan.rules):
        return root
    folder = os.path.join(root, FOLDER)
    os.makedirs(folder, exist_ok=True)
    return folder


def _take_user(plan: Plan) -> str:
    return _folder_rule("user", "EACCES")(plan)


def _enter_user(root: str, plan: Plan) -> None:
    if not plan:
        return
    folder = _closed_folder(root, plan)
    if os.geteuid() == 0:
        # Root may do anything: the writer must not be root, and the other user must be able to pass. The two
        # directories above are the harness's own: that of the trial and that of the run.
        for above in (os.path.dirname(root), os.path.dirname(os.path.dirname(root))):
            os.chmod(above, os.stat(above).st_mode | 0o011)  # noqa: S103
        os.chmod(root, 0o755)  # noqa: S103
        if folder != root:
            os.chown(root, system.NOBODY, system.NOBODY)
    os.chmod(folder, 0o555)  # noqa: S103 - that is the fault
    if os.geteuid() == 0:
        system.become(system.NOBODY)
        if not os.access(root, os.X_OK):
            raise TargetError(
                f"another user cannot pass to {root}, which permission faults need; set TMPDIR to a directory that all may enter"
            )


def _leave_user(root: str, plan: Plan) -> None:
    for path in (root, os.path.join(root, FOLDER)):
        if plan and os.path.isdir(path):
            os.chmod(path, 0o755)  # noqa: S103


def _enter_read_only(root: str, plan: Plan) -> None:
    if plan:
        folder = _closed_folder(root, plan)
        system.mount(folder, folder, "", system.BIND)
        # In a user namespace the flags that the mount came with are locked and must be named again.
        status = os.statvfs(folder).f_flag
        kept = status & (os.ST_NODEV | os.ST_NOSUID | os.ST_NOEXEC | os.ST_NOATIME | os.ST_RELATIME)
        flags = system.BIND | system.REMOUNT | system.READ_ONLY
        for bit, flag in (
            (os.ST_NOSUID, 2),
            (os.ST_NODEV, 4),
            (os.ST_NOEXEC, 8),
            (os.ST_NOATIME, 1024),
            (os.ST_RELATIME, 1 << 21),
        ):
            flags |= flag if kept & bit else 0
        system.mount("none", folder, "", flags)


def _ground_private(root: str, plan: Plan) -> None:
    del root, plan
    system.private_mounts()


def _enter_immutable(root: str, plan: Plan) -> None:
    if plan:
        system.set_immutable(_closed_folder(root, plan), immutable=True)


def _leave_immutable(root: str, plan: Plan) -> None:
    for path in (root, os.path.join(root, FOLDER)):
        if plan and os.path.isdir(path):
            system.set_immutable(path, immutable=False)


def _bytes_rule(stage: str, fault: str, multiple: int) -> Callable[[Plan], str]:
    def takes(plan: Plan) -> str:
        for rule in plan.rules:
            fits = rule.op == "bytes" and rule.span == _ALWAYS and not rule.glob and len(plan.rules) == 1
            if rule.fault.name != fault or not fits:
                return f"rule {rule}: the stage {stage} has bytes>N:{fault}"
            if rule.limit % multiple or (multiple > 1 and not rule.limit):
                return f"rule {rule}: the stage {stage} counts in pages of {multiple:,} bytes"
        return ""

    return takes


def _ground_tmpfs(root: str, plan: Plan) -> None:
    system.private_mounts()
    size = plan.rules[0].limit if plan else 1 << 30
    system.mount("none", root, "tmpfs", 0, f"size={size},mode=755")


def _enter_limit(root: str, plan: Plan) -> None:
    del root

    import resource

    if plan:
        # Without this the signal would end the process before the write could fail.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = plan.rules[0].limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _take_descriptors(plan: Plan) -> str:
    for rule in plan.rules:
        if (
            rule.fault.name != "EMFILE"
            or rule.op != "open"
            or rule.span != _ALWAYS
            or rule.glob
            or len(plan.rules) > 1
        ):
            return f"rule {rule}: the stage descriptors has open#1+:EMFILE"
    return ""


def _enter_descriptors(root: str, plan: Plan) -> Around | None:
    del root

    def around(call: str) -> AbstractContextManager[None]:
        # Only while the writer itself opens a file: the harness's own looks must go on.
        return lowered(3) if call in {"open", "__init__"} else nullcontext()

    return around if plan else None


def _take_full(plan: Plan) -> str:
    for rule in plan.rules:
        named = rule.glob and not set(rule.glob) & _WILD and "/" in rule.glob
        if rule.fault.name != "ENOSPC" or rule.op != "write" or rule.span != _ALWAYS or not named:
            return f"rule {rule}: the stage full has FOLDER/NAME@write#1+:ENOSPC, for a file of a known name"
    return ""


def _enter_full(root: str, plan: Plan) -> None:
    for rule in plan.rules:
        path = os.path.join(root, *rule.glob.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink("/dev/full", path)


def _take_calls(plan: Plan) -> str:
    for rule in plan.rules:
        if rule.fault.name not in _CALLS:
            return f"rule {rule}: the kernel mechanism has no fault {rule.fault.name}"
        if rule.op not in (*_CALLS[rule.fault.name], "bytes", "any"):
            return f"rule {rule}: {rule.op} is no system call on a file"
    return ""


def _systems(name: str) -> tuple[str, ...]:
    return tuple(op for op in OPS if op in CATALOGUE[name].ops and op not in {"flush", "thread"})


_CALLS = {
    name: _systems(name) for name in (*ERRNO_FAULTS, "short", "slow", "kill", "torn", "vanish", "replace")
}
_TRACED = {
    name: tuple(op for op in ops if op in strace.SYSTEM_CALLS)
    for name, ops in _CALLS.items()
    if CATALOGUE[name].errno or name in {"slow", "kill"}
}
_MADE = ("mkdir", "open")

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            "tmpfs", "a file system in memory of N bytes, in a mount namespace of the child", {"ENOSPC": ("write",)},
            ("mounts",), _bytes_rule("tmpfs", "ENOSPC", PAGE), "counts whole pages, so N is a multiple of 4,096",
            ground=_ground_tmpfs,
        ),
        Stage(
            "limit", "RLIMIT_FSIZE of N bytes, SIGXFSZ ignored", {"EFBIG": ("write",)}, (),
            _bytes_rule("limit", "EFBIG", 1), "counts each file by itself: equal to the plan for the first file",
            enter=_enter_limit,
        ),
        Stage(
            "full", "a symbolic link to /dev/full under the name", {"ENOSPC": ("write",)}, (), _take_full,
            "for a writer that opens that very name", enter=_enter_full,
        ),
        Stage(
            "read-only", "a bind mount that is read-only, in a mount namespace of the child", {"EROFS": _MADE},
            ("mounts",), _folder_rule("read-only", "EROFS"), "open#1+ and mkdir#1+", ground=_ground_private,
            enter=_enter_read_only,
        ),
        Stage(
            "immutable", "the attribute of chattr +i on the directory", {"EPERM": _MADE}, ("immutable",),
            _folder_rule("immutable", "EPERM"), "open#1+ and mkdir#1+", enter=_enter_immutable, leave=_leave_immutable,
        ),
        Stage(
            "user", "a directory of mode 0555; root drops to another user first", {"EACCES": _MADE}, (), _take_user,
            "open#1+ and mkdir#1+", enter=_enter_user, leave=_leave_user,
        ),
        Stage(
            "descriptors", "RLIMIT_NOFILE without a free number while the writer opens a file", {"EMFILE": ("open",)}, (),
            _take_descriptors, "open#1+", enter=_enter_descriptors,
        ),
        Stage(
            "calls", "seccomp: the kernel asks the harness about each system call on a file below the root", _CALLS,
            ("seccomp",), _take_calls, "a close that fails leaves the descriptor open", asks=True, sees=False,
        ),
        Stage(
            "strace", "strace -f -P PATH -e inject=CALLS:WHAT:when=K, attached to the child", _TRACED, ("strace",),
            strace.takes, "after a rehearsal, for names that come again but for the process identifier", traces=True,
            sees=False,
        ),
    )
}  # fmt: skip
"""Every stage, those first that change the system instead of the answer of a call."""


def stage_for(plan: Plan) -> Stage | None:
    """The first stage that makes a plan real, or None."""
    return (
        next((stage for stage in STAGES.values() if not stage.supports(plan)), None)
        if plan
        else STAGES["calls"]
    )


def errors_of(plan: Plan) -> frozenset[int]:
    """The error numbers that a plan can cause."""
    return frozenset(rule.fault.kind.errno for rule in plan.rules if rule.fault.kind.errno)
