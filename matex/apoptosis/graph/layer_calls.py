"""Replacement of the ``call`` of single layers, for as long as something is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["Call", "calls_replaced"]

Call = Callable[..., Any]


@contextlib.contextmanager
def calls_replaced(layers: Iterable[Any], made: Callable[[Any, Call], Call]) -> Iterator[None]:
    """Context in which each layer's ``call`` is another function. Local.

    Args:
        layers: layers, some perhaps several times.
        made: function of a layer and its ``call`` that returns the other function.
    """
    each = {id(layer): layer for layer in layers}
    for layer in each.values():
        object.__setattr__(layer, "call", made(layer, layer.call))
    try:
        yield
    finally:
        for layer in each.values():
            object.__delattr__(layer, "call")
