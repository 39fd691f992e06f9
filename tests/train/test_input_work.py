"""Turning a tf.data pipeline round, in this process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from matex.errors import NotShareable
from matex.feeds.input_work import turned_round


def squares() -> tf.data.Dataset:
    return tf.data.Dataset.range(10).shuffle(10, seed=1).map(lambda i: {"square": i * i})


def test_each_place_maps_its_rows_of_each_batch() -> None:
    def dataset() -> tf.data.Dataset:
        return squares().map(lambda row: (row["square"], -row["square"])).batch(4).prefetch(1)

    whole = list(dataset())
    for place in range(3):
        pipeline = turned_round(dataset())
        assert pipeline is not None
        ahead = list(pipeline.ahead(tf.Variable([place, 3], dtype=tf.int64)))
        assert [len(raw[0]) for raw, _, _ in ahead] == [4, 4, 2]
        for (raw, mapped, rows), (square, negative) in zip(ahead, whole, strict=True):
            lo, hi = rows.numpy()
            np.testing.assert_array_equal(mapped[0], square[lo:hi])
            np.testing.assert_array_equal(mapped[1], negative[lo:hi])
            np.testing.assert_array_equal(raw[0] ** 2, square)  # not mapped
            np.testing.assert_array_equal(pipeline.map(raw)[0], square)


def test_a_pipeline_without_maps_has_nothing_to_share() -> None:
    assert turned_round(tf.data.Dataset.range(10).batch(4)) is None


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (squares().shuffle(5).batch(4), "shuffle"),
        (squares().cache().batch(4), "cache"),
        (squares().batch(4).map(lambda row: row), "map"),
        (squares().batch(4).repeat(), "repeat"),
        (tf.data.Dataset.range(9).map(lambda i: tf.random.uniform([])).batch(4), "RandomUniform"),
        (
            tf.data.Dataset.range(9)
            .map(lambda i: tf.numpy_function(lambda j: j, [i], tf.int64))
            .batch(4),
            "PyFunc",
        ),
    ],
)
def test_what_could_change_the_result_is_refused(dataset: tf.data.Dataset, reason: str) -> None:
    with pytest.raises(NotShareable, match=reason):
        turned_round(dataset)
