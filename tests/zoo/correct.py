"""Correct writers, built differently, with nothing but verl's dump surface."""

from __future__ import annotations

from tests.zoo.correct_asyncio import AsyncioWriter
from tests.zoo.correct_bounded import BoundedQueueWriter
from tests.zoo.correct_c import HAS_ARROW, ArrowWriter, StdioWriter
from tests.zoo.correct_pathlib import PathlibWriter
from tests.zoo.correct_process import ProcessWriter
from tests.zoo.correct_sync import SynchronousWriter
from tests.zoo.executor import ExecutorWriter
from tests.zoo.os_write import OsWriteWriter
from tests.zoo.staging import StagingWriter
from tests.zoo.thread_queue import ThreadQueueWriter

CORRECT: tuple[type, ...] = (
    ExecutorWriter,
    ThreadQueueWriter,
    OsWriteWriter,
    StagingWriter,
    BoundedQueueWriter,
    PathlibWriter,
    AsyncioWriter,
    SynchronousWriter,
)
UNSEEN: tuple[type, ...] = (ProcessWriter, StdioWriter, *((ArrowWriter,) if HAS_ARROW else ()))
"""Correct ones as well, whose I/O no layer within Python can see: only the kernel can."""

__all__ = [
    "CORRECT",
    "UNSEEN",
    "ArrowWriter",
    "AsyncioWriter",
    "BoundedQueueWriter",
    "ExecutorWriter",
    "OsWriteWriter",
    "PathlibWriter",
    "ProcessWriter",
    "StagingWriter",
    "StdioWriter",
    "SynchronousWriter",
    "ThreadQueueWriter",
]
