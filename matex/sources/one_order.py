"""A tf.data pipeline that gives the same elements in the same order on every rank."""

from __future__ import annotations

import tensorflow as tf

from matex.sources.map_functions import chance_decides

__all__ = ["one_order"]


def one_order(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """*dataset* with a deterministic order, except for the script's unseeded operations. Local.

    TensorFlow's own pass for deterministic operations does it: functions with random state run for
    one element at a time, at least their part with state, and the rest in parallel as before. The
    pass also removes every prefetch, so that no function runs ahead of the main program's
    assignments; a dataset that ends in a prefetch gets one again.
    """
    options = tf.data.Options()
    options.deterministic = True
    ordered = dataset.with_options(options)
    if not chance_decides(dataset):
        return ordered
    variant = tf.raw_ops.OptimizeDatasetV2(
        input_dataset=tf.data.experimental.to_variant(ordered),
        optimizations_enabled=["make_deterministic"],
        optimizations_disabled=[],
        optimizations_default=[],
        **ordered._flat_structure,
    )
    made = tf.data.experimental.from_variant(variant, ordered.element_spec)
    made._matex_like = dataset  # keeps the objects that its functions use
    return made.prefetch(tf.data.AUTOTUNE) if _prefetches(dataset) else made


def _prefetches(dataset: tf.data.Dataset) -> bool:
    while type(dataset).__name__ == "_OptionsDataset":
        (dataset,) = dataset._inputs()
    return type(dataset).__name__ == "_PrefetchDataset"
