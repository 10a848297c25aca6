"""Trials inside an actor of a local Ray, whose end is part of the trial."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_injection.child import enter
from fault_injection.forks import watch_process
from fault_injection.history import Mark
from fault_injection.targets.errors import TargetError
from fault_injection.tell import Ending, unpickled
from fault_injection.ways import cell_of

if TYPE_CHECKING:
    from fault_injection.runner import Order

_PATIENCE = 20.0
"""Seconds that an actor may take to end; Ray's own processes have to agree on it first."""
_LONGEST = 120.0
"""Seconds that a training in an actor may take, with the imports of its process."""
_TICK = 0.02
_SHORT = 30
"""Characters that a directory for Ray's files may have."""


class _Training:
    """What runs in the actor."""

    def process(self) -> int:
        """The actor's process."""
        return os.getpid()

    def run(self, order: Order, root: str, told: str, errors: str) -> None:
        """Run the trial; the actor stays as the training has left it."""
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        enter(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), order, root)


def run_in_actor(order: Order, root: str) -> Ending:
    """Run one trial in an actor and let the actor end in the way that its scenario says.

    Args:
        order: what to run.
        root: the directory of the trial.

    Returns:
        How it ended.
    """
    cell = cell_of(order.scenario, order.plan)
    way = cell.way.name if cell is not None else ""
    ray = _started(os.path.dirname(root))
    with tempfile.TemporaryDirectory(prefix="actor-", dir=os.path.dirname(root)) as place:
        told, errors = Path(place, "told"), Path(place, "stderr")
        actor = ray.remote(max_restarts=0, max_task_retries=0)(_Training).remote()
        pid = ray.get(actor.process.remote())
        result = actor.run.remote(order, root, str(told), str(errors))
        driver = ""
        if way == "ray-kill":
            _await_mark(ray, result, told)
        else:
            driver, hung = _outcome(ray, result)
            if hung:
                ray.kill(actor)
                return Ending(None, _content(told), _content(errors).decode(errors="replace"))
        if way == "ray-terminate":
            actor.__ray_terminate__.remote()
        elif way != "ray-scope":
            ray.kill(actor)
        del actor, result
        code, _ = watch_process(pid, _PATIENCE, lambda: None if _lives(pid) else 0)
        return Ending(code, _content(told), _content(errors).decode(errors="replace"), driver=driver)


def _started(scratch: str) -> Any:
    """Ray, running on this machine for this process alone."""
    import ray

    if not ray.is_initialized():
        # Sockets lie below, and their paths may have 107 bytes, of which Ray itself needs 64.
        places = [scratch, tempfile.gettempdir(), "/tmp"]  # noqa: S108 - the name is made by mkdtemp
        short = [each for each in places if len(each) <= _SHORT and os.access(each, os.W_OK | os.X_OK)]
        if not short:
            raise TargetError(
                f"Ray needs a temporary directory of {_SHORT} characters at most; set TMPDIR to one"
            )
        place = tempfile.mkdtemp(prefix="ray-", dir=short[0])
        _PLACES.append(place)
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=place,
        )
    return ray


_PLACES: list[str] = []


def stop() -> None:
    """Stop the Ray of this process, if there is one, and remove its files."""
    if _PLACES:
        import ray

        ray.shutdown()
    while _PLACES:
        shutil.rmtree(_PLACES.pop(), ignore_errors=True)


def _outcome(ray: Any, result: Any) -> tuple[str, bool]:
    """What the driver is told of a call (nothing where it returned), and whether it never ended."""
    try:
        ray.get(result, timeout=_LONGEST)
    except ray.exceptions.GetTimeoutError:
        return "", True
    except Exception as error:  # noqa: BLE001 - whatever reaches the driver is what the trial is about
        return f"{type(error).__name__}: {error}", False
    return "", False


def _await_mark(ray: Any, result: Any, told: Path) -> None:
    """Wait until the training has come to the way out, or has ended before."""
    begin = time.monotonic()
    while time.monotonic() - begin < _LONGEST:
        if any(isinstance(e, Mark) and e.name == "way out" for e in unpickled(_content(told))):
            return
        if ray.wait([result], timeout=_TICK)[0]:
            return


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] != b"Z"
