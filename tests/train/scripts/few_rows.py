"""Fits of fewer rows than a batch or than ranks have, in any order and by any strategy."""

import keras
import numpy as np

generator = np.random.default_rng(3)
X = generator.normal(size=(10, 6)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")

for run_eagerly, rows, batch_size in ((False, 10, None), (True, 1, None), (False, 5, 1)):
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, "mse", metrics=["mae"], run_eagerly=run_eagerly)
    history = model.fit(X[:rows], Y[:rows], batch_size=batch_size, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all(), history.history
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert len(history.epoch) == 2
    if batch_size is None:
        assert int(optimizer.iterations.numpy()) == 2
