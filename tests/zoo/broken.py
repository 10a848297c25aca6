"""Writers that are each broken in one way; `broken_law` is the law that must catch it, `because` says how."""

from __future__ import annotations

from tests.zoo import (
    broken_crash,
    broken_data,
    broken_errors,
    broken_fits,
    broken_queue,
    broken_races,
    broken_reference,
    broken_sizes,
    broken_values,
)
from tests.zoo.broken_crash import *  # noqa: F403 - each class is to be found here by its name
from tests.zoo.broken_data import *  # noqa: F403
from tests.zoo.broken_errors import *  # noqa: F403
from tests.zoo.broken_fits import *  # noqa: F403
from tests.zoo.broken_queue import *  # noqa: F403
from tests.zoo.broken_races import *  # noqa: F403
from tests.zoo.broken_reference import *  # noqa: F403
from tests.zoo.broken_sizes import *  # noqa: F403
from tests.zoo.broken_values import *  # noqa: F403


def _broken() -> tuple[type, ...]:
    modules = (
        broken_crash,
        broken_data,
        broken_errors,
        broken_fits,
        broken_queue,
        broken_races,
        broken_reference,
        broken_sizes,
        broken_values,
    )
    found = [
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and item.__module__ == module.__name__ and "broken_law" in vars(item)
    ]
    return tuple(found)


BROKEN: tuple[type, ...] = _broken()
