"""The exchange through mpi4py: always available, called from the graph or directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matex.exchange.buffers import owned
from matex.exchange.graph_exchange import GraphExchange

__all__ = ["Mpi4pyExchange"]


class Mpi4pyExchange(GraphExchange):
    """An exchange whose graph operation is a function of NumPy arrays."""

    def in_graph(self, parts: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        shapes, dtype = self.layout.shapes, self.layout.dtype
        sums: list[Any] = tf.numpy_function(
            lambda *arrays: owned(self(*arrays)), parts, [dtype] * len(shapes)
        )
        for part, shape in zip(sums, shapes, strict=True):
            part.set_shape(shape)
        return sums

    def run(self, fused: Callable[[], Any]) -> Any:
        return fused()
