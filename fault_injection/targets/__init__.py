"""Targets: how a writer under test is named, loaded and driven."""
