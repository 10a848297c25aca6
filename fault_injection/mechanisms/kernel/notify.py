"""Every file system call of a process is held by the kernel until this side has said what becomes of it.

A seccomp filter in the child (`SECCOMP_RET_USER_NOTIF`, Linux 5.6) asks about each call that could touch a file, whichever
language made it. What does not lie below the root goes on at once. No privilege and no tool is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

from fault_injection.mechanisms.kernel import system

CALLS: dict[str, tuple[int, int]] = {
    "read": (0, 63), "write": (1, 64), "open": (2, -1), "close": (3, 57), "pread64": (17, 67), "pwrite64": (18, 68),
    "readv": (19, 65), "writev": (20, 66), "sendfile": (40, 71), "fsync": (74, 82), "fdatasync": (75, 83),
    "truncate": (76, 45), "ftruncate": (77, 46), "rename": (82, -1), "mkdir": (83, -1), "rmdir": (84, -1),
    "creat": (85, -1), "link": (86, -1), "unlink": (87, -1), "symlink": (88, -1), "openat": (257, 56),
    "mkdirat": (258, 34), "unlinkat": (263, 35), "renameat": (264, 38), "linkat": (265, 37), "symlinkat": (266, 36),
    "fallocate": (285, 47), "preadv": (295, 69), "pwritev": (296, 70), "renameat2": (316, 276), "copy_file_range": (326, 285),
    "openat2": (437, 437),
}  # fmt: skip
"""The calls that are asked about, with their numbers on x86_64 and aarch64."""

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_FILTER, _LISTENER, _GO_ON = 1, 8, 1
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000


@dataclass(frozen=True)
class Asked:
    """One system call that waits for an answer.

    Args:
        id: the kernel's number of the question.
        thread: the thread that made the call.
        name: the name of the call.
        arguments: its six arguments.
    """

    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]


def numbers() -> dict[int, str]:
    """The names of the calls by their numbers on this machine; empty where they are not known."""
    column = _ARCHITECTURES.get(platform.machine(), (0, -1))[1]
    return {pair[column]: name for name, pair in CALLS.items() if pair[column] >= 0} if column >= 0 else {}


def install() -> int:
    """Ask about every file system call of this thread and of those that it starts, from here on and for good.

    Returns:
        The descriptor from which the other side receives the questions; it must be handed over before the next call.

    Raises:
        OSError: the kernel cannot do that.
    """
    known = sorted(numbers())
    if not known:
        raise OSError(errno.ENOSYS, f"system calls of {platform.machine()} are not known")
    architecture = _ARCHITECTURES[platform.machine()][0]
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, _ALLOW), (0x20, 0, 0, 0)]
    # A jump is counted from the next instruction; the last but one allows, the last asks.
    program += [(0x15, len(known) - i, 0, number) for i, number in enumerate(known)]
    program += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _ASK)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    system.no_new_privileges()
    return system.call("seccomp", _FILTER, _LISTENER, header)


def receive(listener: int) -> Asked | None:
    """The next question, or None where the thread that asked is gone."""
    import fcntl

    buffer = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.EINTR}:
            return None
        raise
    number, thread, _, call, _, _, *arguments = struct.unpack("QIIiIQ6Q", buffer)
    return Asked(number, thread, _NAMES.get(call, str(call)), tuple(arguments))


def answer(listener: int, asked: Asked, *, error: int = 0, value: int | None = None) -> None:
    """Say what becomes of a call.

    Args:
        listener: where the question came from.
        asked: the question.
        error: the error number that the call fails with, 0 for none.
        value: what the call returns without being made, or None to have it made.
    """
    import fcntl

    made = not error and value is None
    reply = struct.pack("QqiI", asked.id, value or 0, -error, _GO_ON if made else 0)
    # The thread may have been killed in the meantime.
    with contextlib.suppress(FileNotFoundError):
        fcntl.ioctl(listener, _SEND, bytearray(reply))


def text_at(thread: int, address: int) -> str:
    """The text that a thread's pointer points to."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        data = b""
        while b"\0" not in data and len(data) < 4096:
            at = address + len(data)
            # To the end of the page: the next one may not be there.
            memory.seek(at)
            data += memory.read(4096 - at % 4096)
    return os.fsdecode(data.partition(b"\0")[0])


def bytes_at(thread: int, address: int, count: int) -> bytes:
    """Bytes that a thread's pointer points to."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(count)


def descriptor_of(thread: int, number: int) -> int:
    """An open file of a thread's process, as a descriptor of this one; both share its position."""
    with open(f"/proc/{thread}/status", encoding="utf-8", errors="replace") as status:
        process = next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
    handle = system.call("pidfd_open", process, 0)
    try:
        return system.call("pidfd_getfd", handle, number, 0)
    finally:
        os.close(handle)


_NAMES = numbers()
