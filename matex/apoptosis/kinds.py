"""The kinds of activation: which act on each unit by itself, and which scale. Pure."""

from __future__ import annotations

from typing import Any

__all__ = ["ELEMENTWISE_OPS", "LINEAR_OPS", "SCALING_OPS", "is_elementwise", "is_linear", "scales"]

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
        "Multiply", "Divide", "TrueDivide", "Absolute", "Abs", "Square", "Sqrt", "Exp", "Tanh",
        "Sigmoid", "Silu", "Gelu", "Elu", "Selu", "Celu", "Relu6", "Softplus", "Softsign",
        "HardSigmoid", "HardSilu", "HardTanh", "Mish", "LogSigmoid", "Clip", "Power",
    }
)  # fmt: skip


def _name(activation: Any) -> str:
    return getattr(activation, "__name__", type(activation).__name__)


def is_linear(activation: Any) -> bool:
    """Whether *activation* (a function, or None) leaves values as they are."""
    return activation is None or _name(activation) == "linear"


def scales(activation: Any) -> bool:
    """Whether phi(c x) = c phi(x) for c > 0."""
    return activation is None or _name(activation) in _SCALING


def is_elementwise(activation: Any) -> bool:
    """Whether each value depends on its own input alone; softmax, for one, does not."""
    own = getattr(activation, "__module__", "").startswith("keras.")
    return activation is None or (own and _name(activation) in _ELEMENTWISE)
