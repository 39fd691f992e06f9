"""The effect of apoptosis on each layer and function of Keras: a table that must be complete.

A release of Keras with a layer or a function that is not in it fails here, so that somebody says
what pruning does to it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from matex.apoptosis.graph.rules import rule_for
from matex.apoptosis.graph.rules.shapes import unknown
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.one_shot import prune

Make = Callable[[Any], Any]

WIDTH = 24


def _layer(kind: str, *args: Any, **kwargs: Any) -> Make:
    """A new layer of *kind*."""
    made: Make = getattr(layers, kind)(*args, **kwargs)
    return made


# How each is called on a tensor whose last axis are units: (batch, 24), or with places before them.
# CUT: it makes units of its own that can be removed, and so can those that it is given.
CUT: dict[str, tuple[int, Make]] = {
    "Dense": (1, layers.Dense(20, name="own")),
    "EinsumDense": (2, layers.EinsumDense("abc,cd->abd", (4, 20), name="own")),
    **{
        f"Conv{n}D": (n + 1, _layer(f"Conv{n}D", 20, 1, name="own"))
        for n in (1, 2, 3)
    },
    **{
        f"Conv{n}DTranspose": (
            n + 1, _layer(f"Conv{n}DTranspose", 20, 1, name="own")
        )
        for n in (1, 2, 3)
    },
    **{
        f"SeparableConv{n}D": (
            n + 1, _layer(f"SeparableConv{n}D", 20, 1, name="own")
        )
        for n in (1, 2)
    },
    "LSTM": (2, layers.LSTM(20, name="own")),
    "GRU": (2, layers.GRU(20, name="own")),
    "SimpleRNN": (2, layers.SimpleRNN(20, name="own")),
    "Bidirectional": (2, layers.Bidirectional(layers.LSTM(20), name="own")),
    "RNN": (2, layers.RNN(layers.LSTMCell(20), name="own")),
    "LSTMCell": (2, layers.RNN(layers.LSTMCell(20), name="own")),
    "GRUCell": (2, layers.RNN(layers.GRUCell(20), True, name="own")),
    "SimpleRNNCell": (2, layers.RNN(layers.SimpleRNNCell(20), name="own")),
    "StackedRNNCells": (
        2,
        layers.RNN(
            [layers.LSTMCell(20), layers.GRUCell(16), layers.SimpleRNNCell(12)], name="own"
        ),
    ),
    **{
        f"ConvLSTM{n}D": (
            n + 2, _layer(f"ConvLSTM{n}D", 20, 1, name="own")
        )
        for n in (1, 2, 3)
    },
    "TimeDistributed": (3, layers.TimeDistributed(layers.Dense(20, name="own"))),
    "MultiHeadAttention": (2, lambda x: layers.MultiHeadAttention(6, 4, name="own")(x, x)),
    "GroupedQueryAttention": (
        2, lambda x: layers.GroupQueryAttention(4, 6, 3, name="own")(x, x)
    ),
}  # fmt: skip

_POOLS = ("MaxPooling", "GlobalAveragePooling", "GlobalMaxPooling")

# FOLLOWED: it makes no units, and those that it is given can be removed.
FOLLOWED: dict[str, tuple[int, Make]] = {
    "Activation": (1, layers.Activation("gelu")),
    "ReLU": (1, layers.ReLU(6.0)),
    "LeakyReLU": (1, layers.LeakyReLU()),
    "ELU": (1, layers.ELU()),
    "PReLU": (1, layers.PReLU()),
    "Softmax": (2, layers.Softmax(axis=1)),
    "Dropout": (1, layers.Dropout(0.2)),
    "AlphaDropout": (1, layers.AlphaDropout(0.2)),
    "GaussianDropout": (1, layers.GaussianDropout(0.2)),
    "GaussianNoise": (1, layers.GaussianNoise(0.2)),
    "ActivityRegularization": (1, layers.ActivityRegularization(0.1)),
    "Identity": (1, layers.Identity()),
    "Rescaling": (1, layers.Rescaling(0.5)),
    "BatchNormalization": (1, layers.BatchNormalization()),
    "LayerNormalization": (1, layers.LayerNormalization()),
    "RMSNormalization": (1, layers.RMSNormalization()),
    "GroupNormalization": (1, layers.GroupNormalization(3)),
    "UnitNormalization": (2, layers.UnitNormalization(axis=1)),
    "Add": (1, lambda x: layers.Add()([x, layers.Dense(WIDTH)(x)])),
    "Subtract": (1, lambda x: layers.Subtract()([x, layers.Dense(WIDTH)(x)])),
    "Average": (1, lambda x: layers.Average()([x, layers.Dense(WIDTH)(x)])),
    "Maximum": (1, lambda x: layers.Maximum()([x, layers.Dense(WIDTH)(x)])),
    "Minimum": (1, lambda x: layers.Minimum()([x, layers.Dense(WIDTH)(x)])),
    "Multiply": (1, lambda x: layers.Multiply()([x, layers.Dense(WIDTH)(x)])),
    "Concatenate": (1, lambda x: layers.Concatenate()([x, layers.Dense(9)(x)])),
    "Dot": (2, lambda x: layers.Dot((1, 1))([layers.Softmax()(layers.Dense(3)(x)), x])),
    "Attention": (2, lambda x: layers.Attention()(_fixed_and(x))),
    "AdditiveAttention": (2, lambda x: layers.AdditiveAttention()(_fixed_and(x))),
    "Flatten": (2, layers.Flatten()),
    "Reshape": (2, layers.Reshape((2, 2, WIDTH))),
    "Permute": (2, layers.Permute((2, 1))),
    "RepeatVector": (1, layers.RepeatVector(3)),
    "Resizing": (3, layers.Resizing(3, 5)),
    "CenterCrop": (3, layers.CenterCrop(2, 3)),
    **{
        f"{kind}{n}D": (n + 1, _layer(f"{kind}{n}D"))
        for kind in (*_POOLS, "UpSampling", "ZeroPadding")
        for n in (1, 2, 3)
    },
    **{
        f"{kind}{n}D": (n + 1, _layer(f"{kind}{n}D", 2))
        for kind in ("AveragePooling", "AdaptiveAveragePooling", "AdaptiveMaxPooling")
        for n in (1, 2, 3)
    },
    **{
        f"Cropping{n}D": (n + 1, _layer(f"Cropping{n}D", 1))
        for n in (1, 2, 3)
    },
    **{
        f"SpatialDropout{n}D": (
            n + 1, _layer(f"SpatialDropout{n}D", 0.1)
        )
        for n in (1, 2, 3)
    },
    **{
        f"DepthwiseConv{n}D": (
            n + 1, _layer(f"DepthwiseConv{n}D", 1)
        )
        for n in (1, 2)
    },
}  # fmt: skip

# MADE: it is given indices, and makes units that can be removed.
MADE = {"Embedding", "ReversibleEmbedding"}

# BARRED: what it is given stays, and what it makes. Nobody knows what is inside, or its numbers are
# for each unit, or it is made for inputs of a model and not for units.
BARRED = {
    "AugMix", "AutoContrast", "CategoryEncoding", "ContrastLimitedAdaptiveHistogramEqualization",
    "CutMix", "Discretization", "Equalization", "FlaxLayer", "HashedCrossing", "Hashing",
    "InputLayer", "IntegerLookup", "JaxLayer", "Lambda", "Layer", "Masking", "MaxNumBoundingBoxes",
    "MelSpectrogram", "MixUp", "Normalization", "Pipeline", "RandAugment", "RandomBrightness",
    "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomCrop",
    "RandomElasticTransform", "RandomErasing", "RandomFlip", "RandomGaussianBlur",
    "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization",
    "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation",
    "RandomZoom", "STFTSpectrogram", "Solarization", "SpectralNormalization", "StringLookup",
    "TFSMLayer", "TextVectorization", "TorchModuleWrapper", "Wrapper",
}  # fmt: skip


def _fixed_and(x: Any) -> list[Any]:
    """Queries and keys that stay, and values that are *x*."""
    fixed = layers.Softmax()(layers.Dense(5)(x))
    return [fixed, x, fixed]


def _words(text: str) -> list[str]:
    return text.split()


# Functions of a tensor of units, or of units and others, that pass units on.
_UNARY = _words("""
    abs absolute arccos arccosh arcsin arcsinh arctan arctanh cast cbrt ceil celu copy cos cosh
    deg2rad elu erf erfc exp exp2 expm1 fabs floor gelu hard_shrink hard_sigmoid hard_silu
    hard_swish hard_tanh isfinite isinf isnan leaky_relu log log10 log1p log2
    log_sigmoid logical_not nan_to_num negative ones_like rad2deg reciprocal relu relu6 round
    rsqrt saturate_cast selu sigmoid sign signbit silu sin sinc sinh soft_shrink softplus
    softsign sparse_plus sparse_sigmoid sqrt square squareplus stop_gradient swish tan tanh
    tanh_shrink threshold trunc zeros_like
