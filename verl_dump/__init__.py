"""The reference writer of generation dumps, a drop-in for verl's own: loses neither data nor errors."""

from verl_dump.dumper import GenerationDumper
from verl_dump.errors import DrainTimeout, DumpError, DumpErrorGroup
from verl_dump.mixin import DumpMixin
from verl_dump.trainer import AsyncReferenceTrainer, Batch, ReferenceTrainer, TrainerConfig

__all__ = [
    "AsyncReferenceTrainer",
    "Batch",
    "DrainTimeout",
    "DumpError",
    "DumpErrorGroup",
    "DumpMixin",
    "GenerationDumper",
    "ReferenceTrainer",
    "TrainerConfig",
    "__version__",
]
__version__ = "0.1.0"
