"""Crash states: what a power loss may leave of a run, built from its recorded operations, and what the laws say of it."""
