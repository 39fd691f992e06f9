"""Arguments of a call of a script's function, divided into batch and others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matex import keras_hooks
from matex.errors import NotShareable
from matex.fitting.loops.free_axes import Axes, Sizes, every_axis
from matex.keras_hooks.rows import sizes_of, values_of_row, with_free_axes
from matex.keras_hooks.tensors import shapes_of_dense
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.graphs.graph_inspection import one_for_all

__all__ = ["ArgumentForm", "ScriptArguments"]

_ROWS, _SCALAR, _FIXED = "rows", "scalar", "fixed"


class ArgumentForm(NamedTuple):
    """Form of calls whose arguments have equal shapes, dtypes and other values."""

    rows: int
    """Number of rows of the batch."""
    kinds: list[str]
    """What each leaf of the arguments is."""
    signature: tuple[Any, ...]
    """Signature of the batch, with a free first axis."""
    sizes: Sizes
    """Sizes of the tensors of the batch along their other axes."""
    kind: Any
    """Value that is equal for calls whose batches differ in sizes only."""
    as_data: Callable[[Any], Any]
    """Function from a batch to the arguments."""


class ScriptArguments:
    """Arguments of one call, of which the tensors with rows are the batch. Local.

    Tensors have rows if their first dimension equals that of the first tensor with dimensions. A
    tensor without dimensions is repeated for each row of the batch; an argument that is no tensor
    is part of the code, as for ``tf.function``.

    Args:
        args: positional arguments; NumPy arrays become tensors.
        kwargs: arguments by name.
        dtypes: dtypes of the leaves if the function was declared with them; None by default.
        known: forms of earlier calls, to which this one's is added; those of one function.

    ``form`` is the form that it shares with other calls.

    Raises:
        NotShareable: no argument has rows, or one can be neither divided nor compared.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        known: dict[Any, ArgumentForm],
        dtypes: Sequence[Any] | None = None,
    ) -> None:
        # To find the form takes as long as a small step.
        key = shapes_of_dense(args) if dtypes is None and not kwargs else None
        form = None if key is None else known.get(key)
        leaves = list(args) if form else keras_hooks.argument_leaves((args, kwargs), dtypes)
        self.form = form or _form_of((args, kwargs), leaves)
        self.tensors = _batch_of(leaves, self.form.kinds, self.form.rows)
        if key is not None:
            known[key] = self.form

    @property
    def capacity(self) -> SlotCapacity:
        """Capacity of slots that its rows need."""
        return SlotCapacity(self.form.rows, tuple(map(values_of_row, self.tensors)))

    def signature_with(self, free: Axes) -> tuple[Any, ...]:
        """Signature of the batch with open sizes along *free* axes."""
        return with_free_axes(self.form.signature, free)


def _form_of(structure: Any, leaves: list[Any]) -> ArgumentForm:
    sizes = [leaf.shape[0] for leaf in leaves if keras_hooks.is_tensor(leaf) and leaf.shape.rank]
    if not sizes:
        raise NotShareable("no argument of it is a batch")
    rows = int(sizes[0])
    kinds = [_kind_of(leaf, rows) for leaf in leaves]
    tensors = _batch_of(leaves, kinds, rows)
    fixed = [leaf for kind, leaf in zip(kinds, leaves, strict=True) if kind == _FIXED]
    form = keras_hooks.pack_arguments(structure, kinds)
    signature, others = keras_hooks.batch_spec(tuple(tensors)), sizes_of(tensors)
    open_sizes = with_free_axes(signature, every_axis(others))
    kind = rows, repr(open_sizes), repr(form), repr(fixed)
    as_data = functools.partial(_rebuilt, form, fixed)
    return ArgumentForm(rows, kinds, signature, others, kind, as_data)


def _batch_of(leaves: list[Any], kinds: list[str], rows: int) -> list[Any]:
    """Tensors with rows: those of *leaves*, and their scalars for each row."""
    return [
        leaf if kind == _ROWS else keras_hooks.repeated(leaf, rows)
        for kind, leaf in zip(kinds, leaves, strict=True)
        if kind != _FIXED
    ]


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
        raise NotShareable(f"its arguments are no batch: they have {rows} and {leaf.shape[0]} rows")
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
