"""Preemption: stop requests of a rank, and the exits by which all ranks leave."""
