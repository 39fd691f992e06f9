"""Types of the values of options, for argparse."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["at_least_one", "file_to_write", "fraction"]


def at_least_one(text: str) -> int:
    """A whole number from 1, as written."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1. Received: {text}")
    return int(text)


def file_to_write(text: str) -> Path:
    """Path of a file in a directory that exists, as written: known before any work for it."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a file. Received: the directory {text}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"must be in a directory that exists. Received: {text}; make {path.parent} first"
        )
    return path


def fraction(text: str) -> float:
    """A number between 0 and 1, without these."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1. Received: {text}")
    return number
