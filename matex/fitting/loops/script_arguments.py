"""Arguments of a call of a script's function, divided into batch and others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matex import keras_hooks
from matex.errors import NotShareable
from matex.fitting.loops.free_axes import Axes, Sizes, every_axis
from matex.keras_hooks.rows import (
    in_pieces,
    out_of_pieces,
    sizes_of,
    values_of_row,
    with_free_axes,
)
from matex.keras_hooks.tensors import shapes_of_dense
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.graphs.graph_inspection import one_for_all

__all__ = ["ArgumentForm", "ScriptArguments"]

_VALUE, _FIXED = "value", "fixed"

_MOST_VALUES = 1024  # of a vector without rows, which is repeated for each row of the batch


class ArgumentForm(NamedTuple):
    """Form of calls whose arguments have equal shapes, dtypes and other values."""

    rows: int
    """Number of rows of the batch."""
    kinds: list[int | str]
    """What each leaf of the arguments is: its own rows for each row of the batch, or no rows."""
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

    The rows of the batch are as many as the largest common divisor of the tensors' first dimensions
    tells: of 30 inner points and 10 of a boundary, 10 rows of three and one. A vector has no rows
    beside matrices that have other numbers of them, like two weights of losses. It is repeated for
    each row of the batch, as a tensor without dimensions is; an argument that is no tensor is part
    of the code, as for ``tf.function``.

    Args:
        args: positional arguments; NumPy arrays become tensors.
        kwargs: arguments by name.
        dtypes: dtypes of the leaves if the function was declared with them; None by default.
        known: forms of earlier calls, to which this one's is added; those of one function.

    ``form`` is the form that it shares with other calls.

    Raises:
        NotShareable: no argument has rows, their numbers have no common divisor, or an argument can
            be neither divided nor compared.
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
    sizes = _sizes_of([leaf.shape for leaf in leaves if keras_hooks.is_tensor(leaf)])
    kinds = [_kind_of(leaf, sizes) for leaf in leaves]
    rows = math.gcd(*sizes)
    tensors = _batch_of(leaves, kinds, rows)
    fixed = [leaf for kind, leaf in zip(kinds, leaves, strict=True) if kind == _FIXED]
    form = keras_hooks.pack_arguments(structure, kinds)
    signature, others = keras_hooks.batch_spec(tuple(tensors)), sizes_of(tensors)
    open_sizes = with_free_axes(signature, every_axis(others))
    kind = rows, repr(open_sizes), repr(form), repr(fixed)
    as_data = functools.partial(_rebuilt, form, fixed)
    return ArgumentForm(rows, kinds, signature, others, kind, as_data)


def _sizes_of(shapes: list[Any]) -> list[int]:
    """The different numbers of rows of tensors of *shapes*, in their order."""
    several = [shape for shape in shapes if (shape.rank or 0) > 1]
    sizes = list(dict.fromkeys(int(shape[0]) for shape in several or shapes if shape.rank))
    if not sizes:
        raise NotShareable("no argument of it is a batch")
    if len(sizes) > 1 and (not several or not all(sizes) or math.gcd(*sizes) == 1):
        why = "without a common divisor" if several else "in vectors only"
        raise NotShareable(
            f"its arguments are no batch: they have {' and '.join(map(str, sizes))} rows, {why}"
        )
    return sizes


def _batch_of(leaves: list[Any], kinds: list[int | str], rows: int) -> list[Any]:
    """Tensors with rows: those of *leaves*, in pieces, and their other values for each row."""
    return [
        in_pieces(leaf, kind) if isinstance(kind, int) else keras_hooks.repeated(leaf, rows)
        for kind, leaf in zip(kinds, leaves, strict=True)
        if kind != _FIXED
    ]


def _kind_of(leaf: Any, sizes: list[int]) -> int | str:
    if not keras_hooks.is_tensor(leaf):
        if leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes):
            return _FIXED
        raise NotShareable(
            f"an argument of it is a {type(leaf).__name__}, neither tensor nor number"
        )
    if leaf.shape.rank and leaf.shape[0] in sizes:
        return int(leaf.shape[0]) // (math.gcd(*sizes) or 1)
    if leaf.shape.num_elements() > _MOST_VALUES:
        raise NotShareable(
            f"its arguments are no batch: they have {sizes[0]} and {leaf.shape[0]} rows"
        )
    return _VALUE


def _rebuilt(form: Any, fixed: list[Any], batch: Any) -> Any:
    """Arguments of the form *form*, with the tensors of *batch* and the *fixed* arguments."""
    tensors, others = iter(batch), iter(fixed)
    leaves = [
        next(others) if kind == _FIXED else _part(kind, next(tensors))
        for kind in keras_hooks.argument_leaves(form)
    ]
    return keras_hooks.pack_arguments(form, leaves)


def _part(kind: int | str, tensor: Any) -> Any:
    if not keras_hooks.is_tensor(tensor):  # a specification
        return tensor
    return out_of_pieces(tensor, kind) if isinstance(kind, int) else one_for_all(tensor)
