"""Trials in memory."""
