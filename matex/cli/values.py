"""Types of the values of options, for argparse."""

from __future__ import annotations

import argparse

__all__ = ["at_least_one", "fraction"]


def at_least_one(text: str) -> int:
    """A whole number from 1, as written."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1. Received: {text}")
    return int(text)


def fraction(text: str) -> float:
    """A number between 0 and 1, without these."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1. Received: {text}")
    return number
