"""Exceptions that ``matex`` raises.

::

    MatexError
    +-- InputError          (also ValueError) the caller's input is wrong
    |   +-- DataError       a data file cannot be read on this rank
    +-- Unsupported         the script uses a feature that cannot be trained correctly in parallel
    |   +-- NotShareable    ... by rows; every rank can still compute the whole batch
    |       +-- SeveralUpdatesFound     ... by one exchange per step
    |       +-- LateVariable            ... as a variable begins with a value of the first step
    +-- HooksError          hooks into Keras could not be installed: ranks would train alone
    +-- TrainingError       the whole run cannot go on; raised on every rank
        +-- NonFiniteGradients
        +-- ReplicasDiverged
        +-- StopRequested   a stop request (signal or wall time) ends a custom loop

``ft`` and ``checkpoints`` have exception trees of their own.
"""

from __future__ import annotations

__all__ = [
    "DataError",
    "HooksError",
    "InputError",
    "LateVariable",
    "MatexError",
    "NonFiniteGradients",
    "NotShareable",
    "ReplicasDiverged",
    "SeveralUpdatesFound",
    "StopRequested",
    "TrainingError",
    "Unsupported",
]


class MatexError(Exception):
    """Base class of every error that this package raises on purpose."""


class InputError(MatexError, ValueError):
    """The caller's input is wrong; the message names the requirement and the value received."""


class DataError(InputError):
    """A file is missing, damaged or not as expected; the message names file and row.

    Other ranks may be able to read it, from another host or another copy, so this rank is lost as
    if it had died: the other ranks compute its share, or fail at the same row.
    """


class Unsupported(MatexError):
    """The script uses a feature that would be trained wrongly; raised before training starts."""


class NotShareable(Unsupported):
    """The computation is no sum of independent terms over rows, so every rank computes all rows."""


class SeveralUpdatesFound(NotShareable):
    """A train step does not make exactly one update by the model's own optimizer."""


class LateVariable(NotShareable):
    """A train step makes a variable in its first step whose value is that of another one then."""


class HooksError(MatexError):
    """Hooks into Keras could not be installed, so each rank would train alone."""


class TrainingError(MatexError):
    """The whole run cannot go on; raised on every rank, by a step that changed no weight."""


class NonFiniteGradients(TrainingError):
    """A rank computed a NaN or an infinity, which was detected before the update."""


class ReplicasDiverged(TrainingError):
    """Ranks that must hold equal weights hold different ones."""


class StopRequested(TrainingError):
    """A stop request (signal or wall time) came in a custom loop, which only the script can end."""
