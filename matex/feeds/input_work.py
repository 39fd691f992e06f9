"""Sharing the work of a tf.data pipeline: each rank decodes and augments only its own rows.

A pipeline ``source -> .. -> map -> map -> batch -> prefetch`` is turned round: elements
are batched before they are mapped, every rank goes over all of these raw batches, which
is cheap, and maps the rows that fall to it. Maps without random or other state give the
same for an element wherever and however often they run, so a survivor can map the rows
of the dead; anything else is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from keras import tree

from matex.errors import NotShareable

__all__ = ["Pipeline", "turned_round"]

_PASSING_ON = ("_PrefetchDataset", "_OptionsDataset")
_BATCHES = ("_BatchDataset", "_ParallelBatchDataset")
_MAPS = ("_MapDataset", "_ParallelMapDataset")

# State that is only read, and the same for every element; or none: an assertion changes nothing.
_READING = ("ReadVariableOp", "VarHandleOp", "LookupTableFindV2", "LookupTableSizeV2", "Assert")


class Pipeline(NamedTuple):
    """A pipeline turned round. Elements are flat tuples of tensors."""

    raw: tf.data.Dataset
    """Global batches of elements as they were before the maps."""
    map: Callable[[Sequence[Any]], tuple[Any, ...]]
    """Mapped rows of raw rows, at least one, in their order; in a graph or outside."""
    element_spec: Any
    """Of the user's pipeline."""

    def ahead(self, place: Any) -> tf.data.Dataset:
        """Raw batches, the rows of *place* mapped, and which rows these are, [lo, hi).

        Args:
            place: int64 variable (mine, of how many).
        """

        def work(*raw: Any) -> Any:
            rows = tf.shape(raw[0], tf.int64)[0]
            lo = tf.minimum(rows * place[0] // place[1], rows - 1)
            hi = tf.maximum(rows * (place[0] + 1) // place[1], lo + 1)
            return raw, self.map([tensor[lo:hi] for tensor in raw]), tf.stack([lo, hi])

        return self.raw.map(work, num_parallel_calls=2, deterministic=True).prefetch(2)


def turned_round(dataset: tf.data.Dataset) -> Pipeline | None:
    """The pipeline of *dataset* turned round, None where it maps nothing before it batches. Local.

    Raises:
        NotShareable: it has work to share, but sharing it could change the result.
    """
    batch = dataset
    while type(batch).__name__ in _PASSING_ON:
        (batch,) = batch._inputs()
    if type(batch).__name__ not in _BATCHES:
        if _has_map(batch):
            raise NotShareable(f"it ends with {_name(batch)}, not with a batch")
        return None
    (source,) = batch._inputs()
    functions: list[Any] = []
    while type(source).__name__ in _MAPS:
        functions.insert(0, source._map_func.function)
        (source,) = source._inputs()
    if not functions:
        if _has_map(source):
            raise NotShareable(f"there is {_name(source)} between the last map and the batch")
        return None
    for function in functions:
        _check(function)
    for spec in (*tree.flatten(source.element_spec), *tree.flatten(dataset.element_spec)):
        if not isinstance(spec, tf.TensorSpec):
            raise NotShareable(f"its elements are not all dense tensors, but {spec}")
    flat = source.map(lambda *element: tuple(tree.flatten(element)))
    raw = flat.batch(batch._batch_size, drop_remainder=batch._drop_remainder)
    return Pipeline(raw.prefetch(2), _mapping(functions), dataset.element_spec)


def _mapping(functions: list[Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    def one(*row: Any) -> tuple[Any, ...]:
        for function in functions:
            row = tuple(function(*row))
        return row

    def rows(raw: Sequence[Any]) -> tuple[Any, ...]:
        mapped = tf.data.Dataset.from_tensor_slices(tuple(raw))
        mapped = mapped.map(one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        count = tf.shape(raw[0], tf.int64)[0]
        batch: tuple[Any, ...] = mapped.batch(count).get_single_element()
        return batch

    return rows


def _check(function: Any) -> None:
    for operation in function.graph.get_operations():
        if operation.op_def.is_stateful and operation.type not in _READING:
            raise NotShareable(f"a map has {operation.type}, which is not the same each time")


def _has_map(dataset: tf.data.Dataset) -> bool:
    return type(dataset).__name__ in _MAPS or any(_has_map(d) for d in dataset._inputs())


def _name(dataset: tf.data.Dataset) -> str:
    kind = type(dataset).__name__.strip("_").removesuffix("Dataset").lower()
    return f"tf.data's {kind!r}"
