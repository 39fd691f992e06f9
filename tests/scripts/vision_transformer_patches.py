"""Patches, position embeddings, attention; custom layers that are saved and loaded by name."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(33)
rng = np.random.default_rng(33)


@keras.saving.register_keras_serializable(package="patches")
class Patches(layers.Layer):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def call(self, images):
        count, height, width, channels = ops.shape(images)
        rows, columns = height // self.size, width // self.size
        x = ops.reshape(images, (count, rows, self.size, columns, self.size, channels))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
        return ops.reshape(x, (count, rows * columns, self.size**2 * channels))

    def get_config(self):
        return {**super().get_config(), "size": self.size}


@keras.saving.register_keras_serializable(package="patches")
class Encoder(layers.Layer):
    def __init__(self, patches, width, **kwargs):
        super().__init__(**kwargs)
        self.patches, self.width = patches, width
        self.project = layers.Dense(width)
        self.position = layers.Embedding(patches, width)

    def build(self, shape):
        self.project.build(shape)
        self.position.build((self.patches,))

    def call(self, x):
        places = ops.expand_dims(ops.arange(self.patches), 0)
        return self.project(x) + self.position(places)

    def get_config(self):
        return {**super().get_config(), "patches": self.patches, "width": self.width}


def make_model(depth=2, width=16):
    inputs = keras.Input((12, 12, 3))
    x = Encoder(9, width)(Patches(4)(inputs))
    for _ in range(depth):
        normed = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(2, width // 2, dropout=0.1)(normed, normed)])
        normed = layers.LayerNormalization(epsilon=1e-6)(x)
        hidden = layers.Dropout(0.1)(layers.Dense(2 * width, activation="gelu")(normed))
        x = layers.Add()([x, layers.Dense(width)(hidden)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(inputs, layers.Dense(3)(x))


labels = rng.integers(0, 3, 320)
images = rng.random((320, 12, 12, 3), dtype="float32") * 0.4
for image, label in zip(images, labels):
    image[4 * label : 4 * label + 4, :, label] += 0.5

model = make_model()
model.compile(
    optimizer=keras.optimizers.AdamW(0.005, weight_decay=1e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top-2")],
)
keep = keras.callbacks.ModelCheckpoint(
    "vit.weights.h5", monitor="val_accuracy", save_best_only=True, save_weights_only=True
)
model.fit(
    images[:256],
    labels[:256],
    batch_size=32,
    epochs=5,
    validation_split=0.125,
    callbacks=[keep],
    verbose=0,
)
model.load_weights("vit.weights.h5")
_, accuracy, top = model.evaluate(images[256:], labels[256:], verbose=0)
print("accuracy above 0.9:", accuracy > 0.9, "top 2 above 0.9:", top > 0.9)
print("parameters", model.count_params())
model.save("vit.keras")
again = keras.models.load_model("vit.keras")
a, b = (m.predict(images[256:], verbose=0) for m in (model, again))
print(
    "the same after loading:",
    bool(np.allclose(a, b, atol=1e-5)),
    again.get_layer(index=1).get_config()["size"],
)
