"""LARS for Keras: a layer-wise learning rate, for batches of many thousand rows.

You, Gitman, Ginsburg, arXiv:1708.03888. Imports Keras; Keras itself has LAMB.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

__all__ = ["LARS"]


@keras.saving.register_keras_serializable(package="matex")
class LARS(keras.optimizers.Optimizer):
    """SGD with momentum, whose rate per layer follows the ratio of weight and gradient norms.

    You, Gitman and Ginsburg, arXiv:1708.03888.

    ``v = momentum * v - learning_rate * ratio * (g + l2 * w)``, ``w = w + v``, with
    ``ratio = trust * norm(w) / (norm(g) + l2 * norm(w))``, and 1 where a norm is 0.
    Vectors and scalars (biases, BatchNorm) have ratio 1 and no weight decay.

    Args:
        learning_rate: number, schedule or callable, as elsewhere in Keras; 1 by default.
        momentum, trust, l2: coefficients of the equations above; 0.9, 0.001 and 0.0001 by default.
        name: name of the optimizer, "lars" by default.
        options: further arguments of ``keras.optimizers.Optimizer``.

    Example:
        >>> optimizer = matex.optimizers.LARS(0.5, momentum=0.0, trust=0.01, l2=0.0)
        >>> kernel = keras.Variable(np.ones((2, 2)))  # norm 2
        >>> optimizer.build([kernel])
        >>> optimizer.apply([np.full((2, 2), 4.0)])  # norm 8: the ratio is 0.01 * 2 / 8
        >>> float(kernel.numpy()[0, 0])
        0.995...
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
        """Create one velocity per variable.

        Args:
            variables: list of ``keras.Variable``.
        """
        if self.built:
            return
        super().build(variables)
        self.momentums = [
            self.add_variable_from_reference(variable, name="momentum") for variable in variables
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Apply the gradient of one variable; Keras calls it.

        Args:
            gradient: tensor of the variable's shape.
            variable: ``keras.Variable`` to change.
            learning_rate: scalar tensor.
        """
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
        """Arguments for :meth:`from_config`.

        Returns:
            Arguments of the constructor, by name.
        """
        own = {"momentum": self.momentum, "trust": self.trust, "l2": self.l2}
        return {**super().get_config(), **own}
