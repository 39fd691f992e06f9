"""LARS for Keras: a learning rate for each layer, for batches of many thousands.

You, Gitman, Ginsburg, arXiv:1708.03888. Imports Keras; LAMB is Keras's own.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

__all__ = ["LARS"]


@keras.saving.register_keras_serializable(package="matex")
class LARS(keras.optimizers.Optimizer):
    """SGD with momentum, where each layer's rate follows the ratio of weights to gradients.

    ``v = momentum * v - learning_rate * ratio * (g + l2 * w)``, ``w = w + v``, with
    ``ratio = trust * norm(w) / (norm(g) + l2 * norm(w))``, and 1 where a norm is 0.
    Vectors and scalars (biases, BatchNorm) have ratio 1 and no decay.

    Args:
        learning_rate: a number, a schedule or a callable, as elsewhere in Keras.
        momentum, trust, l2: numbers of the equations above.
        options: options of ``keras.optimizers.Optimizer``.
    """

    velocities_have_rate = True

    def __init__(
        self,
        learning_rate: Any = 1.0,
        *,
        momentum: float = 0.9,
        trust: float = 1e-3,
        l2: float = 1e-4,
        name: str = "lars",
        **options: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **options)
        self.momentum = momentum
        self.trust = trust
        self.l2 = l2

    def build(self, variables: Any) -> None:
        """One velocity a variable."""
        if self.built:
            return
        super().build(variables)
        self.momentums = [
            self.add_variable_from_reference(variable, name="momentum") for variable in variables
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Apply one layer's *gradient*."""
        rate = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        velocity = self.momentums[self._get_variable_index(variable)]
        if len(variable.shape) > 1:
            weights, slope = (
                ops.norm(ops.reshape(variable, [-1])),
                ops.norm(ops.reshape(gradient, [-1])),
            )
            known = ops.logical_and(weights > 0, slope > 0)
            divisor = ops.where(known, slope + self.l2 * weights, 1.0)
            rate *= ops.where(known, self.trust * weights / divisor, 1.0)
            gradient = gradient + self.l2 * variable
        self.assign(velocity, self.momentum * velocity - rate * gradient)
        self.assign_add(variable, velocity)

    def get_config(self) -> dict[str, Any]:
        """What :meth:`from_config` makes it of."""
        own = {"momentum": self.momentum, "trust": self.trust, "l2": self.l2}
        return {**super().get_config(), **own}
