"""Ranks that join a fit, leave it, or wait beside it."""
