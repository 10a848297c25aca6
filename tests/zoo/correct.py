"""Four correct writers, built differently, with nothing but verl's dump surface."""

from __future__ import annotations

from tests.zoo.executor import ExecutorWriter
from tests.zoo.os_write import OsWriteWriter
from tests.zoo.staging import StagingWriter
from tests.zoo.thread_queue import ThreadQueueWriter

__all__ = ["CORRECT", "ExecutorWriter", "OsWriteWriter", "StagingWriter", "ThreadQueueWriter"]

CORRECT: tuple[type, ...] = (ExecutorWriter, ThreadQueueWriter, OsWriteWriter, StagingWriter)
