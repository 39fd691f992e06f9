"""Rows of the batch that a step draws random numbers for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["NoiseRows", "RowAxis"]


class NoiseRows(NamedTuple):
    """The place of a rank's rows in the batch."""

    own: Any
    """Number of the rank's rows, an int32 scalar."""
    whole: Any
    """Number of the batch's rows, an int32 scalar."""
    indices: Callable[[], Any]
    """Function that gives the places of the rank's rows in the batch, an int32 vector."""
    offset: Any
    """Place of the first of the rank's rows, a scalar."""
    is_one_span: Any
    """Whether the rank's rows follow one another, a scalar."""
    addressable: bool = True
    """Whether rows can be drawn by their places. XLA, which must know sizes, cannot."""
    constant: int | None = None
    """Number of the batch's rows where all batches have as many: noise of as many rows may be
    theirs."""
    state: Any = None
    """Variable that :func:`~matex.keras_hooks.noise_state` gives, for draws by TensorFlow's own
    seeds; None, the default, to leave those alone."""
    neighbours: Callable[[Any], int] | None = None
    """Function of a shape in the graph that gives the number of neighbouring rows of one sample; it
    may raise NotShareable. None, the default: one."""
    shifted: set[str] | None = None
    """Set that gets the names of functions whose rows are drawn otherwise than in one process."""

    def note_shifted(self, name: str) -> None:
        """Note that the draws of *name* for its rows differ from those of one process."""
        if self.shifted is not None:
            self.shifted.add(name)


class RowAxis(NamedTuple):
    """The rows of the batch in a draw."""

    axis: int
    """Axis of the rows."""
    neighbours: int = 1
    """Number of rows of one sample that lie next to each other."""
