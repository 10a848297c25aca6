"""The calls of the Linux kernel that Python's library lacks, through the C library."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from contextlib import suppress

NEW_NAMESPACE = 0x00020000
NEW_USER = 0x10000000
BIND, REMOUNT, READ_ONLY, PRIVATE, RECURSIVE = 0x1000, 0x20, 0x1, 0x40000, 0x4000
NOBODY = 65534
"""The user that a trial drops to, as the overflow identifier of the kernel owns nothing."""

_NO_NEW_PRIVILEGES, _SET_DUMPABLE, _SET_PTRACER = 38, 4, 0x59616D61
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10
_NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {"seccomp": 317, "pidfd_open": 434, "pidfd_getfd": 438},
    "aarch64": {"seccomp": 277, "pidfd_open": 434, "pidfd_getfd": 438},
}


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def unshare(flags: int) -> None:
    """Give the process namespaces of its own."""
    _checked(_libc().unshare(flags))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, or change how one is mounted."""
    _checked(
        _libc().mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            options.encode() or None,
        )
    )


def private_mounts() -> None:
    """From here on, what this process mounts is seen by nobody else and ends with it; without root too.

    Raises:
        OSError: the system allows neither.
    """
    user, group = os.getuid(), os.getgid()
    if user == 0:
        unshare(NEW_NAMESPACE)
    else:
        unshare(NEW_NAMESPACE | NEW_USER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    mount("none", "/", "", RECURSIVE | PRIVATE)


def allow_inspection() -> None:
    """Let the process go on reading about itself below /proc, which a change of user forbids."""
    _checked(_libc().prctl(_SET_DUMPABLE, 1, 0, 0, 0))


def allow_tracing() -> None:
    """Let any process of this user trace this one, where the system restricts that to its parents."""
    with suppress(OSError):
        _checked(_libc().prctl(_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0))


def become(user: int) -> None:
    """Give up root for another user, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    allow_inspection()


def set_immutable(path: str, *, immutable: bool) -> None:
    """Set or clear the attribute that `chattr +i` sets: not even root changes or removes the file then."""
    import fcntl

    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(fd, _GET_FLAGS, bytes(8)))
        flags = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("l", flags))
    finally:
        os.close(fd)


def no_new_privileges() -> None:
    """Promise the kernel that no program started from here gains rights, which lets any user install a filter."""
    _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def call(name: str, *arguments: object) -> int:
    """Make a system call that the C library has no function for.

    Raises:
        OSError: the call failed, or this machine's kind of processor is not known here (ENOSYS).
    """
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        raise OSError(38, f"system calls of {platform.machine()} are not known")
    return _checked(_libc().syscall(ctypes.c_long(numbers[name]), *arguments))