""")
_BINARY = _words("""
    add arctan2 divide divide_no_nan equal floor_divide fmax fmin fmod greater greater_equal
    heaviside hypot less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor
    maximum minimum mod multiply not_equal power subtract true_divide
""")
_REDUCING = _words("""
    all amax amin any argmax argmin count_nonzero logsumexp max mean median min nanmax nanmean
    nanmedian nanmin nanprod nanstd nansum nanvar norm prod ptp std sum var
""")
_ALONG = _words("""
    argsort cumprod cumsum log_softmax nancumprod nancumsum normalize roll softmax sort
    sparsemax
""")
_MORE: dict[str, tuple[Any, ...]] = {
    "cast": ("float32",),
    "saturate_cast": ("float32",),
    "roll": (1,),
    "threshold": (0.5, 0.0),
}

# Keras goes through all values of these one after the other, in Python.
_BY_ROW = {"nanmedian"}


def _above_one(x: Any) -> Any:
    return ops.arccosh(x + 1.0)


def _function(name: str, **kwargs: Any) -> Make:
    """A call of ``keras.ops.name``, whose result becomes numbers again."""
    return lambda x: ops.cast(getattr(ops, name)(x, *_MORE.get(name, ()), **kwargs), "float32")


def _of_two(name: str) -> Make:
    return lambda x: ops.cast(getattr(ops, name)(x, ops.relu(x)), "float32")


OPERATIONS: dict[str, tuple[int, Make]] = {
    **{n: (1, _function(n)) for n in _UNARY},
    **{n: (1, _of_two(n)) for n in _BINARY},
    **{n: (2, _function(n, axis=1)) for n in _REDUCING},
    **{n: (2, _function(n, axis=1)) for n in _ALONG},
    "arccosh": (1, _above_one),
    "clip": (1, lambda x: ops.clip(x, 0.0, 1.0)),
    "where": (1, lambda x: ops.where(x > 0, x, 0.5 * x)),
    "moments": (2, lambda x: ops.moments(x, axes=[1])[1]),
    "matmul": (2, lambda x: ops.matmul(ops.softmax(layers.Dense(4)(x)), x)),
    "einsum": (2, lambda x: ops.einsum("bqk,bkd->bqd", ops.softmax(layers.Dense(4)(x)), x)),
    "dot_product_attention": (2, lambda x: _by_heads(x, by_function=True)),
    "transpose": (2, lambda x: ops.transpose(x, (0, 2, 1))),
    "swapaxes": (2, lambda x: ops.swapaxes(x, 1, 2)),
    "moveaxis": (2, lambda x: ops.moveaxis(x, -1, 1)),
    "reshape": (2, lambda x: ops.reshape(x, (-1, 2, 2, WIDTH))),
    "expand_dims": (1, lambda x: ops.expand_dims(x, 1)),
    "squeeze": (1, lambda x: ops.squeeze(ops.expand_dims(x, 1), 1)),
    "flip": (1, lambda x: ops.flip(x, -1)),
    "fliplr": (1, ops.fliplr),
    "repeat": (1, lambda x: ops.repeat(x, 2, axis=1)),
    "tile": (1, lambda x: ops.tile(x, (1, 2))),
    "concatenate": (1, lambda x: ops.concatenate([x, layers.Dense(9)(x)], axis=-1)),
    "hstack": (1, lambda x: ops.hstack([x, layers.Dense(9)(x)])),
    "dstack": (2, lambda x: ops.dstack([x, layers.Dense(9)(x)])),
    "stack": (1, lambda x: ops.stack([x, layers.Dense(WIDTH)(x)], axis=1)),
    "unstack": (2, lambda x: ops.unstack(x, axis=1)[2]),
    "split": (1, lambda x: layers.Concatenate()(ops.split(x, [5, 13], axis=-1))),
    "array_split": (1, lambda x: ops.array_split(x, 3, axis=-1)[1]),
    "get_item": (2, lambda x: x[:, 1:, 4:17]),
    "glu": (1, ops.glu),
    "depth_to_space": (3, lambda x: ops.depth_to_space(x, 2)),
    "space_to_depth": (3, lambda x: ops.space_to_depth(x, 2)),
    "pad": (2, lambda x: ops.pad(x, ((0, 0), (1, 2), (0, 0)))),
    "average_pool": (3, lambda x: ops.average_pool(x, 2)),
    "max_pool": (3, lambda x: ops.max_pool(x, 2)),
    "resize": (3, lambda x: ops.image.resize(x, (3, 5))),
    "pad_images": (3, lambda x: ops.image.pad_images(x, 1, 1, 1, 1)),
    "crop_images": (3, lambda x: ops.image.crop_images(x, 1, 1, 1, 1)),
}

# A model is built, cut and proven in half a second, a function more in it in less than a tenth: so
# many simple ones are given the same units, all of which must go through each.
_AT_ONCE = 12


def _beside(table: dict[str, tuple[int, Make]], simple: list[str]) -> dict[str, tuple[str, ...]]:
    """Name → the names that share a model with it; they are called on as many places."""
    found = {}
    for count in (1, 2, 3, 4):
        names = [name for name in simple if table[name][0] == count]
        for start in range(0, len(names), _AT_ONCE):
            some = tuple(names[start : start + _AT_ONCE])
            found.update(dict.fromkeys(some, some))
    return found


_FUNCTIONS_BESIDE = _beside(
    OPERATIONS,
    [
        name
        for name in (*_UNARY, *_BINARY, *_REDUCING, *_ALONG)
        if hasattr(ops, name) and name not in _BY_ROW
    ],
)
# Units that are normalised in groups of eight go eight at a time.
_LAYERS_BESIDE = _beside(
    FOLLOWED,
    [
        name
        for name, (_, make) in FOLLOWED.items()
        if isinstance(make, layers.Layer) and name != "GroupNormalization"
    ],
)

# Functions at which units stay; or that take no tensor, or no symbolic one.
OTHER_FUNCTIONS = _words("""
    adaptive_average_pool adaptive_max_pool allclose angle append arange argpartition array
    associative_scan average bartlett
    batch_normalization binary_crossentropy bincount bitwise_and bitwise_invert
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman
    broadcast_to categorical_crossentropy cdist cholesky cholesky_inverse cond conj conjugate
    conv conv_transpose convert_to_numpy convert_to_tensor corrcoef correlate cross ctc_decode
    ctc_loss custom_gradient depthwise_conv det diag diagflat diagonal diff digitize dot dsplit
    dtype eig eigh empty empty_like erfinv extract_sequences eye fft fft2 flipud fold fori_loop
    full full_like gcd geomspace hamming hanning histogram hsplit i0 identity ifft2 imag in_top_k
    inner inv irfft is_tensor isclose isin isneginf isposinf isreal istft jvp kaiser kron
    layer_normalization lcm ldexp left_shift linspace logdet logspace lstsq lu_factor map
    matrix_rank meshgrid multi_hot nanargmax nanargmin nanpercentile nanquantile ndim nextafter
    nonzero one_hot ones outer percentile pinv polar psnr qr quantile ravel real rearrange rfft
    right_shift rms_normalization rot90 scan scatter scatter_update searchsorted segment_max
    segment_min segment_prod segment_sum select separable_conv shape size slice slice_update
    slogdet solve solve_triangular sparse_categorical_crossentropy stft svd switch take
    take_along_axis tensordot top_k trace trapezoid tri tril triu unfold unique unravel_index
    vander vdot vectorize vectorized_map view view_as_complex view_as_real vsplit vstack
    while_loop zeros
