"""The kinds of activation: which act on each unit by itself, and which scale. Pure.

They are functions of Keras, known by their names, or layers of Keras, known by their classes.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ALONG_AN_AXIS",
    "ELEMENTWISE_OPS",
    "IN_SPACE",
    "LINEAR_OPS",
    "REDUCTIONS",
    "SCALING_OPS",
    "is_elementwise",
    "is_linear",
    "scales",
    "ties",
]

_SCALING = {"linear", "relu", "leaky_relu"}
_ELEMENTWISE = _SCALING | {
    "relu6", "elu", "selu", "celu", "gelu", "silu", "swish", "softplus", "softsign", "tanh",
    "sigmoid", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "exponential", "mish",
    "log_sigmoid", "tanh_shrink", "soft_shrink", "hard_shrink", "squareplus", "sparse_plus",
    "sparse_sigmoid", "threshold",
}  # fmt: skip
_TYING = {"softmax", "log_softmax", "sparsemax"}

# Layers: those that scale do so for some options.
_SCALING_LAYERS = {"LeakyReLU", "ReLU"}
_ELEMENTWISE_LAYERS = _SCALING_LAYERS | {"ELU"}

# Classes of keras.ops: of one tensor, or of several that broadcast.
LINEAR_OPS = {"Add", "Subtract", "Identity", "Copy", "Cast", "Negative", "StopGradient"}
SCALING_OPS = {"Relu", "LeakyRelu", "Maximum", "Minimum"}
ELEMENTWISE_OPS = (
    LINEAR_OPS
    | SCALING_OPS
    | {
        "Multiply", "Divide", "TrueDivide", "DivideNoNan", "FloorDivide", "Mod", "Fmod", "Power",
        "Fmax", "Fmin", "Arctan2", "Hypot", "Logaddexp", "Logaddexp2", "Where", "Clip", "Heaviside",
        "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual",
        "LogicalAnd", "LogicalOr", "LogicalXor", "LogicalNot",
        "Absolute", "Abs", "Fabs", "Square", "Sqrt", "Rsqrt", "Cbrt", "Reciprocal", "Sign",
        "Signbit", "Exp", "Exp2", "Expm1", "Log", "Log10", "Log1p", "Log2", "Erf", "Erfc",
        "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Arcsin", "Arccos", "Arctan", "Arcsinh",
        "Arccosh", "Arctanh", "Sinc", "Deg2rad", "Rad2deg", "Ceil", "Floor", "Round", "Trunc",
        "Isfinite", "Isinf", "Isnan", "NanToNum", "OnesLike", "ZerosLike", "SaturateCast",
        "Sigmoid", "SparseSigmoid", "Silu", "Gelu", "Elu", "Selu", "Celu", "Relu6", "Softplus",
        "Softsign", "SoftShrink", "HardShrink", "TanhShrink", "Threshold", "Squareplus",
        "SparsePlus", "HardSigmoid", "HardSilu", "HardTanh", "Mish", "LogSigmoid",
    }
)  # fmt: skip

# That bring an axis, or several, down to one number each.
REDUCTIONS = {
    "All", "Amax", "Amin", "Any", "Argmax", "Argmin", "CountNonzero", "Logsumexp", "Max", "Mean",
    "Median", "Min", "Moments", "Nanmax", "Nanmean", "Nanmedian", "Nanmin", "Nanprod", "Nanstd",
    "Nansum", "Nanvar", "Norm", "Prod", "Ptp", "Std", "Sum", "Var",
}  # fmt: skip

# Functions that mix values along axes and keep the shape.
ALONG_AN_AXIS = {
    "Argsort", "Cumprod", "Cumsum", "LogSoftmax", "Nancumprod", "Nancumsum", "Normalize", "Roll",
    "Softmax", "Sort", "Sparsemax",
}  # fmt: skip

# Of pictures, that treat each channel by itself.
IN_SPACE = {"AveragePool", "CropImages", "MaxPool", "PadImages", "Resize"}


def _name(activation: Any) -> str:
    return getattr(activation, "__name__", type(activation).__name__)


def _held(activation: Any) -> tuple[str, Any]:
    """Name of an activation of Keras, "" for others, and the activation; that which a layer holds.

    None is linear.
    """
    while activation is not None and _is_own(activation) and _name(activation) == "Activation":
        activation = activation.activation
    if activation is None:
        return "linear", None
    return _name(activation) if _is_own(activation) else "", activation


def _is_own(activation: Any) -> bool:
    return bool(getattr(activation, "__module__", "").startswith("keras."))


def is_linear(activation: Any) -> bool:
    """Whether *activation* (a function, a layer, or None) is the identity."""
    return _held(activation)[0] == "linear"


def scales(activation: Any) -> bool:
    """Whether phi(c x) = c phi(x) for c > 0."""
    name, held = _held(activation)
    if name not in _SCALING_LAYERS:
        return name in _SCALING
    is_bounded = getattr(held, "max_value", None) is not None
    return not is_bounded and not getattr(held, "threshold", None)


def is_elementwise(activation: Any) -> bool:
    """Whether each value is known to depend on its own input alone, unlike with softmax."""
    return _held(activation)[0] in _ELEMENTWISE | _ELEMENTWISE_LAYERS


def ties(activation: Any) -> bool:
    """Whether values along the last axis are known to depend on each other, as with softmax."""
    name, held = _held(activation)
    return name in _TYING or (name == "Softmax" and held.axis == -1)
