"""Where a pytest run keeps its contract; apart, so that asking whether there is one imports nothing."""

from __future__ import annotations

from typing import Any

import pytest

CONTRACT: pytest.StashKey[Any] = pytest.StashKey()
"""The key of the contract in the configuration's stash."""