""")


def _by_heads(x: Any, *, by_function: bool) -> Any:
    """Attention as it is written by hand: four heads of six."""
    parts = [ops.reshape(layers.Dense(WIDTH)(x), (-1, x.shape[1], 4, 6)) for _ in range(3)]
    if by_function:
        return ops.reshape(ops.dot_product_attention(*parts), (-1, x.shape[1], WIDTH))
    query, key, value = (ops.transpose(part, (0, 2, 1, 3)) for part in parts)
    scores = ops.softmax(ops.matmul(query, ops.swapaxes(key, 2, 3)) / 2.0)
    heads = ops.transpose(ops.matmul(scores, value), (0, 2, 1, 3))
    return ops.reshape(heads, (-1, x.shape[1], WIDTH))


def _model(places: int, make: Make) -> tuple[Any, np.ndarray]:
    """A model with *make* between two layers; rows for it."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((*[4] * (places - 1), 6))
    x = layers.Dense(WIDTH, "sigmoid", name="before")(inputs)
    x = layers.Flatten()(make(x))
    model = keras.Model(inputs, layers.Dense(3, name="after")(x))
    generator = np.random.default_rng(1)
    for variable in model.weights:
        if variable.trainable:
            value = variable.numpy()
            variable.assign(value + 0.1 * generator.normal(size=value.shape))
    return model, generator.normal(size=(32, *inputs.shape[1:])).astype(np.float32)


