"""The proof of a cut without data: every call of every layer fits, and so do the options.

Outputs on rows do not show the model's behaviour in training or when rebuilt from its file: a
number of units that an option of a layer still holds is found here first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.apoptosis.graph.forward import FAILURES
from matex.errors import Unsupported

__all__ = ["Shapes"]


class Shapes:
    """Calls and options of *model* before a cut, which are known to fit; local.

    A call that fails already tells nothing about the cut: an operation that cannot be called
    without values, a class whose objects cannot be rebuilt. It is not checked afterwards.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        with keras_hooks.generators_kept():
            self._calls = [not _misfit(call) for call in keras_hooks.all_calls_in(model)]
            self._made_again = keras_hooks.is_graph(model) and not self._difference()

    def complaint(self) -> str:
        """Description of the current model's first fault; "" if it has none. Local."""
        with keras_hooks.generators_kept():
            try:  # the calls of a subclassed model are found by making them
                calls = list(keras_hooks.all_calls_in(self._model))
            except Unsupported:
                return "the model's call fails"
            if len(calls) != len(self._calls):
                return "the model makes other calls of its layers"
            for call, did_fit in zip(calls, self._calls, strict=True):
                if did_fit and (wrong := _misfit(call)):
                    return wrong
            return self._difference() if self._made_again else ""

    def _difference(self) -> str:
        def found() -> str:
            again = keras_hooks.made_again(self._model)
            for one, (path, shape) in zip(self._model.weights, again, strict=True):
                if tuple(one.shape) != shape:
                    return f"{path} has the shape {shape} by the options of its layer"
            return ""

        return _attempted(found, "the model cannot be made again from its options")


def _misfit(call: keras_hooks.GraphCall) -> str:
    """Description of the fault of *call*; "" if it has none."""
    name = call.operation.name

    def found() -> str:
        shapes = keras_hooks.shapes_in_training(call)
        wanted = [tuple(tensor.shape) for tensor in call.outputs]
        return "" if shapes == wanted else f"{name} gives the shapes {shapes} instead of {wanted}"

    return _attempted(found, f"{name} fails")


def _attempted(found: Callable[[], str], failure: str) -> str:
    try:
        return found()
    except FAILURES as error:
        return f"{failure} ({type(error).__name__})"
