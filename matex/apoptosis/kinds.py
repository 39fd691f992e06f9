"""The kinds of activation: which act on each unit by itself, and which scale. Pure."""

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
]

_SCALING = {"linear", "relu", "leaky_relu"}
_ELEMENTWISE = _SCALING | {
    "relu6", "elu", "selu", "celu", "gelu", "silu", "swish", "softplus", "softsign", "tanh",
    "sigmoid", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "exponential", "mish",
    "log_sigmoid", "tanh_shrink", "soft_shrink", "hard_shrink", "squareplus", "sparse_plus",
    "threshold",
}  # fmt: skip

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


def is_linear(activation: Any) -> bool:
    """Whether *activation* (a function, or None) is the identity."""
    return activation is None or _name(activation) == "linear"


def scales(activation: Any) -> bool:
    """Whether phi(c x) = c phi(x) for c > 0."""
    return activation is None or _name(activation) in _SCALING


def is_elementwise(activation: Any) -> bool:
    """Whether each value depends on its own input alone, unlike with softmax."""
    own = getattr(activation, "__module__", "").startswith("keras.")
    return activation is None or (own and _name(activation) in _ELEMENTWISE)
