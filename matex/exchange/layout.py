"""Layout of the vector that a step exchanges. Pure.

``[gradient, gradient, ..., auxiliary]`` with ``auxiliary = [means | sums | header]``, one dtype,
one allreduce. Each part starts at a multiple of 64 bytes, so that TensorFlow takes it without a
copy; the gaps hold zeros.

* *gradients*: already weighted by local samples / samples of the step, so their
  sum is the gradient of the global batch; those of embeddings, whose elements belong to other
  indices in each step, come last;
* *means*: changes of BatchNorm statistics and similar values, weighted in the same way;
* *sums*: increments of metric states, which are summed;
* *header*: the proof that the sum is right, and flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ALIGNMENT", "Header", "Layout", "Segment", "header_of", "segment_of"]


# TensorFlow takes a NumPy array without a copy only with this alignment.
ALIGNMENT = 64

# Sums whose every digit may count: floats, counters and numbers of rows.
_WIDE = {"float64", "int64", "uint64"}


class Header(NamedTuple):
    """The last elements of the auxiliary part, each a sum over ranks after the exchange."""

    samples: float = 0.0
    """Number of samples: its sum must be that of the step."""
    fingerprint: float = 0.0
    """Fingerprint of the samples: its sum must be the step's, see `matex.partition.order.Order`."""
    stop: float = 0.0
    """Number of ranks that want training to stop."""
    leave: float = 0.0
    """Number of ranks with a stop request."""
    save: float = 0.0
    """Tiers in which the leader wants a checkpoint after the step, as bits; 0 on other ranks."""
    nonfinite: float = 0.0
    """Number of ranks that computed a non-finite value."""
    learning_rate: float = 0.0
    """Learning rate of the leader; 0 on other ranks."""
    rate_factor: float = 0.0
    """The leader's factor for the learning rate in this step; 0 on other ranks."""
    inseparable: float = 0.0
    """Number of ranks that found in a repeated check that batches cannot be divided."""
    ranks: float = 1.0
    """1 on each rank: its sum must be the number of ranks."""

    @property
    def is_declined(self) -> bool:
        """Whether all ranks want training to stop."""
        return self.stop == self.ranks


class Segment(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layout:
    gradients: tuple[Segment, ...]
    means: tuple[Segment, ...]
    sums: tuple[Segment, ...]
    slots: int = 0
    """Number of gradients, the last ones, whose elements are not the same in the next step."""

    @property
    def auxiliary_sizes(self) -> list[int]:
        """Lengths of the segments of the auxiliary part, the header last."""
        return [*(segment.size for segment in (*self.means, *self.sums)), len(Header._fields)]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the parts: of each gradient, then of the auxiliary part."""
        return [*(segment.shape for segment in self.gradients), (sum(self.auxiliary_sizes),)]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """float32; float64 if a gradient is, or a sum of 64 bits, which float32 would round.

        Narrower gradients are summed in float32. Without gradients the means decide, too; those
        that are integers, such as seeds, change by small numbers.
        """
        wide = any(segment.dtype == "float64" for segment in self.gradients or self.means)
        wide |= any(segment.dtype in _WIDE for segment in self.sums)
        return np.dtype(np.float64 if wide else np.float32)

    @property
    def offsets(self) -> list[int]:
        """Start index of each part, and as last element the length of the whole vector."""
        step = ALIGNMENT // self.dtype.itemsize
        starts = [0]
        for shape in self.shapes:
            starts.append(starts[-1] + -(-prod(shape) // step) * step)
        return starts

    @property
    def size(self) -> int:
        return self.offsets[-1]

    @property
    def lasting(self) -> int:
        """Number of elements before the first slot."""
        return self.offsets[len(self.gradients) - self.slots]

    def header_at(self, field: str) -> int:
        """Index in the vector of the header's *field*."""
        header = self.offsets[-2] + sum(self.auxiliary_sizes) - len(Header._fields)
        return header + Header._fields.index(field)

    def views(self, vector: np.ndarray) -> list[np.ndarray]:
        """Parts of *vector*, shaped, as views."""
        return [
            vector[start : start + prod(shape)].reshape(shape)
            for start, shape in zip(self.offsets, self.shapes, strict=False)
        ]

    def gradients_in(self, vector: np.ndarray) -> np.ndarray:
        """Gradients in *vector*, as a view."""
        return vector[: self.offsets[-2]]

    def averaged(self, vector: np.ndarray) -> np.ndarray:
        """Gradients and means in *vector*, the part weighted by samples, as a view."""
        return vector[: self.offsets[-2] + sum(segment.size for segment in self.means)]

    def packed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """New vector with *parts* in their places."""
        vector = np.zeros(self.size, self.dtype)
        for view, part in zip(self.views(vector), parts, strict=True):
            np.copyto(view, part, casting="same_kind")
        return vector

    def nonfinite_names(self, vector: np.ndarray) -> list[str]:
        """Descriptions of the parts of *vector* with NaN or infinity, and the number of these."""
        *gradients, auxiliary = self.views(vector)
        cuts = np.cumsum(self.auxiliary_sizes)[:-1]
        parts = [*gradients, *np.split(auxiliary, cuts)]
        names: list[str] = []
        for segment, part in zip((*self.gradients, *self.means, *self.sums), parts, strict=False):
            bad = int(np.count_nonzero(~np.isfinite(part)))
            if bad:
                names.append(f"{segment.name} ({bad} of {segment.size} values)")
        return names


def header_of(auxiliary: np.ndarray) -> Header:
    """Header at the end of a vector's auxiliary part."""
    return Header(*auxiliary[-len(Header._fields) :].tolist())


def segment_of(role: str, array: Any, name: str | None = None) -> Segment:
    """Segment of a variable or tensor of fixed shape; *role* is its role for *name*."""
    return Segment(
        f"{role} {name or getattr(array, 'path', array.name)}",
        tuple(int(n) for n in array.shape),
        str(array.dtype.name),
    )
