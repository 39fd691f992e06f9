"""Everything that ``matex`` raises on purpose.

::

    MatexError
    +-- InputError          (also ValueError) the caller's input is wrong
    |   +-- DataError       a data file cannot be read, as seen from this rank
    +-- Unsupported         the script uses something that cannot be trained rightly in parallel
    |   +-- NotShareable    ... by rows; every rank can still compute all of it
    |       +-- SeveralUpdatesFound     ... by one exchange a step
    +-- HooksError          the hooks into Keras did not take: training would not be parallel
    +-- TrainingError       the run as a whole cannot go on; every rank raises it alike
        +-- NonFiniteGradients
        +-- ReplicasDiverged
        +-- ToldToLeave     a signal or the wall time ends a loop of the script's own

``ft`` and ``checkpoints`` have trees of their own.
"""

from __future__ import annotations

__all__ = [
    "DataError",
    "HooksError",
    "InputError",
    "MatexError",
    "NonFiniteGradients",
    "NotShareable",
    "ReplicasDiverged",
    "SeveralUpdatesFound",
    "ToldToLeave",
    "TrainingError",
    "Unsupported",
]


class MatexError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(MatexError, ValueError):
    """The caller's input is wrong; the message says what was wanted and what came."""


class DataError(InputError):
    """A file is absent, damaged or not what it should be; file and row are named.

    Other ranks may be able to read it, from another host or another copy, so this one
    is lost like one that dies: the others compute its share, or fail by the same row.
    """


class Unsupported(MatexError):
    """Refused before training starts rather than trained wrongly in silence."""


class NotShareable(Unsupported):
    """No sum over rows of independent parts, so every rank computes the whole of it."""


class SeveralUpdatesFound(NotShareable):
    """A train step does not make one update by the model's own optimizer."""


class HooksError(MatexError):
    """Keras was not attached to, so ranks would train alone."""


class TrainingError(MatexError):
    """Raised on every rank alike; no weight was changed by the step that raised it."""


class NonFiniteGradients(TrainingError):
    """A rank computed a NaN or an infinity; it was caught before the update."""


class ReplicasDiverged(TrainingError):
    """Ranks that must hold equal weights do not."""


class ToldToLeave(TrainingError):
    """A signal came, or the wall time is over, in a loop that only the script could continue."""
