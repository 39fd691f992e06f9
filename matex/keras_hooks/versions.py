"""Releases of Keras and TensorFlow that matex is tested with, by ci/keras_suite/matrix.py."""

from __future__ import annotations

import re

__all__ = ["KERAS", "TENSORFLOW", "TESTED", "outside"]

# The oldest and the newest minor release.
KERAS = ("3.12", "3.15")
TENSORFLOW = ("2.20", "2.21")

TESTED = "Keras {} to {} on TensorFlow {} to {}".format(*KERAS, *TENSORFLOW)


def outside(*, keras: str, tensorflow: str) -> str:
    """Untested versions among two installed ones, such as "3.15.1"; "" if none. Pure."""
    given = (("Keras", keras, KERAS), ("TensorFlow", tensorflow, TENSORFLOW))
    return " and ".join(
        f"{name} {version}"
        for name, version, (oldest, newest) in given
        if not _minor(oldest) <= _minor(version) <= _minor(newest)
    )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