def _removable(model: Any) -> set[str]:
    """The layers whose units can be removed."""
    net = trace(model)
    return {net.sources[i].layer.name for group in groups_of(net) for i in group.sources}


def _prune(model: Any, x: np.ndarray) -> None:
    """Something goes, all of it proves itself, and the model goes on."""
    outcome = prune(model, x, ratio=0.1)
    assert outcome.refused == () and outcome.gone >= 0.1
    again = keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_allclose(again(x), model(x), atol=1e-5)


@functools.cache
def _are_followed(names: tuple[str, ...]) -> bool:
    """Whether units go that all of these are given, and prove themselves in all results."""
    table = OPERATIONS if names[0] in OPERATIONS else FOLLOWED

    def results(x: Any) -> Any:
        return layers.Concatenate()([layers.Flatten()(table[name][1](x)) for name in names])

    try:
        model, x = _model(table[names[0]][0], results)
        assert _removable(model) == {"before"}
        _prune(model, x)
    except (AssertionError, ValueError):  # each by itself will tell whose it is
        return False
    return True


@pytest.mark.parametrize("name", sorted(CUT))
def test_layers_that_are_cut(name: str) -> None:
    model, x = _model(*CUT[name])
    assert {"before", "own"} <= _removable(model)
    _prune(model, x)


