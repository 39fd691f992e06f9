"""Numbers of look-ups that a row of the batch makes, read from the graph of a step. Local.

The indices of an embedding's gradient are traced back to the tensors of the batch, so a row makes
as many look-ups as any other. Where an axis of a batch is free, that number is at most as large as
the batch's own sizes say.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matex.partition.slot_capacity import SlotCapacity
from matex.steps.graphs.free_axes import free_axes, known_size
from matex.steps.graphs.row_origins import RowOrigins

__all__ = ["LookUp", "look_ups", "pieces_of"]


class LookUp(NamedTuple):
    """One look-up into a table: at most ``known`` times the values of a row along free axes."""

    known: int
    tensors: tuple[int, ...] = ()
    """Numbers of the tensors of the batch whose free axes bound it; () if all axes are known."""
    divisors: tuple[int, ...] = ()
    """Numbers of values of a row of these tensors for each one along their free axes."""

    def is_bounded_by(self, capacity: SlotCapacity) -> bool:
        """Whether *capacity* tells how long its tensors may be."""
        return all(number < len(capacity.values) for number in self.tensors)

    def per_row(self, capacity: SlotCapacity) -> int:
        """Largest number of look-ups of a row of a batch that *capacity* holds."""
        bounds = (capacity.values[n] // d for n, d in zip(self.tensors, self.divisors, strict=True))
        return self.known * max(bounds, default=1)


def pieces_of(indices: Any) -> list[Any]:
    """The *indices* of a traced gradient by look-up: a table may be looked into several times."""
    if indices.op.type in ("Cast", "Identity"):
        return pieces_of(indices.op.inputs[0])
    if indices.op.type != "ConcatV2":
        return [indices]
    return [part for piece in indices.op.inputs[:-1] for part in pieces_of(piece)]


def look_ups(indices: Any, batch: Any) -> list[LookUp]:
    """The look-ups of a row that *indices* are of, in their order; [] if unknown.

    It is read from the graph, so it is unknown for tensors that were computed eagerly.

    Args:
        batch: rows with which the graph was traced, of any number.
    """
    if hasattr(indices, "numpy"):
        return []
    origins = RowOrigins(batch)
    found = [_look_up(piece, origins) for piece in pieces_of(indices)]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def _look_up(indices: Any, origins: RowOrigins) -> LookUp | None:
    """The look-up of flat *indices*; None if it is unknown how many a row makes."""
    if indices.op.type != "Reshape":
        return None
    places = indices.op.inputs[0]
    if not places.shape.rank or places.shape[0] is not None:
        return None
    rows = origins.of(places)
    if rows is None:
        return None
    known = rows.neighbours * known_size(places)
    if not free_axes(places):
        return LookUp(known)
    if rows.sizes is None:
        return None
    tensors = tuple(sorted(rows.tensors))
    return LookUp(known, tensors, tuple(origins.known_sizes[n] for n in tensors))
