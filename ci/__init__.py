"""The tools of this repository: its tests, benchmarks, faults at random, emulated networks."""
