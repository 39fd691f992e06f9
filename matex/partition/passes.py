"""Progress of an evaluation that is made again and again, such as that of a fit."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Passes"]


class Passes(NamedTuple):
    """Passes through the data of an evaluation, for a rank or a run that goes on after them."""

    number: int = 0
    """Number of passes begun, of data that are read in sequence; 0 for rows by number."""
    digest: int | None = None
    """Digest of their batches; None if nothing is compared, as in a run that continues."""
    sharing: int = -1
    """Parts that ranks take, a ``Sharing`` of an evaluation; -1 if unknown."""

    @property
    def are_of_others(self) -> bool:
        """Whether the others have evaluated the passes before this rank joined: it skips them."""
        return self.digest is not None
