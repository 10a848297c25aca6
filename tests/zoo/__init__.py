"""Writers that hold every law, and writers that are broken in one way each."""

from tests.zoo.broken import BROKEN
from tests.zoo.correct import CORRECT, UNSEEN
from tests.zoo.unusual import UNUSUAL

__all__ = ["BROKEN", "CORRECT", "UNSEEN", "UNUSUAL"]
