"""Profiles: how far a run goes, and whether it is the same run each time."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

from fault_injection.extent import Extent
from fault_injection.targets.errors import TargetError

VARIABLE = "VERL_DUMP_PROFILE"
"""The environment variable that names the profile where no option does."""


@dataclass(frozen=True)
class Profile:
    """How far a run goes by default.

    Args:
        examples: examples for each law of serialization and columns.
        extent: how much of the contract is run.
        schedules: schedules of one scenario beyond which none with two preemptions are run.
        fixed: whether the seed is always 0; else each run has a new one, which the report shows.
    """

    examples: int
    extent: Extent
    schedules: int
    fixed: bool


PROFILES = {
    "ci": Profile(200, Extent.WHOLE, 250, fixed=True),
    "quick": Profile(5, Extent.LEAST, 250, fixed=True),
    "dev": Profile(50, Extent.FEW, 250, fixed=False),
    "nightly": Profile(10_000, Extent.WHOLE, 50_000, fixed=False),
}
"""Every profile by its name; `ci` is the default."""


def choose_profile(name: str | None) -> Profile:
    """The profile of a run.

    Args:
        name: a key of `PROFILES`, or None for what the environment says.

    Raises:
        TargetError: there is no such profile.
    """
    chosen = name or os.environ.get(VARIABLE) or "ci"
    if chosen not in PROFILES:
        where = "--profile" if name else VARIABLE
        raise TargetError(f"{where} {chosen!r} is no profile; the profiles are {', '.join(PROFILES)}")
    return PROFILES[chosen]


def seed_of(profile: Profile, seed: int | None) -> int:
    """The seed of a run.

    Args:
        profile: its profile.
        seed: what was asked for, or None.
    """
    if seed is not None:
        return seed
    return 0 if profile.fixed else random.SystemRandom().randrange(1, 1_000_000)
