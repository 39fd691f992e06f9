"""LARS beside plain NumPy code of its equation, and through saving."""

from __future__ import annotations

import keras
import numpy as np

from matex.optimizers import LARS


def plain(w: np.ndarray, v: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ratio = 1.0
    if w.ndim > 1:
        weights, slope = np.linalg.norm(w), np.linalg.norm(g)
        if weights > 0 and slope > 0:
            ratio = 0.01 * weights / (slope + 0.001 * weights)
        g = g + 0.001 * w
    v = 0.8 * v - 2.0 * ratio * g
    return w + v, v


def test_lars_is_that_of_the_paper() -> None:
    generator = np.random.default_rng(1)
    values = [generator.normal(size=s).astype("float32") for s in [(4, 3), (3,), (2, 2, 2)]]
    values.append(np.zeros((2, 2), np.float32))  # ratio 1 where a norm is 0
    variables = [keras.Variable(value) for value in values]
    velocities = [np.zeros_like(value) for value in values]
    optimizer = LARS(2.0, momentum=0.8, trust=0.01, l2=0.001)
    optimizer = LARS.from_config(optimizer.get_config())
    for _ in range(4):
        gradients = [generator.normal(size=v.shape).astype("float32") for v in values]
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients], variables)
        for i, gradient in enumerate(gradients):
            values[i], velocities[i] = plain(values[i], velocities[i], gradient)
    for variable, value in zip(variables, values, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-5, atol=1e-6)
