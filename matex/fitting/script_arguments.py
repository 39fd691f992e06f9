"""Arguments of a call of a script's function, divided into batch and others."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.fitting.free_axes import Axes, every_axis
from matex.keras_hooks.rows import sizes_of, values_of_row, with_free_axes
from matex.partition.room import Room
from matex.steps.graph_inspection import one_for_all

__all__ = ["ScriptArguments"]

_ROWS, _SCALAR, _FIXED = "rows", "scalar", "fixed"


class ScriptArguments:
    """Arguments of one call, of which the tensors with rows are the batch. Local.

    Tensors have rows if their first dimension equals that of the first tensor with dimensions. A
    tensor without dimensions is repeated for each row of the batch; an argument that is no tensor
    is part of the code, as for ``tf.function``.

    Args:
        args: positional arguments; NumPy arrays become tensors.
        kwargs: arguments by name.
        dtypes: dtypes of the leaves if the function was declared with them; None by default.

    ``kind`` is equal for calls whose batches differ in sizes only.

    Raises:
        NotShareable: no argument has rows, or one can be neither divided nor compared.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        dtypes: Sequence[Any] | None = None,
    ) -> None:
        structure = args, kwargs
        leaves = keras_hooks.argument_leaves(structure, dtypes)
        sizes = [
            leaf.shape[0] for leaf in leaves if keras_hooks.is_tensor(leaf) and leaf.shape.rank
        ]
        if not sizes:
            raise NotShareable("no argument of it is a batch")
        self.rows = int(sizes[0])
        kinds = [_kind_of(leaf, self.rows) for leaf in leaves]
        self.tensors = [
            leaf if kind == _ROWS else keras_hooks.repeated(leaf, self.rows)
            for kind, leaf in zip(kinds, leaves, strict=True)
            if kind != _FIXED
        ]
        fixed = [leaf for kind, leaf in zip(kinds, leaves, strict=True) if kind == _FIXED]
        form = keras_hooks.pack_arguments(structure, kinds)
        self.signature = keras_hooks.batch_spec(tuple(self.tensors))
        self.sizes = sizes_of(self.tensors)
        open_sizes = self.signature_with(every_axis(self.sizes))
        self.kind = self.rows, repr(open_sizes), repr(form), repr(fixed)
        self.as_data = functools.partial(_rebuilt, form, fixed)

    @property
    def room(self) -> Room:
        """Room that slots for its rows need."""
        return Room(self.rows, tuple(map(values_of_row, self.tensors)))

    def signature_with(self, free: Axes) -> tuple[Any, ...]:
        """Signature of the batch with open sizes along *free* axes."""
        return with_free_axes(self.signature, free)


def _kind_of(leaf: Any, rows: int) -> str:
    if not keras_hooks.is_tensor(leaf):
        if leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes):
            return _FIXED
        raise NotShareable(
            f"an argument of it is a {type(leaf).__name__}, neither tensor nor number"
        )
    if not leaf.shape.rank:
        return _SCALAR
    if leaf.shape[0] != rows:
        raise NotShareable(
            f"its arguments have {rows} rows. Received: a tensor of shape {tuple(leaf.shape)}"
        )
    return _ROWS


def _rebuilt(form: Any, fixed: list[Any], batch: Any) -> Any:
    """Arguments of the form *form*, with the tensors of *batch* and the *fixed* arguments."""
    tensors, others = iter(batch), iter(fixed)
    leaves = [
        next(others) if kind == _FIXED else _part(kind, next(tensors))
        for kind in keras_hooks.argument_leaves(form)
    ]
    return keras_hooks.pack_arguments(form, leaves)


def _part(kind: str, tensor: Any) -> Any:
    is_one = kind == _SCALAR and keras_hooks.is_tensor(tensor)  # and no specification
    return one_for_all(tensor) if is_one else tensor
