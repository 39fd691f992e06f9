"""Random graphs of every kind of layer, for tests and for ci/pruning/graphs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers

from matex import keras_hooks

__all__ = ["ENDS", "IMAGES", "SEQUENCES", "build"]

Block = Callable[[Any, Any], Any]

# Each takes a tensor and something that gives the next width, and gives a tensor.


def residual(x: Any, width: Any) -> Any:
    inner = layers.Conv2D(width(), 3, padding="same", activation="relu")(x)
    inner = layers.BatchNormalization()(layers.Conv2D(x.shape[-1], 1)(inner))
    return layers.ReLU()(layers.Add()([x, inner]))


def gate(x: Any, width: Any) -> Any:
    squeezed = layers.Dense(width(), "gelu")(layers.GlobalAveragePooling2D()(x))
    opened = layers.Dense(x.shape[-1], "sigmoid")(squeezed)
    return layers.Multiply()([x, layers.Reshape((1, 1, x.shape[-1]))(opened)])


def shared(x: Any, width: Any) -> Any:
    one = layers.Conv2D(x.shape[-1], 3, padding="same", activation="tanh")
    return one(one(x)) + x


def nested(x: Any, width: Any) -> Any:
    inputs = keras.Input(x.shape[1:])
    inner = layers.Conv2D(width(), 2, activation="relu", padding="same")(inputs)
    model = keras.Model(inputs, layers.Conv2D(x.shape[-1], 1)(inner))
    return layers.Maximum()([model(x), model(layers.ReLU()(x))])


def self_attention(x: Any, width: Any) -> Any:
    attended = layers.MultiHeadAttention(4, 3)(x, x)
    return layers.Add()([x, attended])


def transformer(x: Any, width: Any) -> Any:
    x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 2)(x, x)]))
    return layers.Add()([x, layers.Dense(x.shape[-1])(layers.Dense(width(), "silu")(x))])


def both(make: Callable[[Any], Any], *, fixed_first: bool = False) -> Block:
    """One layer, called on units and on what must stay because of the layer that reads it."""

    def block(x: Any, width: Any) -> Any:
        layer = make(x.shape[-1])
        linear = layers.Dense(x.shape[-1])(x)
        fixed = layers.Softmax()(linear)
        calls = [fixed, x] if fixed_first else [x, fixed]
        return layers.Concatenate()([layer(tensor) for tensor in calls])

    return block


def attention_of_both(x: Any, width: Any) -> Any:
    fixed = layers.Softmax()(layers.Dense(x.shape[-1])(x))
    one, other = layers.MultiHeadAttention(4, 3), layers.MultiHeadAttention(3, 2)
    return layers.Concatenate()([one(fixed, x), one(x, fixed), other(x, x), other(fixed, fixed)])


def masked(x: Any, width: Any) -> Any:
    """Layers that are told which steps to leave out; a function ends it, which forgets that.

    Keras's Softmax refuses masks of steps, and other blocks have one.
    """
    mask = layers.Dense(1)(x)[..., 0] > 0
    recurrent = layers.Bidirectional(layers.LSTM(width(), return_sequences=True))
    x = layers.BatchNormalization()(recurrent(x, mask=mask), mask=mask)
    x = layers.TimeDistributed(layers.Dense(width(), "relu"))(x, mask=mask)
    x = layers.RNN(layers.GRUCell(width()), return_sequences=True)(x, mask=mask)
    return keras.ops.tanh(layers.LSTM(width(), return_sequences=True)(x, mask=mask))


def stepwise_model(x: Any, width: Any) -> Any:
    inputs = keras.Input((x.shape[-1],))
    hidden = layers.LayerNormalization()(layers.Dense(width(), "relu")(inputs))
    model = keras.Model(inputs, layers.Dense(width())(hidden))
    return layers.TimeDistributed(model)(x)


def einsum_of_heads(x: Any, width: Any) -> Any:
    """Projected to heads, and joined from them, as attention does it by hand."""
    x = layers.EinsumDense("abc,cde->abde", (7, 3, width()), bias_axes="de")(x)
    return layers.EinsumDense("abde,dec->abc", (7, width()), bias_axes="c")(layers.ReLU()(x))


def stepwise_of_both(x: Any, width: Any) -> Any:
    dense = layers.Dense(width(), "relu")
    return layers.Concatenate()([layers.TimeDistributed(dense)(x), dense(x)])


def convnext_block(x: Any, width: Any) -> Any:
    inner = layers.DepthwiseConv2D(3, padding="same")(x)
    inner = layers.LayerNormalization()(inner)
    inner = layers.Dense(x.shape[-1])(layers.Dense(width(), "gelu")(inner))
    inner = keras_hooks.LayerScale(0.5, x.shape[-1])(inner)
    return x + keras_hooks.StochasticDepth(0.1)(inner)


def averaged(x: Any, width: Any) -> Any:
    """A gate by functions of keras.ops instead of layers."""
    turned = keras.ops.transpose(layers.Resizing(6, 6)(x), (0, 2, 1, 3))
    means = keras.ops.mean(turned, axis=(1, -2), keepdims=True)
    return turned * keras.ops.sigmoid(means)


def frames(x: Any, width: Any) -> Any:
    """A picture as two frames, through layers for videos."""
    frame = layers.Reshape((1, *x.shape[1:]))(x)
    x = layers.Concatenate(axis=1)([frame, frame])
    x = layers.TimeDistributed(layers.Conv2D(width(), 1, activation="relu"))(x)
    x = layers.ConvLSTM2D(width(), 3, padding="same", return_sequences=True)(x)
    x = layers.TimeDistributed(layers.BatchNormalization())(x)
    return layers.ConvLSTM2D(width(), 1)(x)


def nested_of_both(x: Any, width: Any) -> Any:
    inputs = keras.Input(x.shape[1:])
    hidden = layers.Dense(width(), "relu")(inputs)
    return both(lambda _: keras.Model(inputs, layers.BatchNormalization()(hidden)))(x, width)


IMAGES: dict[str, Block] = {
    "convolution": lambda x, w: layers.Conv2D(w(), 3, padding="same", activation="relu")(x),
    "valid": lambda x, w: layers.ZeroPadding2D()(layers.Conv2D(w(), 3, activation="relu")(x)),
    "normalised": lambda x, w: layers.LeakyReLU()(
        layers.BatchNormalization()(layers.Conv2D(w(), 3, padding="same", use_bias=False)(x))
    ),
    "normalised-after": lambda x, w: layers.BatchNormalization()(
        layers.Conv2D(w(), 1, activation="relu")(x)
    ),
    "depthwise": lambda x, w: layers.DepthwiseConv2D(
        3, padding="same", depth_multiplier=2, activation="relu"
    )(x),
    "separable": lambda x, w: layers.SeparableConv2D(w(), 3, padding="same")(x),
    "grouped": lambda x, w: layers.Conv2D(2 * w(), 3, groups=2, padding="same")(
        layers.Conv2D(2 * w(), 1, activation="relu")(x)
    ),
    "transposed": lambda x, w: layers.Conv2DTranspose(w(), 3, padding="same")(x),
    "residual": residual,
    "gate": gate,
    "shared": shared,
    "nested": nested,
    "concatenation": lambda x, w: layers.Concatenate()(
        [x, layers.Conv2D(w(), 1, activation="elu")(x)]
    ),
    "parametric": lambda x, w: layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(w(), 1)(x)),
    "scaled": lambda x, w: layers.UpSampling2D()(layers.MaxPooling2D()(layers.Dropout(0.3)(x))),
    "one-group-normalised": lambda x, w: layers.GroupNormalization(1)(x),
    "groups-normalised": lambda x, w: layers.GroupNormalization(3)(layers.Conv2D(3 * w(), 1)(x)),
    "each-normalised": lambda x, w: layers.GroupNormalization(-1)(x),
    "rows-normalised": lambda x, w: layers.LayerNormalization(axis=[1, 2, 3])(x),
    "places-normalised": lambda x, w: layers.LayerNormalization(axis=[1, 2])(x),
    "layer-normalised": lambda x, w: layers.Add()([x, layers.LayerNormalization()(x)]),
    "both-layer-normalised": both(lambda n: layers.LayerNormalization(), fixed_first=True),
    "both-convolution": both(lambda n: layers.Conv2D(n, 3, padding="same", activation="relu")),
    "both-dense": both(lambda n: layers.Dense(n + 2, "relu"), fixed_first=True),
    "both-depthwise": both(lambda n: layers.DepthwiseConv2D(3, padding="same")),
    "both-normalised": both(lambda n: layers.BatchNormalization(), fixed_first=True),
    "both-parametric": both(lambda n: layers.PReLU(shared_axes=[1, 2])),
    "both-separable": both(lambda n: layers.SeparableConv2D(n + 1, 3), fixed_first=True),
    "both-transposed": both(lambda n: layers.Conv2DTranspose(n + 1, 3)),
    "both-nested": nested_of_both,
    "frames": frames,
    "convnext": convnext_block,
    "averaged": averaged,
    "permuted": lambda x, w: layers.Permute((2, 1, 3))(layers.AveragePooling2D(1)(x)),
}
SEQUENCES: dict[str, Block] = {
    "convolution": lambda x, w: layers.Conv1D(w(), 3, padding="causal", activation="relu")(x),
    "lstm": lambda x, w: layers.LSTM(w(), return_sequences=True)(x),
    "gru": lambda x, w: layers.GRU(w(), return_sequences=True)(x),
    "simple": lambda x, w: layers.SimpleRNN(w(), return_sequences=True)(x),
    "attention": self_attention,
    "transformer": transformer,
    "einsum": lambda x, w: layers.EinsumDense(
        "abc,cd->abd", (7, w()), bias_axes="d", activation="relu"
    )(x),
    "einsum-elided": lambda x, w: layers.EinsumDense("...c,dc->...d", w())(x),
    "einsum-heads": einsum_of_heads,
    "einsum-of-places": lambda x, w: layers.EinsumDense("abc,be->aec", (7, x.shape[-1]))(x),
    "bidirectional": lambda x, w: layers.Bidirectional(layers.LSTM(w(), return_sequences=True))(x),
    "summed": lambda x, w: layers.Bidirectional(
        layers.GRU(w(), return_sequences=True, reset_after=False), merge_mode="sum"
    )(x),
    "stepwise": lambda x, w: layers.TimeDistributed(layers.Dense(w(), "relu"))(x),
    "stepwise-model": stepwise_model,
    "both-stepwise": stepwise_of_both,
    "rms": lambda x, w: layers.RMSNormalization()(layers.Dense(w())(x)),
    "centered": lambda x, w: layers.LayerNormalization(scale=False)(layers.Dense(w())(x)),
    "scaled": lambda x, w: layers.LayerNormalization(center=False)(layers.Dense(w())(x)),
    "dense": lambda x, w: layers.Dense(w(), "tanh")(x),
    "masked": masked,
    "two": lambda x, w: layers.Concatenate()([layers.GRU(w(), return_sequences=True)(x), x]),
    "both-gru": both(lambda n: layers.GRU(n, return_sequences=True)),
    "both-lstm": both(lambda n: layers.LSTM(n + 1, return_sequences=True), fixed_first=True),
    "both-attention": attention_of_both,
    "separable": lambda x, w: layers.SeparableConv1D(w(), 3, padding="same")(x),
}
ENDS: dict[str, Block] = {
    "flat": lambda x, w: layers.Flatten()(x),
    "mean": lambda x, w: (
        layers.GlobalAveragePooling2D()(x) if len(x.shape) == 4 else layers.GlobalMaxPooling1D()(x)
    ),
    "reshaped": lambda x, w: layers.Dense(12, "relu")(
        layers.Flatten()(layers.Reshape((-1, x.shape[-1]))(x))
    ),
}


def build(
    kind: str, blocks: list[str], end: str, seed: int, *, wide: int = 1, ends: int = 1
) -> tuple[Any, Any]:
    """A model of *blocks*, with weights that are all at work, and a sample for it.

    Args:
        kind: ``images`` or ``sequences``.
        wide: factor of the layers' widths, which are some 11 units at 1.
        ends: number of inputs and of outputs, 1 or 2; the sample of 2 is a list of arrays.
    """
    keras.utils.set_random_seed(seed)
    generator = np.random.default_rng(seed)
    width: Any = lambda: wide * int(generator.integers(9, 14))  # noqa: E731
    sample: np.ndarray
    if kind == "images":
        inputs = keras.Input((6, 6, 2))
        x = layers.Conv2D(10 * wide, 3, padding="same", activation="relu")(inputs)
        sample = generator.normal(size=(40, 6, 6, 2)).astype(np.float32)
    else:
        inputs = keras.Input((7,), dtype="int32")
        x = layers.Embedding(20, 10 * wide)(inputs)
        sample = generator.integers(0, 20, size=(60, 7))
    for name in blocks:
        x = (IMAGES if kind == "images" else SEQUENCES)[name](x, width)
    x = ENDS[end](x, width)
    inside: Any = inputs
    rows: Any = sample
    if ends == 2:
        other = keras.Input((5,))
        x = layers.Concatenate()([x, layers.Dense(width(), "relu")(other)])
        inside = [inputs, other]
        rows = [sample, generator.normal(size=(len(sample), 5)).astype(np.float32)]
    x = layers.Dense(11 * wide, "relu")(x)
    outside: Any = layers.Dense(3)(x)
    if ends == 2:
        outside = [outside, layers.Dense(2)(layers.Dense(width(), "tanh")(x))]
    model = keras.Model(inside, outside)
    for variable in model.weights:
        value = variable.numpy()
        if "seed" in variable.path:
            continue
        noise = 0.3 * generator.normal(size=value.shape)
        variable.assign(value + (np.abs(noise) if "variance" in variable.path else noise))
    return model, rows
