"""Where the files of a run lie."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from fault_injection.targets.errors import TargetError


@contextmanager
def scratch_directory() -> Iterator[str]:
    """A directory for the files of a run, in memory where the system offers that; removed afterwards.

    Raises:
        TargetError: no such directory can be made.
    """
    memory = "/dev/shm"  # noqa: S108 - the name is made by mkdtemp
    base = memory if os.path.isdir(memory) and os.access(memory, os.W_OK | os.X_OK) else None
    try:
        path = tempfile.mkdtemp(prefix="verl-dump-", dir=base)
    except OSError as error:
        where = base or "the directory for temporary files"
        raise TargetError(
            f"{where} cannot be written ({error.strerror}); set TMPDIR to a directory that can"
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
