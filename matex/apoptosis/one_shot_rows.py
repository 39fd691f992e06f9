"""Rows that ``matex prune`` uses: from a data file to the model's input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import matex.data
from matex import keras_hooks
from matex.apoptosis.graph.forward import REFUSALS, Forward
from matex.apoptosis.samples import Sample
from matex.errors import InputError
from matex.keras_hooks.error_text import reason_of

__all__ = ["must_be_finite", "must_have_loss", "rows_of"]

_NAMES = (("x_train", "y_train"), ("x", "y"))


def rows_of(path: Path, model: Any) -> tuple[Any, Any]:
    """``x`` and ``y`` of a data file, of the shapes that *model* takes.

    A model of several inputs gets a dict of the members that are named as they are, one of several
    outputs with a loss a list of those named as these. ``y`` is None where there is none.

    Raises:
        InputError: a member is missing, or its rows have another shape.
    """
    found = matex.data.open(path)
    functional = keras_hooks.functional_of(model)
    inputs, ends = functional.inputs, list(functional.output_names)
    x: Any
    y: Any
    names = [keras_hooks.input_name(tensor) for tensor in inputs]
    pair = next((pair for pair in _NAMES if pair[0] in found), None)
    if len(inputs) > 1:
        x = _named(path, found, names, "inputs")
        y = next((found[name] for _, name in _NAMES if name in found), None)
    elif pair is not None:
        x, y, names = found[pair[0]], found.get(pair[1]), [pair[0]]
    elif names[0] in found:
        x, y = found[names[0]], found.get(ends[0]) if len(ends) == 1 else None
    else:
        raise InputError(
            f"{path} must hold x_train and y_train, x and y, or {names[0]}, as the model's input "
            f"is named. Received: {', '.join(found)}"
        )
    if model.compiled and len(ends) > 1 and (y is not None or not found.keys().isdisjoint(ends)):
        y = list(_named(path, found, ends, "outputs").values())
    for name, tensor in zip(names, inputs, strict=True):
        _must_fit(path, name, tuple(found[name].shape), tuple(tensor.shape))
    return x, y


def _named(path: Path, found: Any, names: list[str], what: str) -> dict[str, Any]:
    """The members of *found* that are named as the model's inputs, or outputs, are."""
    if missing := [name for name in names if name not in found]:
        raise InputError(
            f"{path} must hold {', '.join(names)}, as the model's {what} are named. "
            f"Received: {', '.join(found)}, without {', '.join(missing)}"
        )
    return {name: found[name] for name in names}


def _must_fit(path: Path, name: str, given: tuple[int, ...], wanted: tuple[Any, ...]) -> None:
    if given[0] < 2:
        raise InputError(
            f"{path} must have rows of {name} to look at, and others to judge by. "
            f"Received: {given[0]}"
        )
    widened = (*given, 1) if len(given) == 1 else given
    fits = len(widened) == len(wanted) and all(
        n is None or n == m for n, m in zip(wanted[1:], widened[1:], strict=True)
    )
    if not fits:
        raise InputError(
            f"rows of {name} in {path} must have the shape {wanted[1:]}, as the model takes them. "
            f"Received: {given[1:]}"
        )


def must_have_loss(model: Any, sample: Sample) -> None:
    """Raise InputError where *model*'s loss cannot be computed of rows of *sample*."""
    for batch in sample.batches([(0, 1)]):
        try:
            Forward(model)(batch)
        except REFUSALS as error:
            shapes = [tuple(leaf.shape) for leaf in keras_hooks.flatten(batch[1])]
            raise InputError(
                "the loss that the model was compiled with must be one of the rows of y. "
                f"Received: y of the shape {', '.join(str(shape[1:]) for shape in shapes)} a row, "
                f"for which it says: {reason_of(error)}"
            ) from error


def must_be_finite(model: Any, samples: list[Sample]) -> None:
    """Raise InputError if a weight of *model* or a number in *samples* is NaN or infinite."""
    for layer in keras_hooks.layers_with_weights(model):
        for weight in layer.weights:
            if not _is_finite(np.asarray(weight.numpy())):
                raise InputError(
                    "weights must be finite to be compared. "
                    f"Received: NaN or infinity in {weight.path}; train the model anew"
                )
    for sample in samples:
        for batch in sample.batches([(0, sample.size)]):
            for part, leaves in zip(("x", "y"), batch, strict=False):
                for leaf in keras_hooks.flatten(leaves):
                    if not _is_finite(rows := np.asarray(leaf)):
                        wrong = int(np.sum(~np.isfinite(rows).reshape(len(rows), -1).all(1)))
                        raise InputError(
                            "rows must be finite to be looked at. Received: NaN or infinity in "
                            f"{wrong} of {len(rows)} rows of {part}; leave these rows out"
                        )


def _is_finite(values: np.ndarray) -> bool:
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())
