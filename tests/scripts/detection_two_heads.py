"""One square in a picture: its class and its box, two heads, dicts of losses, weights and metrics."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(27)
rng = np.random.default_rng(27)

images = rng.random((240, 20, 20, 1), dtype="float32") * 0.2
boxes = np.zeros((240, 4), "float32")
kinds = rng.integers(0, 3, 240)
for image, box, kind in zip(images, boxes, kinds):
    top, left = rng.integers(0, 10, 2)
    size = rng.integers(5, 10)
    image[top : top + size, left : left + size] = 0.4 + 0.3 * kind
    box[:] = np.array([top, left, top + size, left + size]) / 20

targets = {"kind": kinds, "box": boxes}


def batches(part):
    dataset = tf.data.Dataset.from_tensor_slices(
        ({"image": images[part]}, {name: values[part] for name, values in targets.items()})
    )
    return dataset.batch(24).prefetch(1)


inputs = keras.Input((20, 20, 1), name="image")
x = layers.Conv2D(8, 3, strides=2, activation="relu")(inputs)
x = layers.Conv2D(12, 3, strides=2, activation="relu")(x)
x = layers.Dense(32, activation="relu")(layers.Flatten()(x))
outputs = {
    "kind": layers.Dense(3, activation="softmax", name="kind")(x),
    "box": layers.Dense(4, activation="sigmoid", name="box")(x),
}
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(0.003),
    loss={"kind": "sparse_categorical_crossentropy", "box": "mse"},
    loss_weights={"kind": 1.0, "box": 5.0},
    metrics={"kind": ["accuracy"], "box": [keras.metrics.MeanAbsoluteError(name="mae")]},
)
history = model.fit(
    batches(slice(0, 192)), validation_data=batches(slice(192, 240)), epochs=5, verbose=0
)
for name in sorted(history.history):
    print(f"{name:18}", " ".join(f"{value:.3f}" for value in history.history[name]))


def overlap(a, b):
    top_left, bottom_right = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    shared = np.prod(np.clip(bottom_right - top_left, 0, None), axis=1)
    areas = np.prod(a[:, 2:] - a[:, :2], axis=1) + np.prod(b[:, 2:] - b[:, :2], axis=1)
    return shared / (areas - shared)


found = model.predict(images[192:], batch_size=20, verbose=0)
print("shapes", {name: values.shape for name, values in sorted(found.items())})
print(f"mean overlap {overlap(found['box'], boxes[192:]).mean():.2f}")
