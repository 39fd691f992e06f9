"""The order in which an epoch visits its samples, and fingerprints of what a step took. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from matex.partition.spans import Span

__all__ = ["Order", "hashes"]

# Sums of fingerprints travel as float32, which counts exactly up to here.
_EXACT = 1 << 24


def hashes(numbers: np.ndarray, batch_size: int) -> np.ndarray:
    """A uint16 hash of each of *numbers*; those of one batch sum to less than 2^24.

    Not linear, or neighbours that slipped by one would cancel out.
    """
    bits = max(0, min(16, (_EXACT // batch_size).bit_length() - 1))
    return (_mixed(numbers) >> np.uint64(48)).astype(np.uint16) >> (16 - bits)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order in which one epoch visits the samples.

    Args:
        samples: number of samples.
        batch_size: samples of a step over all ranks (the global batch).
        shuffle: visit in the seeded order of this epoch rather than as stored.
        seed, epoch: numbers of which the order is a function.
    """

    samples: int
    batch_size: int
    shuffle: bool
    seed: int
    epoch: int

    def __post_init__(self) -> None:
        order = self._visits()
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_hashes", hashes(order, self.batch_size))

    def _visits(self) -> np.ndarray:
        """All row numbers (int64), as the epoch visits them."""
        if not self.shuffle:
            return np.arange(self.samples)
        generator = np.random.Generator(np.random.PCG64([self.seed, self.epoch]))
        return generator.permutation(self.samples)

    @property
    def steps(self) -> int:
        return -(-self.samples // self.batch_size)

    def step(self, cursor: int, batch_size: int | None = None) -> Span:
        """The interval that the step at *cursor* (samples done in this epoch) covers.

        *batch_size* is given where this step has fewer samples than the epoch's others.
        """
        return cursor, min(cursor + (batch_size or self.batch_size), self.samples)

    def indices(self, spans: Sequence[Span]) -> np.ndarray:
        """Row numbers (int64) of the samples in *spans*, in visiting order."""
        return self._of(self._order, spans)  # type: ignore[attr-defined]

    def fingerprint(self, spans: Sequence[Span]) -> int:
        """A sum over samples that tells sets of equal size apart; below 2^24 for a whole step.

        Summed over the ranks with the gradients, it shows that a step was made of
        exactly the samples it should be made of, none twice.
        """
        return int(self._of(self._hashes, spans).sum())  # type: ignore[attr-defined]

    @staticmethod
    def _of(array: np.ndarray, spans: Sequence[Span]) -> np.ndarray:
        if len(spans) == 1:
            return array[slice(*spans[0])]
        return np.concatenate([array[:0], *(array[lo:hi] for lo, hi in spans)])
