"""Layers of Keras's own applications that it does not export."""

from keras.src.applications.convnext import LayerScale, StochasticDepth

__all__ = ["LayerScale", "StochasticDepth"]
