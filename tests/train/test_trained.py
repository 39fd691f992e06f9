"""The hash of all that was trained, and what stays alive for it."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from matex.fitting.trained import MOST, Trained


class Variable:
    def __init__(self, value: float) -> None:
        self.value = value

    def numpy(self) -> np.ndarray:
        return np.array([self.value])


def train(trained: Trained, number: int) -> Variable:
    variable = Variable(number)
    trained.remember(number, lambda: [variable])
    return variable


def test_nothing_trained_is_no_hash() -> None:
    assert Trained().digest() is None


def test_every_model_counts_also_those_that_are_let_go() -> None:
    digests = set()
    for changed in range(2 * MOST):
        trained = Trained()
        for number in range(2 * MOST):
            variable = train(trained, number)
            variable.value += number == changed
        assert len(trained) == 2 * MOST
        digests.add(trained.digest())
    assert len(digests) == 2 * MOST


def test_only_the_newest_are_kept_alive() -> None:
    trained = Trained()
    alive = [weakref.ref(train(trained, number)) for number in range(3 * MOST)]
    gc.collect()
    assert [ref() is not None for ref in alive] == [False] * 2 * MOST + [True] * MOST


def test_the_newest_count_with_their_last_values() -> None:
    digests = []
    for last in (1.0, 2.0):
        trained = Trained()
        variable = train(trained, 0)
        trained.remember(0, lambda: [])
        variable.value = last
        digests.append(trained.digest())
    assert digests[0] != digests[1]
