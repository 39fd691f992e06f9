"""Criteria: what is measured of units, which are removed, and who takes over their work."""
