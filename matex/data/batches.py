"""The arguments ``x, y, sample_weight`` of fit and evaluate as batches by row number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import config, tree

from matex.data.arrays import ClassWeights, Table, as_table
from matex.errors import InputError

__all__ = ["Batches"]


class Batches:
    """Structures of rows, of the form that ``train_step`` gets. Local.

    Args:
        x: array-like, or a list, tuple or dict of array-likes, all with the same number of rows.
        y, sample_weight: arrays of as many rows, in such a structure; none by default.
        class_weight: weight by class number, in place of sample_weight; none by default.

    Raises:
        Unsupported: a value is no array.
        InputError: numbers of rows differ.

    Example:
        >>> batches = data.Batches(np.arange(10.0), np.arange(10))
        >>> x, y = batches.rows(np.array([7, 2]))
        >>> x.numpy().tolist(), y.numpy().tolist()
        ([7.0, 2.0], [7, 2])
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        class_weight: Mapping[int, float] | None = None,
    ) -> None:
        floatx = config.floatx()
        if y is None and sample_weight is not None:
            raise InputError("sample_weight wants y beside it. Received: y=None")
        self._parts: list[Any] = []
        counts: dict[str, int] = {}
        for name, part in (("x", x), ("y", y), ("sample_weight", sample_weight)):
            if part is not None or name == "x":
                labels = iter(_labels(name, part))
                self._parts.append(
                    tree.map_structure(
                        lambda leaf, labels=labels: as_table(leaf, next(labels), floatx=floatx),
                        part,
                    )
                )
                for table in tree.flatten(self._parts[-1]):
                    counts[f"{name} ({table.shape[0]})"] = table.shape[0]
        if len(set(counts.values())) > 1:
            raise InputError(
                f"all arrays must have the same number of rows. Received: {', '.join(counts)}"
            )
        if class_weight:
            self._parts.append(self._class_weights(class_weight))
        self.samples: int = next(iter(counts.values()))

    def _class_weights(self, class_weight: Mapping[int, float]) -> ClassWeights:
        if len(self._parts) != 2 or len(tree.flatten(self._parts[1])) != 1:
            raise InputError(
                "class_weight wants one array y and no sample_weight. "
                f"Received: {len(self._parts)} arguments of x, y, sample_weight"
            )
        (y,) = tree.flatten(self._parts[1])
        return ClassWeights(y, class_weight, np.dtype(config.floatx()))

    @property
    def costly(self) -> bool:
        """Whether reading rows may wait for a disk or decode something."""
        return any(table.costly for table in tree.flatten(self._parts))

    @property
    def signature(self) -> tuple[Any, ...]:
        """``(x[, y[, sample_weight]])`` as ``tf.TensorSpec`` with a free batch dimension.

        A batch of another size is then no retrace.
        """

        def spec(table: Table) -> tf.TensorSpec:
            return tf.TensorSpec((None, *table.shape[1:]), table.dtype)

        return tuple(tree.map_structure(spec, part) for part in self._parts)

    def rows(self, indices: np.ndarray) -> tuple[Any, ...]:
        """Read a batch.

        Args:
            indices: row numbers, int64, in any order.

        Returns:
            ``(x[, y[, sample_weight]])`` as tensors.
        """
        return self.tensors(self.arrays(indices))

    @property
    def tables(self) -> list[Table]:
        """The leaves of the structure."""
        return list(tree.flatten(self._parts))

    def arrays(self, indices: np.ndarray) -> list[np.ndarray]:
        """Read rows of each of :attr:`tables`.

        Args:
            indices: row numbers, int64, in any order.

        Returns:
            Fresh arrays, in the order of the tables.
        """
        return [table.rows(indices) for table in self.tables]

    def tensors(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Make a batch of arrays.

        Args:
            arrays: arrays of equally many rows, one for each of :attr:`tables`.

        Returns:
            ``(x[, y[, sample_weight]])`` as tensors.
        """
        return tuple(tree.pack_sequence_as(self._parts, [tf.constant(array) for array in arrays]))


def _labels(name: str, part: Any) -> list[str]:
    count = len(tree.flatten(part))
    return [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
