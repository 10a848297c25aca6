"""Interleavings: the threads of a trial run one at a time, and every schedule up to a number of preemptions is tried."""
