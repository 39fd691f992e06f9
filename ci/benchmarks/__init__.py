"""Measurements: `make bench NAME=step`, or `python -m ci.benchmarks.step`."""
