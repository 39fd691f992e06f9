"""The hash of all that was trained, and what stays alive for it."""

from __future__ import annotations

import gc
import weakref

import keras
import numpy as np
import tensorflow as tf

from matex.fitting.trained_models import MOST, TrainedModels


def variable(value: float) -> keras.Variable:
    return keras.Variable(np.float64(value), dtype="float64")


def train(trained: TrainedModels, number: int) -> keras.Variable:
    made = variable(number)
    trained.remember(made, variables=lambda: [made])
    return made


def test_nothing_trained_is_no_hash() -> None:
    assert TrainedModels().digest() is None


def test_every_model_counts_also_those_that_are_let_go() -> None:
    digests = set()
    for changed in range(2 * MOST):
        trained = TrainedModels()
        for number in range(2 * MOST):
            made = train(trained, number)
            made.assign_add(number == changed)
        assert len(trained) == 2 * MOST
        digests.add(trained.digest())
    assert len(digests) == 2 * MOST


def test_only_the_newest_are_kept_alive() -> None:
    trained = TrainedModels()
    alive = [weakref.ref(train(trained, number)) for number in range(3 * MOST)]
    gc.collect()
    assert [ref() is not None for ref in alive] == [False] * 2 * MOST + [True] * MOST


def test_the_newest_count_with_their_last_values() -> None:
    digests = []
    for last in (1.0, 2.0):
        trained = TrainedModels()
        made = train(trained, 0)
        trained.remember(made, variables=lambda: [])
        made.assign(last)
        digests.append(trained.digest())
    assert digests[0] != digests[1]


def test_models_trained_in_turns_count_once_each() -> None:
    trained = TrainedModels()
    models = [variable(number) for number in range(3 * MOST)]
    for _turn in range(3):
        for model in models:
            trained.remember(model, variables=lambda model=model: [model])
    assert len(trained) == len(models)


def test_one_can_be_let_go_of_while_a_function_is_traced() -> None:
    trained = TrainedModels()
    for number in range(MOST):
        train(trained, number)
    last = variable(0)

    @tf.function
    def step() -> tf.Tensor:
        trained.remember(last, variables=lambda: [last])
        return tf.constant(1)

    step()
    assert len(trained) == MOST + 1
    assert trained.digest()
