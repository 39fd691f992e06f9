"""The larger networks of the examples. Importing this module imports Keras."""

import keras
from keras import layers


def normalised_cnn(size: int, width: int, classes: int) -> keras.Model:
    """Three stages of convolutions, *width* channels to begin with, a multiple of 8."""
    body = []
    for stage in range(3):
        body += [
            layers.Conv2D(width << stage, 3, padding="same", use_bias=False),
            layers.GroupNormalization(8),  # unlike BatchNorm it asks no other image
            layers.ReLU(),
            layers.MaxPooling2D(),
        ]
    head = [layers.GlobalAveragePooling2D(), layers.Dense(classes)]
    return keras.Sequential([keras.Input((size, size, 3)), *body, *head])


def cnn(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Two convolutions and a hidden layer."""
    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, "relu"),
            layers.Dense(classes, "softmax"),
        ]
    )


def resnet(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Three stages of two residual blocks, 16 to 64 channels."""

    def convolution(x, filters, strides=1, size=3):
        x = layers.Conv2D(filters, size, strides=strides, padding="same", use_bias=False)(x)
        # Keras's .99 takes some hundred steps to follow: longer than a short epoch has.
        return layers.BatchNormalization(momentum=0.9)(x)

    inputs = keras.Input(shape)
    x = layers.ReLU()(convolution(layers.Rescaling(1 / 255)(inputs), 16))
    for filters in (16, 32, 64):
        for block in range(2):
            strides = 2 if block == 0 and filters > 16 else 1
            inner = layers.ReLU()(convolution(x, filters, strides))
            inner = convolution(inner, filters)
            if strides == 2:
                x = convolution(x, filters, strides, 1)
            x = layers.ReLU()(layers.Add()([x, inner]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes, "softmax")(x))


class Places(layers.Layer):
    """Adds a vector for each place of a sequence, learnt like other weights."""

    def build(self, shape):
        self.vectors = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, x):
        return x + self.vectors


def vit(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """A vision transformer of 64 patches, six blocks of 192 channels and three heads."""
    inputs = keras.Input(shape)
    patch, width = shape[0] // 8, 192
    x = layers.Rescaling(1 / 127.5, -1)(inputs)
    x = layers.Conv2D(width, patch, strides=patch)(x)
    x = Places()(layers.Reshape((-1, width))(x))
    for _ in range(6):
        inner = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(3, width // 3)(inner, inner)])
        inner = layers.LayerNormalization()(x)
        inner = layers.Dense(4 * width, "gelu")(inner)
        x = layers.Add()([x, layers.Dense(width)(inner)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(classes, "softmax")(x))


def resnet50(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Keras's own, with random weights."""
    return keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes)
