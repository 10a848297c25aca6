"""The laws of group C: what becomes of columns that do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fault_injection.contract.session import Contract, cases


@pytest.mark.parametrize(("law", "scenario"), cases("C"))
def test_law(
    law: str, scenario: str, dump_contract: Contract, record_property: Callable[[str, object], None]
) -> None:
    """The law holds in every trial of the scenario, by every example that is tried."""
    record_property("trials", dump_contract.require(law, scenario))
