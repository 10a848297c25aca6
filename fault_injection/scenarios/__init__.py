"""Every scenario by its name."""

from __future__ import annotations

from fault_injection.scenario import Scenario
from fault_injection.scenarios import crash, exits, fits, kernel, power, queue, races, values, ways, writing

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *writing.SCENARIOS,
        *queue.SCENARIOS,
        *crash.SCENARIOS,
        *power.SCENARIOS,
        *kernel.SCENARIOS,
        *races.SCENARIOS,
        *exits.SCENARIOS,
        *fits.SCENARIOS,
        *ways.SCENARIOS,
        *values.SCENARIOS,
    )
}
"""Every scenario, in the order in which they are run."""
