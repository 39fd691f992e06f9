"""The order of samples follows from the script's own seeds, and moves none of its generators."""

from __future__ import annotations

import keras
import numpy as np

from matex.keras_hooks import OrderSeeds


def test_a_script_that_seeds_again_gets_the_same_order_again() -> None:
    seeds = OrderSeeds()
    taken = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        taken.append([seeds.next(), seeds.next()])
    assert taken[0] == taken[1]
    assert taken[0][0] != taken[0][1]


def test_it_is_another_after_another_seed_or_a_draw() -> None:
    seeds = OrderSeeds()
    keras.utils.set_random_seed(5)
    first = seeds.next()
    np.random.rand()  # noqa: NPY002 - as scripts draw
    drawn = seeds.next()
    keras.utils.set_random_seed(6)
    assert len({first, drawn, seeds.next()}) == 3


def test_nothing_is_drawn_from_the_script() -> None:
    keras.utils.set_random_seed(5)
    wanted = np.random.rand()  # noqa: NPY002 - as scripts draw
    keras.utils.set_random_seed(5)
    OrderSeeds().next()
    assert np.random.rand() == wanted  # noqa: NPY002 - as scripts draw