@pytest.mark.parametrize("name", sorted(FOLLOWED))
def test_layers_that_are_followed(name: str) -> None:
    if name in _LAYERS_BESIDE and _are_followed(_LAYERS_BESIDE[name]):
        return
    model, x = _model(*FOLLOWED[name])
    assert "before" in _removable(model)
    _prune(model, x)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_functions_that_are_followed(name: str) -> None:
    where = ops.image if name in ("resize", "pad_images", "crop_images") else ops
    if name != "get_item" and not hasattr(where, name):
        pytest.skip("a later Keras has it")
    if name in _FUNCTIONS_BESIDE and _are_followed(_FUNCTIONS_BESIDE[name]):
        return
    model, x = _model(*OPERATIONS[name])
    assert "before" in _removable(model)
    _prune(model, x[:2] if name in _BY_ROW else x)


@pytest.mark.parametrize("name", sorted(BARRED))
def test_layers_that_are_barred_have_no_rule(name: str) -> None:
    if kind := getattr(layers, name, None):
        assert rule_for(kind.__new__(kind)) is unknown


@pytest.mark.parametrize("tied", [True, False])
def test_an_embedding_that_also_scores_words_is_cut(tied: bool) -> None:
    kind = getattr(layers, "ReversibleEmbedding", None)
    if kind is None:
        pytest.skip("a later Keras has it")
    keras.utils.set_random_seed(2)
    inputs = keras.Input((5,), dtype="int32")
    words = kind(30, 24, tie_weights=tied, name="words")
    x = words(inputs)
    x = layers.LayerNormalization()(x + layers.Dense(24, name="inner")(layers.Dense(32)(x)))
    model = keras.Model(inputs, words(x, reverse=True))
    assert {"words", "inner"} <= _removable(model)
    _prune(model, np.random.default_rng(0).integers(0, 30, (64, 5)))


def test_heads_of_attention_by_hand_are_units() -> None:
    model, x = _model(2, lambda x: _by_heads(x, by_function=False))
    net = trace(model)
    assert sorted(group.width for group in groups_of(net)) == [4, 24]
    _prune(model, x)


def test_what_is_excluded_does_not_change_what_a_unit_is() -> None:
    """A checkpoint is replayed without the names that a fit excludes."""
    model, _ = _model(2, lambda x: _by_heads(x, by_function=False))
    net = trace(model)
    for name in sorted({source.layer.name for source in net.sources} - {"before", "after"}):
        other = trace(model, exclude=(name,))
        roots = [one.units.roots(source.units) for one in (net, other) for source in one.sources]
        for mine, its in zip(roots[: len(net.sources)], roots[len(net.sources) :], strict=True):
            assert len(np.unique(mine)) == len(np.unique(its))


def test_every_layer_of_keras_is_in_the_table() -> None:
    kinds = {
        kind.__name__
        for kind in vars(layers).values()
        if inspect.isclass(kind) and issubclass(kind, keras.layers.Layer)
    }
    assert kinds <= {*CUT, *FOLLOWED, *MADE, *BARRED}


def test_every_function_of_keras_is_in_the_table() -> None:
    names = {name for name, value in vars(ops).items() if inspect.isfunction(value)}
    assert names <= {*OPERATIONS, *OTHER_FUNCTIONS}
