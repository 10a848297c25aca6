"""The laws of group X: every way out of `fit()`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fault_injection.contract.session import Contract, cases


@pytest.mark.parametrize(("law", "scenario"), cases("X"))
def test_law(
    law: str, scenario: str, dump_contract: Contract, record_property: Callable[[str, object], None]
) -> None:
    """All data are on disk and every failure is told, whatever becomes of the writes that are pending there."""
    record_property("trials", dump_contract.require(law, scenario))
