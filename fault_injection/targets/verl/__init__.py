"""Adapters of verl's own trainers: the real classes of an installed verl, driven through their real `fit()`.

Nothing of verl is imported before an adapter is made.
"""

from __future__ import annotations

from fault_injection.targets.errors import TargetError
from fault_injection.targets.verl.adapter import VerlTarget
from fault_injection.targets.verl.fully_async import FullyAsyncRollouter, FullyAsyncTrainer
from fault_injection.targets.verl.ray_ppo import OneStepOff, RayPPO, Separate
from fault_injection.targets.verl.real import VERSIONS, installed_version, see_version
from fault_injection.targets.verl.v1 import ColocateAsync, SeparateAsync, Sync

__all__ = ["ADAPTERS", "VERSIONS", "VerlTarget", "adapters", "installed_version", "see_version"]

ADAPTERS: dict[str, type[VerlTarget]] = {
    adapter.where.partition(":")[2]: adapter
    for adapter in (
        Sync,
        ColocateAsync,
        SeparateAsync,
        RayPPO,
        Separate,
        OneStepOff,
        FullyAsyncTrainer,
        FullyAsyncRollouter,
    )
}
"""The adapters, by the names of verl's classes."""


def adapters(name: str = "") -> dict[str, type[VerlTarget]]:
    """The adapters that a name stands for.

    Args:
        name: the name of a trainer class of verl, or empty for all of them.

    Raises:
        TargetError: no trainer has that name, no verl is installed, or one that the adapters do not know.
    """
    if name and name not in ADAPTERS:
        raise TargetError(f"verl has no trainer {name!r}; the trainers are {', '.join(ADAPTERS)}")
    see_version()
    return {name: ADAPTERS[name]} if name else dict(ADAPTERS)
