"""The order of samples follows from the script's own seeds, and moves none of its generators.

Where the script gave TensorFlow a seed, it is the order of plain Keras.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex.keras_hooks import Generators, OrderSeeds, shuffled_rows


def test_a_script_that_seeds_again_gets_the_same_order_again() -> None:
    seeds = OrderSeeds()
    taken = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        taken.append([seeds.next().own, seeds.next().own])
    assert taken[0] == taken[1]
    assert taken[0][0] != taken[0][1]


def test_it_is_another_after_another_seed_or_a_draw() -> None:
    seeds = OrderSeeds()
    keras.utils.set_random_seed(5)
    first = seeds.next().own
    np.random.rand()  # noqa: NPY002 - as scripts draw
    drawn = seeds.next().own
    keras.utils.set_random_seed(6)
    assert len({first, drawn, seeds.next().own}) == 3


def test_nothing_is_drawn_from_the_script() -> None:
    keras.utils.set_random_seed(5)
    wanted = np.random.rand()  # noqa: NPY002 - as scripts draw
    keras.utils.set_random_seed(5)
    OrderSeeds().next()
    assert np.random.rand() == wanted  # noqa: NPY002 - as scripts draw


def test_only_a_seed_of_the_script_is_one_of_plain_keras() -> None:
    keras.utils.set_random_seed(5)
    seeds = OrderSeeds()
    assert seeds.next().keras is None
    np.random.seed(6)  # noqa: NPY002 - as scripts seed
    assert seeds.next().keras is None
    tf.random.set_seed(5)
    assert seeds.next().keras == 5
    tf.random.set_seed(2**31 + 5)
    assert seeds.next().keras == 6


class Noting(keras.Model):
    """Notes the rows on which it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[np.ndarray] = []

    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        self.rows.append(data.numpy())
        return {"rows": tf.size(data)}


@pytest.mark.parametrize("shuffle", [True, "batch"])
@pytest.mark.parametrize(
    ("samples", "batch_size", "seed"),
    [(1030, 32, 7), (10, 3, 0), (64, 64, 1), (5, 10, 2**31 + 8), (1, 1, 3)],
)
def test_rows_are_shuffled_as_by_plain_keras(
    samples: int, batch_size: int, seed: int, shuffle: bool | str
) -> None:
    keras.utils.set_random_seed(seed % 2**32)
    model = Noting()
    model.compile(run_eagerly=True)
    model.fit(np.arange(samples), batch_size=batch_size, shuffle=shuffle, epochs=2, verbose=0)
    epochs = np.concatenate(model.rows).reshape(2, samples)

    tf.random.set_seed(99)
    before = Generators()
    found = shuffled_rows(samples, batch_size, shuffle, seed=seed % (2**31 - 1))
    assert found.dtype == np.int64
    for epoch in epochs:
        np.testing.assert_array_equal(found, epoch)
    assert not before.moved()
    drawn = float(tf.random.uniform(()))
    tf.random.set_seed(99)
    assert drawn == float(tf.random.uniform(()))
