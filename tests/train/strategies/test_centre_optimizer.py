"""Optimizers of Keras at a centre: one vector, handed from one server to the next."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from matex.config.named_arguments import KERAS_OPTIMIZERS
from matex.errors import InputError
from matex.fitting.flat_optimizer import FlatOptimizer
from matex.keras_hooks.optimizers import optimizer_kinds

SHAPES = ((3, 2), (2,))


def flat(values: list[Any]) -> np.ndarray:
    return np.concatenate([np.asarray(value).reshape(-1) for value in values]).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("adagrad", {"learning_rate": 0.01}),
        ("adam", {"amsgrad": True}),
        ("Nadam", {"learning_rate": 0.1, "clipnorm": 1.0}),
        ("sgd", {"learning_rate": 1.0, "momentum": 0.5, "nesterov": True}),
        ("lamb", {}),  # by the norm of each variable
        ("adafactor", {}),
        ("adamw", {"use_ema": True, "weight_decay": 0.1}),
    ],
)
def test_servers_that_follow_each_other_are_one_optimizer(
    name: str, options: dict[str, Any]
) -> None:
    generator = np.random.default_rng(2)
    plain = [keras.Variable(generator.normal(size=shape).astype("float32")) for shape in SHAPES]
    kind = next(kind for key, kind in vars(keras.optimizers).items() if key.lower() == name.lower())
    theirs = kind(**options)
    servers = [FlatOptimizer(name, options, plain, np.dtype(np.float32)) for _ in range(2)]
    weights = flat(plain)
    slots = servers[0].first_slots(weights)
    for step in range(6):
        gradients = [generator.normal(size=shape).astype("float32") for shape in SHAPES]
        theirs.apply(gradients, plain)
        before = weights.copy(), slots.copy()
        made = servers[step % 2].updated(weights, slots, flat(gradients))
        np.testing.assert_array_equal(np.concatenate([weights, slots]), np.concatenate(before))
        weights, slots = made
        assert weights.dtype == slots.dtype == np.float32
    np.testing.assert_allclose(weights, flat(plain), rtol=1e-5, atol=1e-6)


def test_every_optimizer_of_keras_is_known_before_keras_is_imported() -> None:
    assert optimizer_kinds().keys() <= set(KERAS_OPTIMIZERS)


@pytest.mark.parametrize(
    ("name", "options", "received"),
    [
        ("adagard", {}, "Received: adagard"),
        ("multioptimizer", {}, "Received: multioptimizer"),
        ("adagrad", {"rate": 0.1}, "Received: adagrad with rate=0.1: "),
        ("adam", {"beta_1": True, "learning_rate": True}, "Received: adam with "),
    ],
)
def test_an_optimizer_that_keras_does_not_make_is_refused_in_a_line(
    name: str, options: dict[str, Any], received: str
) -> None:
    with pytest.raises(InputError, match=r"^centre_optimizer must ") as refused:
        FlatOptimizer(name, options, [], np.dtype(np.float32))
    assert received in str(refused.value)
    assert "\n" not in str(refused.value)
