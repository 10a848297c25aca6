"""The laws of group Q: what waits, for how long and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fault_injection.contract.session import Contract, cases


@pytest.mark.parametrize(("law", "scenario"), cases("Q"))
def test_law(
    law: str, scenario: str, dump_contract: Contract, record_property: Callable[[str, object], None]
) -> None:
    """The law holds in every trial of the scenario, under every fault that is swept over it."""
    record_property("trials", dump_contract.require(law, scenario))
