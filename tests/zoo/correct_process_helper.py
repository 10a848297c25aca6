"""The process of `ProcessWriter`: reads a head in JSON and the bytes, writes the file, answers; until the end or `null`."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from contextlib import suppress


def serve():
    """Serve until there is nothing more to come."""
    # The terminal's interrupt goes to both; what was accepted is to be written all the same.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    come, go = sys.stdin.buffer, sys.stdout.buffer
    while (head := json.loads(come.readline() or b"null")) is not None:
        data = come.read(head["size"])
        if len(data) < head["size"]:
            return  # the trainer has been killed in the midst of it
        error = None
        try:
            write(head["path"], head["temp"], data, adds=head["adds"])
        except BaseException as caught:
            error = [getattr(caught, "errno", None), getattr(caught, "strerror", None) or str(caught)]
            error.append(traceback.format_exc())
        go.write(json.dumps({"error": error}).encode() + b"\n")
        go.flush()


def write(path, temp, data, *, adds):
    """Write a file under a temporary name and publish it; with `adds` it begins with the rows that are there."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        if adds:
            with open(path, "rb") as file:
                data = file.read() + data
        with open(temp, "wb") as file:
            file.write(data)
        os.replace(temp, path)
    except BaseException:
        for _ in range(2):
            with suppress(OSError):
                os.unlink(temp)
        raise


if __name__ == "__main__":
    serve()
