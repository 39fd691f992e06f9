"""The table of rules by the class of a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import layers

from matex import keras_hooks
from matex.apoptosis.graph.network import Network, Tag
from matex.apoptosis.graph.rules import (
    attention,
    contraction,
    convolution,
    dense,
    einsum,
    normalization,
    operations,
    sequence,
    shapes,
)

__all__ = ["rule_for"]

Rule = Callable[[Network, Any, list[Tag | None]], list[Tag | None]]

_DIMENSIONS = ("1D", "2D", "3D")


def _each(name: str, rule: Rule) -> dict[type, Rule]:
    classes = (getattr(layers, name.format(d), None) for d in _DIMENSIONS)
    return {found: rule for found in classes if found is not None}


def _newer(name: str, rule: Rule) -> dict[type, Rule]:
    """Table with *rule* for a layer that only newer Keras releases have."""
    found = getattr(layers, name, None)
    return {} if found is None else {found: rule}


_RULES: dict[type, Rule] = {
    **_newer("ReversibleEmbedding", dense.reversible),
    layers.Dense: dense.dense,
    layers.EinsumDense: einsum.einsum_dense,
    layers.Embedding: dense.embedding,
    layers.BatchNormalization: normalization.batch_norm,
    layers.LayerNormalization: normalization.layer_norm,
    layers.RMSNormalization: normalization.layer_norm,
    layers.GroupNormalization: normalization.group_norm,
    layers.PReLU: dense.prelu,
    keras_hooks.LayerScale: dense.layer_scale,
    **_each("Conv{}", convolution.convolution),
    **_each("Conv{}Transpose", convolution.transposed),
    **_each("DepthwiseConv{}", convolution.depthwise),
    **_each("SeparableConv{}", convolution.separable),
    layers.LSTM: sequence.recurrent,
    layers.GRU: sequence.recurrent,
    layers.SimpleRNN: sequence.recurrent,
    layers.Bidirectional: sequence.bidirectional,
    **_each("ConvLSTM{}", sequence.convolutional),
    layers.RNN: sequence.of_cells,
    layers.MultiHeadAttention: attention.multi_head,
    layers.GroupQueryAttention: attention.grouped_query,
    layers.Attention: contraction.attention,
    layers.AdditiveAttention: contraction.additive_attention,
    layers.Dot: contraction.dot,
    **_each("MaxPooling{}", shapes.maximum),
    **_each("AveragePooling{}", shapes.average),
    **_each("GlobalMaxPooling{}", shapes.global_maximum),
    **_each("GlobalAveragePooling{}", shapes.global_average),
    **_each("AdaptiveAveragePooling{}", shapes.average),
    **_each("AdaptiveMaxPooling{}", shapes.maximum),
    **_each("ZeroPadding{}", shapes.average),
    **_each("Cropping{}", shapes.average),
    **_each("UpSampling{}", shapes.average),
    layers.Resizing: shapes.average,
    layers.CenterCrop: shapes.average,
    **_each("SpatialDropout{}", shapes.pass_on),
    **{
        kind: shapes.pass_on
        for kind in (
            layers.Dropout, layers.GaussianDropout, layers.GaussianNoise, layers.AlphaDropout,
            layers.ActivityRegularization, layers.Identity, layers.Rescaling,
            keras_hooks.StochasticDepth,
        )
    },
    **{
        kind: shapes.activation
        for kind in (layers.Activation, layers.ReLU, layers.LeakyReLU, layers.ELU)
    },
    layers.Softmax: shapes.softmax,
    layers.UnitNormalization: shapes.softmax,
    **{
        kind: shapes.merge_linear
        for kind in (
            layers.Add, layers.Subtract, layers.Average, layers.Maximum, layers.Minimum,
        )
    },
    layers.Multiply: shapes.merge_product,
    layers.Concatenate: shapes.concatenate,
    layers.Flatten: shapes.flatten,
    layers.Reshape: shapes.reshape,
    layers.Permute: shapes.permute,
    layers.RepeatVector: shapes.repeat_vector,
}  # fmt: skip


def rule_for(operation: Any) -> Rule:
    """The rule for the exact class of *operation*."""
    if keras_hooks.is_operation(operation):
        return operations.operation
    return _RULES.get(type(operation), shapes.unknown)
