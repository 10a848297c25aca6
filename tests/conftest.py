"""Settings of the whole suite: the Hypothesis profiles, and fixtures that fail a test which leaves anything behind."""

import gc
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

PARENT = str(Path(__file__).resolve().parent.parent)
"""What holds `tests`: the checkout, or in tox a folder with nothing else in it."""

THREAD_GRACE = 2.0
"""Seconds that a thread which was told to end may take to do so."""

settings.register_profile("ci", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("dev", derandomize=False, deadline=None, print_blob=True)
settings.register_profile("nightly", derandomize=False, deadline=None, print_blob=True, max_examples=10_000)
settings.load_profile(os.environ.get("VERL_DUMP_PROFILE") or "ci")

if PARENT not in sys.path:
    sys.path.insert(0, PARENT)

_PLACE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Give this run a temporary directory and a working directory that no other process writes to."""
    place = tempfile.mkdtemp(prefix="verl-dump-tests-")
    # A child under another uid must be able to pass through to a directory that its test opened to it.
    os.chmod(place, 0o711)
    for name in ("cwd", "pytest", "tmp"):
        os.mkdir(os.path.join(place, name))
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.join(place, "tmp")
    os.environ["PYTEST_DEBUG_TEMPROOT"] = os.path.join(place, "pytest")
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(place, "hypothesis"))
    # Children import what this process imports, whatever their working directory.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (PARENT, os.environ.get("PYTHONPATH"))))
    config.stash[_PLACE] = place


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what this run made."""
    place = config.stash.get(_PLACE, None)
    if place is not None:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_file_left(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail a test that leaves a file in the temporary or the working directory."""
    place = pytestconfig.stash[_PLACE]
    folders = [os.path.join(place, name) for name in ("cwd", "tmp")]
    before = {entry.path for folder in folders for entry in os.scandir(folder)}
    yield
    left = [entry for folder in folders for entry in os.scandir(folder) if entry.path not in before]
    for entry in left:
        # Removed, so that one leak fails one test.
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
    if left:
        pytest.fail(f"the test left files behind: {', '.join(os.path.relpath(e.path, place) for e in left)}")


@pytest.fixture(autouse=True)
def own_process_state(pytestconfig: pytest.Config, no_file_left: None) -> Iterator[None]:
    """Run each test in the empty working directory, and restore the directory and the umask that it found."""
    cwd = os.getcwd()
    umask = os.umask(0o022)
    os.umask(umask)
    os.chdir(os.path.join(pytestconfig.stash[_PLACE], "cwd"))
    yield
    os.chdir(cwd)
    os.umask(umask)


@pytest.fixture(autouse=True)
def no_thread_left(own_process_state: None) -> Iterator[None]:
    """Fail a test that leaves a thread running which was started during it."""
    before = set(threading.enumerate())
    yield
    left = _threads_since(before)
    if left:
        # The idle worker of an executor that nobody holds any more ends when the executor is collected.
        gc.collect()
        deadline = time.monotonic() + THREAD_GRACE
        for thread in left:
            thread.join(max(0.0, deadline - time.monotonic()))
        left = [thread for thread in left if thread.is_alive()]
    if left:
        pytest.fail(f"the test left threads running: {', '.join(sorted(map(repr, left)))}")


def _threads_since(before: set[threading.Thread]) -> list[threading.Thread]:
    """The running threads that are not in `before`, but for those that Python did not start and cannot join."""
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before and not isinstance(thread, threading._DummyThread)
    ]
