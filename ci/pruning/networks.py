"""Networks to prune as people build them: those of keras.applications, and six more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers, ops

from matex import keras_hooks

__all__ = ["APPLICATIONS", "OWN", "Built", "application", "own"]

_CLASSES = 10

# The smallest pictures that each is made for; the first of each row stands for its family.
APPLICATIONS = {
    "ConvNeXtTiny": 32, "ConvNeXtSmall": 32,
    "DenseNet121": 32, "DenseNet169": 32,
    "EfficientNetB0": 32, "EfficientNetB1": 32,
    "EfficientNetV2B0": 32, "EfficientNetV2S": 32,
    "InceptionResNetV2": 75,
    "InceptionV3": 75,
    "MobileNet": 32,
    "MobileNetV2": 32,
    "MobileNetV3Small": 32, "MobileNetV3Large": 32,
    "NASNetMobile": 32,
    "ResNet50": 32, "ResNet101": 32,
    "ResNet50V2": 32, "ResNet101V2": 32,
    "VGG16": 32, "VGG19": 32,
    "Xception": 71,
}  # fmt: skip


class Built(NamedTuple):
    """A network with random weights that are all at work, and rows for it."""

    model: Any
    rows: np.ndarray


def application(name: str, *, rows: int = 16) -> Built:
    """The network *name* of keras.applications, for the smallest pictures that it takes."""
    keras.utils.set_random_seed(sum(name.encode()))
    side = APPLICATIONS[name]
    model = getattr(keras.applications, name)(
        weights=None, input_shape=(side, side, 3), classes=_CLASSES, classifier_activation=None
    )
    return _at_work(model, np.random.default_rng(1).uniform(0, 255, (rows, side, side, 3)))


def own(name: str, *, rows: int = 64) -> Built:
    """One of :data:`OWN`."""
    keras.utils.set_random_seed(sum(name.encode()))
    model = OWN[name]()
    shape = (rows, *model.inputs[0].shape[1:])
    generator = np.random.default_rng(1)
    if "int" in model.inputs[0].dtype:
        return _at_work(model, generator.integers(0, _WORDS, shape))
    return _at_work(model, generator.normal(size=shape))


def _at_work(model: Any, rows: np.ndarray) -> Built:
    """*model*, after what its first weights leave out (ones, zeros, 1e-6) has become random."""
    generator = np.random.default_rng(2)
    for layer in keras_hooks.layers_with_weights(model):
        for variable in layer.weights:
            if variable.name in ("gamma", "scale"):
                variable.assign(generator.uniform(0.5, 1.5, variable.shape))
            elif variable.name == "beta":
                variable.assign(0.2 * generator.normal(size=variable.shape))
    return Built(model, rows if rows.dtype.kind == "i" else rows.astype(np.float32))


# The six, small enough to be tried in seconds and wide enough to lose .4.

_WORDS, _LENGTH = 200, 24


def _block(x: Any, width: int, heads: int) -> Any:
    """A transformer's, normalised first."""
    inner = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(heads, width // heads)(inner, inner)
    inner = layers.Dense(3 * width, "gelu")(layers.LayerNormalization()(x))
    return x + layers.Dropout(0.1)(layers.Dense(width)(inner))


def _positions(places: Any, count: int, width: int) -> Any:
    """An embedding of the numbers of *places*, (batch, count)."""
    numbers = ops.cumsum(ops.ones_like(places), axis=1) - 1
    return layers.Embedding(count, width)(ops.cast(numbers, "int32"))


def _vision_transformer(width: int = 64) -> Any:
    inputs = keras.Input((32, 32, 3))
    patches = layers.Conv2D(width, 4, strides=4)(inputs)
    places = ops.reshape(inputs[:, ::4, ::4, 0], (-1, 64))
    x = layers.Reshape((64, width))(patches) + _positions(places, 64, width)
    for _ in range(3):
        x = _block(x, width, 8)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(_CLASSES)(x))


def _text_transformer(width: int = 64) -> Any:
    inputs = keras.Input((_LENGTH,), dtype="int32")
    x = layers.Embedding(_WORDS, width)(inputs) + _positions(inputs, _LENGTH, width)
    for _ in range(3):
        x = _block(x, width, 8)
    return keras.Model(inputs, layers.Dense(_WORDS)(layers.LayerNormalization()(x)))


def _convnext(width: int = 24) -> Any:
    inputs = keras.Input((32, 32, 3))
    x = layers.LayerNormalization()(layers.Conv2D(width, 4, strides=4)(inputs))
    for stage in range(3):
        if stage:
            width *= 2
            x = layers.Conv2D(width, 2, strides=2)(layers.LayerNormalization()(x))
        for _ in range(2):
            inner = layers.DepthwiseConv2D(7, padding="same")(x)
            inner = layers.Dense(4 * width, "gelu")(layers.LayerNormalization()(inner))
            inner = keras_hooks.LayerScale(0.5, width)(layers.Dense(width)(inner))
            x = x + keras_hooks.StochasticDepth(0.1)(inner)
    x = layers.LayerNormalization()(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(_CLASSES)(x))


def _convolutional_lstm() -> Any:
    inputs = keras.Input((5, 12, 12, 1))
    x = layers.ConvLSTM2D(24, 3, padding="same", return_sequences=True)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.ConvLSTM2D(32, 3, padding="same", return_sequences=True)(x)
    return keras.Model(inputs, layers.Conv3D(1, 3, padding="same")(x))


def _bidirectional_lstm() -> Any:
    inputs = keras.Input((_LENGTH,), dtype="int32")
    x = layers.Embedding(_WORDS, 64, mask_zero=True)(inputs)
    x = layers.Bidirectional(layers.LSTM(48, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(32))(x)
    return keras.Model(inputs, layers.Dense(_CLASSES)(layers.Dense(64, "relu")(x)))


def _resnext(width: int = 64) -> Any:
    inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(inputs)))
    for stage in range(3):
        for block in range(2):
            strides = 2 if stage and not block else 1
            inner = x
            for size, groups, step in ((1, 1, 1), (3, 8, strides)):
                inner = layers.Conv2D(
                    width, size, step, padding="same", groups=groups, use_bias=False
                )(inner)
                inner = layers.ReLU()(layers.BatchNormalization()(inner))
            inner = layers.BatchNormalization()(layers.Conv2D(2 * width, 1)(inner))
            if block == 0:
                x = layers.BatchNormalization()(layers.Conv2D(2 * width, 1, strides)(x))
            x = layers.ReLU()(layers.Add()([x, inner]))
        width *= 2
    return keras.Model(inputs, layers.Dense(_CLASSES)(layers.GlobalAveragePooling2D()(x)))


OWN: dict[str, Callable[[], Any]] = {
    "vision transformer": _vision_transformer,
    "text transformer": _text_transformer,
    "ConvNeXt": _convnext,
    "convolutional LSTM": _convolutional_lstm,
    "bidirectional LSTM": _bidirectional_lstm,
    "ResNeXt": _resnext,
}
