"""Measurements: scripts, no part of the packages."""
