"""Order in which an epoch visits its samples, and fingerprints of a step's samples. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from matex.partition.spans import Span

__all__ = ["Order", "OrderSeed", "RowOrder", "as_stored", "hashes", "shuffled_anew"]

RowOrder = Callable[[int], np.ndarray]
"""Function from an epoch's number to row numbers (int64), each once, in visiting order."""

# Sums of fingerprints travel as float32, which is exact for integers up to this value.
_EXACT = 1 << 24


def hashes(numbers: np.ndarray, batch_size: int) -> np.ndarray:
    """uint16 hash of each of *numbers*; the hashes of one batch sum to less than 2^24.

    The hash is not linear, or errors of neighbouring numbers would cancel out.
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
        visits: row numbers (int64), each once, as the epoch visits them.
        batch_size: number of samples of a step over all ranks (the global batch).
    """

    visits: np.ndarray
    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hashes", hashes(self.visits, self.batch_size))

    @property
    def samples(self) -> int:
        return len(self.visits)

    @property
    def steps(self) -> int:
        return -(-self.samples // self.batch_size)

    def step(self, cursor: int, batch_size: int | None = None) -> Span:
        """Interval of the step at *cursor*, the number of samples done in this epoch.

        *batch_size* is given if this step has fewer samples than the epoch's others.
        """
        return cursor, min(cursor + (batch_size or self.batch_size), self.samples)

    def indices(self, spans: Sequence[Span]) -> np.ndarray:
        """Row numbers (int64) of the samples in *spans*, in visiting order."""
        return self._of(self.visits, spans)

    def fingerprint(self, spans: Sequence[Span]) -> int:
        """Sum over samples that distinguishes sets of equal size; below 2^24 for a whole step.

        Summed over the ranks with the gradients, it proves that a step consists of exactly the
        expected samples, each once.
        """
        return int(self._of(self._hashes, spans).sum())  # type: ignore[attr-defined]

    @staticmethod
    def _of(array: np.ndarray, spans: Sequence[Span]) -> np.ndarray:
        if len(spans) == 1:
            return array[slice(*spans[0])]
        return np.concatenate([array[:0], *(array[lo:hi] for lo, hi in spans)])


@dataclass(frozen=True)
class OrderSeed:
    """Seeds that determine the orders of a fit's samples; saved in checkpoints.

    Args:
        own: seed of an order that differs between epochs.
        keras: seed that the script set for all TensorFlow operations, reduced as by TensorFlow;
            None if it set none.
    """

    own: int
    keras: int | None = None

    def cursor(self) -> dict[str, int]:
        """Entries of a checkpoint's cursor."""
        return {"seed": self.own, "keras_seed": -1 if self.keras is None else self.keras}

    @classmethod
    def of_cursor(cls, cursor: Mapping[str, int]) -> OrderSeed:
        """Seeds that :meth:`cursor` saved; older checkpoints have none of Keras's."""
        keras = cursor.get("keras_seed", -1)
        return cls(cursor["seed"], None if keras < 0 else keras)


def as_stored(samples: int) -> RowOrder:
    """Row numbers in ascending order, for each epoch."""
    return lambda epoch: np.arange(samples)


def shuffled_anew(samples: int, seed: int) -> RowOrder:
    """Permutation of row numbers from *seed* and the epoch's number."""

    def row_order(epoch: int) -> np.ndarray:
        generator = np.random.Generator(np.random.PCG64([seed, epoch]))
        return generator.permutation(samples)

    return row_order
