"""Makers of steps: exchange, completion after a death, and what follows a bad sum."""
