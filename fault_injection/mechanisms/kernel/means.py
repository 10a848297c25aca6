"""What this machine can do for the kernel mechanism, found out by doing it, and how to get what it lacks."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress

from fault_injection.mechanisms.kernel import notify, system

_LONGEST = 60


def _in_child(work: Callable[[], None], ends: int = 0) -> str:
    """Run something in a forked child that ends with a code; the one line that it failed with, or the empty text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            os.close(read)
            work()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            text = str(error) or type(error).__name__
        finally:
            with suppress(OSError):
                os.write(write, text.encode(errors="replace")[:300])
            os._exit(1 if text else 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text or (f"the attempt ended with {code}" if code != ends else "")


def _mounts(folder: str) -> str:
    def work() -> None:
        system.private_mounts()
        system.mount("none", folder, "tmpfs", 0, "size=4096")

    return _in_child(work)


def _immutable(folder: str) -> str:
    try:
        system.set_immutable(folder, immutable=True)
    except OSError as error:
        return error.strerror or str(error)
    system.set_immutable(folder, immutable=False)
    return ""


def _seccomp(folder: str) -> str:
    del folder

    def work() -> None:
        notify.install()
        # Nobody answers a call that is asked about, and what measures coverage writes files even at os._exit.
        signal.raise_signal(signal.SIGKILL)

    return _in_child(work, ends=-signal.SIGKILL)


def _strace(folder: str) -> str:
    if shutil.which("strace") is None:
        return "not installed"
    command = [
        "strace",
        "-qq",
        "-o",
        os.devnull,
        "-P",
        folder,
        "-e",
        "trace=mkdir",
        "-e",
        "inject=mkdir:error=EIO",
        "true",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


MEANS: dict[str, tuple[Callable[[str], str], str]] = {
    "mounts": (_mounts, "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1"),
    "immutable": (
        _immutable,
        "run as root with CAP_LINUX_IMMUTABLE, TMPDIR on ext4, xfs, btrfs or tmpfs of Linux 6.6",
    ),
    "seccomp": (_seccomp, "Linux 5.6 on x86_64 or aarch64; in a container allow the system call seccomp"),
    "strace": (_strace, "Debian: apt-get install strace; in a container add --cap-add SYS_PTRACE"),
}
"""For each means how it is tried, and how to get it."""


@functools.lru_cache(maxsize=1)
def missing() -> dict[str, str]:
    """What this machine lacks: for each means one line with the way to get it; tried for real, once in a process."""
    if sys.platform != "linux":
        return {name: f"kernel: no {name} on {platform.system()}; run on Linux" for name in MEANS}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (attempt, remedy) in MEANS.items():
            if reason := attempt(folder):
                found[name] = f"kernel: no {name}: {reason} ({remedy})"
    return found
