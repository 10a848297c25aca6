"""The real functions of the process, for observers and for the fault layer itself: calls through here are never counted."""

from __future__ import annotations

import _thread
import builtins
import io
import os
from typing import Any

open = builtins.open  # noqa: A001
FileIO = io.FileIO

PATCHED_OS = (
    "open", "close", "closerange", "dup", "dup2",
    "read", "pread", "readv", "preadv",
    "write", "pwrite", "writev", "pwritev", "sendfile", "copy_file_range", "splice",
    "fsync", "fdatasync", "sync", "truncate", "ftruncate", "posix_fallocate",
    "mkdir", "rename", "replace", "link", "symlink", "unlink", "remove", "rmdir",
)  # fmt: skip
"""The functions of `os` that the disk mechanism takes the place of; a platform may lack some."""

OS: dict[str, Any] = {name: getattr(os, name) for name in PATCHED_OS if hasattr(os, name)}
"""The real functions of `os` by name."""

THREAD: dict[str, Any] = {
    name: getattr(_thread, name)
    for name in ("start_new_thread", "start_joinable_thread", "start_new")
    if hasattr(_thread, name)
}
"""The real ways to start a thread."""
