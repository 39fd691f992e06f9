"""Runs with random faults, each checked to the last sample: `python -m ci.chaos`."""
