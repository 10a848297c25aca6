"""An independent reader of dump directories: says whether what lies there is whole."""

from verl_dump.verify.directory import Place, find_place, verify
from verl_dump.verify.kinds import KINDS, Kind
from verl_dump.verify.tally import Example, Group, Outcome

__all__ = ["KINDS", "Example", "Group", "Kind", "Outcome", "Place", "find_place", "verify"]
