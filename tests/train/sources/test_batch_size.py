"""The rows of the largest batch, as the construction of a tf.data pipeline tells them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from matex.sources.batch_size import most_rows

Dataset = tf.data.Dataset


def batches(rows: int = 4) -> Dataset:
    return Dataset.range(10).batch(rows)


PASSING_ON: dict[str, Callable[[], Dataset]] = {
    "cache": lambda: batches().cache(),
    "prefetch": lambda: batches().prefetch(2),
    "map": lambda: batches().map(lambda x: x + 1),
    "parallel map": lambda: batches().map(lambda x: x + 1, num_parallel_calls=2),
    "repeat": lambda: batches().repeat(2),
    "shuffle": lambda: batches().shuffle(3),
    "skip": lambda: batches().skip(1),
    "take": lambda: batches().take(1),
    "take while": lambda: batches().take_while(lambda x: x[0] < 8),
    "filter": lambda: batches().filter(lambda x: x[0] < 8),
    "shard": lambda: batches().shard(2, 0),
    "ignore errors": lambda: batches().ignore_errors(),
    "options": lambda: batches().with_options(tf.data.Options()),
    "cardinality": lambda: batches().apply(tf.data.experimental.assert_cardinality(3)),
    "parallel batch": lambda: Dataset.range(10).batch(4, num_parallel_calls=2).cache(),
    "padded batch": lambda: Dataset.range(10).padded_batch(4).cache(),
    "ragged batch": lambda: Dataset.range(10).ragged_batch(4).cache(),
    "concatenate": lambda: batches(3).cache().concatenate(batches(4)),
    "zip": lambda: Dataset.zip((batches(), batches())).cache(),
    "sample": lambda: Dataset.sample_from_datasets([batches(), batches(2)], seed=1),
}


@pytest.mark.parametrize("operation", PASSING_ON)
def test_batches_that_are_passed_on_keep_their_rows(operation: str) -> None:
    dataset = PASSING_ON[operation]()
    assert most_rows(dataset) == 4, type(dataset).__name__


@pytest.mark.parametrize(
    "dataset",
    [
        batches().flat_map(lambda x: Dataset.from_tensors(tf.concat([x, x], 0))),
        batches().concatenate(batches().flat_map(Dataset.from_tensors)),
        Dataset.range(10).shuffle(2),
    ],
    ids=["made anew", "one of two", "no batches"],
)
def test_other_pipelines_do_not_tell(dataset: Dataset) -> None:
    assert most_rows(dataset) is None
