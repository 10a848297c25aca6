"""Correct writers whose I/O goes past Python: through the streams of the C library, and through those of pyarrow."""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
from contextlib import suppress

from tests.zoo.thread_queue import ThreadQueueWriter


class StdioWriter(ThreadQueueWriter):
    """`fopen`, `fwrite`, `fclose`: the buffer of the C library decides when a full disk is told of."""

    def _write_temp(self, temp, data):
        library = _library()
        stream = library.fopen(os.fsencode(temp), b"wb")
        if not stream:
            raise _error(temp)
        failure = None
        if library.fwrite(data, 1, len(data), stream) < len(data) or library.fflush(stream) != 0:
            failure = _error(temp)
        if library.fclose(stream) != 0:
            failure = failure or _error(temp)
        if failure is not None:
            raise failure


def _error(path):
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, os.strerror(number), path)


def _library():
    library = ctypes.CDLL(None, use_errno=True)
    library.fopen.restype = ctypes.c_void_p
    library.fopen.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    library.fwrite.restype = ctypes.c_size_t
    library.fwrite.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    library.fflush.argtypes = library.fclose.argtypes = (ctypes.c_void_p,)
    return library


class ArrowWriter(ThreadQueueWriter):
    """An output stream of `pyarrow.fs`, which is C++ throughout, down to the rename; it does not promise E4."""

    # "error closing file" is all that pyarrow tells of a failed close: the errno is gone before Python sees the error.
    dump_disclaims = frozenset({"E4"})

    def _write_temp(self, temp, data):
        with _local().open_output_stream(temp) as stream:
            stream.write(data)

    def _publish(self, temp, path):
        _local().move(temp, path)

    def _cleanup(self, temp, path):
        for _ in range(2):
            with suppress(OSError):
                _local().delete_file(temp)


def _local():
    import pyarrow.fs  # heavy, and not there in every environment

    return pyarrow.fs.LocalFileSystem()


HAS_ARROW = importlib.util.find_spec("pyarrow") is not None
