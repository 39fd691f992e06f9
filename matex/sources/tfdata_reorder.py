"""Sharing the work of a tf.data pipeline: each rank decodes and augments only its own rows.

A pipeline ``source -> .. -> map -> shuffle -> map -> batch -> repeat`` is reordered: elements are
batched before they are mapped, every rank iterates over all of these raw batches, which is cheap,
and maps its own rows. Maps without random or other state give equal results for an element wherever
and however often they run, so a survivor can map a dead rank's rows; other pipelines are left
unchanged. Operations that only order, repeat or skip elements or batches, without reading them, are
put before the maps (:mod:`matex.sources.tfdata_operations`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from keras import tree

from matex.errors import NotShareable
from matex.sources.map_functions import check_function
from matex.sources.one_order import one_order
from matex.sources.tfdata_operations import name_of, passes_on, reordered

__all__ = ["Pipeline", "with_batch_before_map"]

_BATCHES = ("_BatchDataset", "_ParallelBatchDataset")
_MAPS = ("_MapDataset", "_ParallelMapDataset")


class Pipeline(NamedTuple):
    """A pipeline with its batches before its maps. Elements are flat tuples of tensors."""

    raw: tf.data.Dataset
    """Global batches of elements as they were before the maps."""
    map: Callable[[Sequence[Any]], tuple[Any, ...]]
    """Mapped rows of raw rows, at least one, in their order; in a graph or outside."""
    element_spec: Any
    """The element_spec of the user's pipeline."""

    def ahead(self, place: Any, *, limit: int | None = None) -> tf.data.Dataset:
        """Raw batches, the rows of *place* mapped, and which rows these are, [lo, hi).

        Args:
            place: int64 variable (mine, of how many).
            limit: number of batches after which it ends; None, the default, for all.
        """
        raw = self.raw if limit is None else self.raw.take(limit)

        def work(*raw: Any) -> Any:
            rows = tf.shape(raw[0], tf.int64)[0]
            lo = tf.minimum(rows * place[0] // place[1], rows - 1)
            hi = tf.maximum(rows * (place[0] + 1) // place[1], lo + 1)
            return raw, self.map([tensor[lo:hi] for tensor in raw]), tf.stack([lo, hi])

        return raw.prefetch(2).map(work, num_parallel_calls=2, deterministic=True).prefetch(2)


def with_batch_before_map(dataset: tf.data.Dataset) -> Pipeline | None:
    """Pipeline of *dataset* with batches before maps; None if it maps nothing before. Local.

    Raises:
        NotShareable: it has work to share, but sharing it could change the result.
    """
    behind, batch = _until(dataset, (*_BATCHES, *_MAPS))
    if batch is not None and type(batch).__name__ in _MAPS:
        if getattr(batch, "_matex_by_rows", False):
            return _by_rows(dataset, behind, batch)
        behind, batch = [batch], None
    if batch is None:
        if _has_map(dataset):
            raise NotShareable(f"it has {name_of(behind[-1])} after its last batch")
        return None
    source = batch._inputs()[0]
    between: list[tf.data.Dataset] = []  # from the batch on upstream
    functions: list[Any] = []
    while True:
        passed, mapped = _until(source, _MAPS)
        if mapped is None:
            break
        functions.insert(0, mapped._map_func.function)
        between += [*passed, mapped]
        (source,) = mapped._inputs()
    if not functions:
        if _has_map(source):
            raise NotShareable(f"it has {name_of(passed[-1])} between its last map and the batch")
        return None
    for function in functions:
        check_function(function)
    for spec in (*tree.flatten(source.element_spec), *tree.flatten(dataset.element_spec)):
        if not isinstance(spec, tf.TensorSpec):
            raise NotShareable(f"its elements are not all dense tensors, but {spec}")
    raw = source
    for operation in reversed(between):
        # Something stays in a map's place: TensorFlow makes one operation of a shuffle and a repeat
        # that follows at once, and that has another order.
        is_map = type(operation).__name__ in _MAPS
        raw = raw.prefetch(1) if is_map else reordered(raw, operation)
    raw = raw.map(lambda *element: tuple(tree.flatten(element)))
    raw = raw.batch(batch._batch_size, drop_remainder=batch._drop_remainder)
    for operation in reversed(_without_prefetch(behind)):
        raw = reordered(raw, operation)
    return Pipeline(one_order(raw), _mapping(functions), dataset.element_spec)


def _by_rows(
    dataset: tf.data.Dataset, behind: list[tf.data.Dataset], mapped: tf.data.Dataset
) -> Pipeline:
    """Pipeline for a map of batches that treats each row separately and needs no reordering."""
    (raw,) = mapped._inputs()
    for operation in reversed(_without_prefetch(behind)):
        raw = reordered(raw, operation)

    def rows(raw_rows: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(tree.flatten(mapped._map_func.function(*raw_rows)))

    return Pipeline(one_order(raw), rows, dataset.element_spec)


def _without_prefetch(operations: list[tf.data.Dataset]) -> list[tf.data.Dataset]:
    """*operations*, the last of them first, without prefetches at their end: there is another."""
    kinds = ("_PrefetchDataset", "_OptionsDataset")
    after = itertools.takewhile(lambda one: type(one).__name__ in kinds, operations)
    left_out = [one for one in after if type(one).__name__ == "_PrefetchDataset"]
    return [one for one in operations if not any(one is other for other in left_out)]


def _until(
    dataset: tf.data.Dataset, kinds: Sequence[str]
) -> tuple[list[tf.data.Dataset], tf.data.Dataset | None]:
    """First of *kinds* upstream, past operations that pass elements on, and these, from the end.

    None where something else comes first, which is then the last of the list.
    """
    passed: list[tf.data.Dataset] = []
    while type(dataset).__name__ not in kinds:
        passed.append(dataset)
        if not passes_on(dataset):
            return passed, None
        (dataset,) = dataset._inputs()
    return passed, dataset


def _mapping(functions: list[Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    def one(*row: Any) -> tuple[Any, ...]:
        for function in functions:
            row = tuple(function(*row))
        return row

    def rows(raw: Sequence[Any]) -> tuple[Any, ...]:
        mapped = tf.data.Dataset.from_tensor_slices(tuple(raw))
        mapped = mapped.map(one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        count = tf.shape(raw[0], tf.int64)[0]
        # Without take(), TensorFlow 2.21 fuses map and batch, and then cannot delete a map that
        # uses a table or a variable (MutableGraphView::DeleteNodes, retained fanouts).
        batch: tuple[Any, ...] = mapped.take(count).batch(count).get_single_element()
        return batch

    return rows


def _has_map(dataset: tf.data.Dataset) -> bool:
    return type(dataset).__name__ in _MAPS or any(_has_map(d) for d in dataset._inputs())
