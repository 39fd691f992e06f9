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


def resnet50(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Keras's own, with random weights."""
    return keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes)
