"""The ways in which faults are made real."""
