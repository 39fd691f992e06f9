"""Optimizers of a script's own, whose slots are cut, or else nothing is."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import matex
from tests.train.apoptosis.test_callback import fit, make, once


class Momentum(keras.optimizers.Optimizer):
    """SGD with momenta in a dict, by place of the weight."""

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        self.momenta = dict(enumerate(map(self.made_for, variables)))

    def made_for(self, weight: Any) -> Any:
        return self.add_variable_from_reference(weight, "momentum")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        momentum = self.momenta[self._get_variable_index(variable)]
        if momentum is not None:
            self.assign(momentum, 0.9 * momentum + gradient)
            gradient = momentum
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * gradient)


class OfKernels(Momentum):
    """Momenta of kernels alone."""

    def made_for(self, weight: Any) -> Any:
        return super().made_for(weight) if len(weight.shape) > 1 else None


class ByUnit(Momentum):
    """One number for each unit of a layer, in a list."""

    def build(self, variables: Any) -> None:
        built = self.built
        super().build(variables)
        if not built:
            self.momenta = list(self.momenta.values())

    def made_for(self, weight: Any) -> Any:
        return self.add_variable(shape=weight.shape[-1:], name="of_units")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        momentum = self.momenta[self._get_variable_index(variable)]
        mean = ops.mean(gradient, tuple(range(len(gradient.shape) - 1)))
        self.assign(momentum, 0.9 * momentum + mean)
        rate = ops.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, rate * ops.broadcast_to(momentum, variable.shape))


class OfItsOwn(Momentum):
    """Momenta in one array that nothing tells the weight of."""

    def made_for(self, weight: Any) -> Any:
        shape = (int(np.prod(weight.shape)),)
        return self.add_variable(shape=shape, name="flat")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        momentum = self.momenta[self._get_variable_index(variable)]
        self.assign(momentum, 0.9 * momentum + ops.reshape(gradient, (-1,)))
        moved = ops.reshape(momentum, variable.shape)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * moved)


@pytest.mark.parametrize("kind", [Momentum, OfKernels, ByUnit])
def test_slots_are_cut_wherever_an_optimizer_keeps_them(kind: Any) -> None:
    model, x, y = make()
    model.compile(kind(1e-3), "binary_crossentropy")
    before = model.count_params()
    fit(model, x, y, once(exclude=[], delta=None, pruning_ratio=0.5), epochs=4)
    assert model.count_params() < before
    weights = model.trainable_variables
    for momentum, weight in zip(_values(model.optimizer.momenta), weights, strict=True):
        if momentum is not None:
            assert tuple(momentum.shape) == tuple(weight.shape)[-len(momentum.shape) :]
            assert np.abs(momentum.numpy()).max() > 0


def test_nothing_is_cut_where_a_slot_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, y = make()
    model.compile(OfItsOwn(1e-3), "binary_crossentropy")
    before = model.count_params()
    fit(model, x, y, matex.Apoptosis("natural", delta=None, first_epoch=1), epochs=4)
    assert model.count_params() == before
    said = capsys.readouterr().out
    assert "the optimizer has flat of shape (" in said
    assert "which is not known to belong to a weight" in said


def _values(momenta: Any) -> list[Any]:
    return list(momenta.values()) if isinstance(momenta, dict) else momenta
