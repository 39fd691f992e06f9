"""Models that benchmarks train: they need NumPy and Keras only, also Keras 2."""

from __future__ import annotations

from typing import Any

import numpy as np


def build(name: str) -> tuple[Any, np.ndarray, np.ndarray, int]:
    """The compiled model, samples, targets, and the batch of one rank."""
    import keras

    generator = np.random.default_rng(0)
    layers = keras.layers
    if name == "mlp":  # the HIGGS classifier, 189,601 parameters
        hidden = [layers.Dense(300, activation="relu") for _ in range(3)]
        model = keras.Sequential([keras.Input((28,)), *hidden, layers.Dense(1, "sigmoid")])
        model.compile(keras.optimizers.Adam(3e-4), "binary_crossentropy")
        x = generator.normal(size=(8192, 28)).astype(np.float32)
        return model, x, (x[:, 0] > 0).astype(np.float32), 256
    if name == "cnn":  # 1.2 M parameters
        model = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Conv2D(64, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(128, activation="relu"),
                layers.Dense(10),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-3), loss)
        x = generator.normal(size=(1024, 28, 28, 1)).astype(np.float32)
        return model, x, generator.integers(0, 10, 1024).astype(np.int32), 64
    # One matrix: of 25 M parameters or, with next to no computing, as many as the CNN has.
    width, batch = (1095, 1) if name == "matrix" else (5000, 32)
    model = keras.Sequential([keras.Input((width,)), layers.Dense(width, use_bias=False)])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    x = generator.normal(size=(4 * batch, width)).astype(np.float32)
    return model, x, x, batch
