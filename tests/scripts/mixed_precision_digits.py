"""A small CNN under mixed_bfloat16, jitted nowhere, with a float32 softmax at its end."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(149)
rng = np.random.default_rng(149)

digits = rng.integers(0, 4, 320)
images = rng.random((320, 10, 10, 1)).astype("float32") * 0.3
for image, digit in zip(images, digits):
    image[2 * digit : 2 * digit + 3, 2:8] += 0.6

keras.mixed_precision.set_global_policy("mixed_bfloat16")
model = keras.Sequential(
    [
        keras.Input((10, 10, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(24, activation="relu"),
        layers.Dense(4),
        layers.Activation("softmax", dtype="float32"),
    ]
)
print("compute", model.layers[0].compute_dtype, "variables", model.layers[0].variable_dtype)
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(images[:256], digits[:256], batch_size=32, epochs=4, verbose=0)
_, accuracy = model.evaluate(images[256:], digits[256:], verbose=0)
print(
    "learned:",
    accuracy > 0.9,
    "losses fall:",
    history.history["loss"][-1] < history.history["loss"][0],
)
print("output", model.predict(images[:3], verbose=0).dtype)
keras.mixed_precision.set_global_policy("float32")

scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=256.0)
plain = keras.Sequential(
    [keras.Input((10, 10, 1)), layers.Flatten(), layers.Dense(4, activation="softmax")]
)
plain.compile(scaled, "sparse_categorical_crossentropy")
history = plain.fit(images, digits, batch_size=64, epochs=3, shuffle=False, verbose=0)
print("scaled", np.round(history.history["loss"], 3), "scale", float(scaled.dynamic_scale))
