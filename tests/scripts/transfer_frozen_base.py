"""Train a base, save it, freeze it under a new head, then thaw it and tune all with a small rate."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(9)
rng = np.random.default_rng(9)

images = rng.random((400, 12, 12, 1), dtype="float32")
quadrant = rng.integers(0, 4, 400)
for image, where in zip(images, quadrant):
    image[6 * (where // 2) : 6 * (where // 2) + 6, 6 * (where % 2) : 6 * (where % 2) + 6] += 0.7

base = keras.Sequential(
    [
        keras.Input((12, 12, 1)),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.Conv2D(12, 3, activation="relu"),
        layers.Flatten(name="features"),
    ],
    name="base",
)
pretraining = keras.Sequential([base, layers.Dense(4, activation="softmax")])
pretraining.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
first = pretraining.fit(images, quadrant, epochs=3, batch_size=40, shuffle=False, verbose=0)
print("pretraining", np.round(first.history["loss"], 3))
base.save("base.keras")

# Another task: is the bright square in the upper half?
upper = (quadrant < 2).astype("float32")
base = keras.models.load_model("base.keras")
base.trainable = False
inputs = keras.Input((12, 12, 1))
x = base(inputs, training=False)
outputs = layers.Dense(1, name="head")(x)
model = keras.Model(inputs, outputs)
model.summary(show_trainable=True)
print("trainable", len(model.trainable_weights), "frozen", len(model.non_trainable_weights))

before = base.get_weights()
loss = keras.losses.BinaryCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=[keras.metrics.BinaryAccuracy(name="acc")])
model.fit(images[:80], upper[:80], epochs=3, batch_size=20, shuffle=False, verbose=0)
print("base unchanged:", all(np.array_equal(a, b) for a, b in zip(before, base.get_weights())))
print("head", [round(v, 3) for v in model.evaluate(images[80:], upper[80:], verbose=0)])

base.trainable = True
model.compile(keras.optimizers.Adam(1e-4), loss, metrics=[keras.metrics.BinaryAccuracy(name="acc")])
tuned = model.fit(
    images[:80],
    upper[:80],
    epochs=2,
    batch_size=20,
    shuffle=False,
    verbose=0,
    validation_data=(images[80:], upper[80:]),
)
print(
    "tuned",
    np.round(tuned.history["val_loss"], 3),
    "moved:",
    not any(np.array_equal(a, b) for a, b in zip(before, base.get_weights())),
)
