"""Sums, rows and copies over the ranks, for work that a script shares itself.

For scripts written for Horovod; training does not need them. Each is collective: every living rank
must call it, in the same order. They recover by themselves when ranks die; a dead rank's
contribution is then missing from the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ft
from matex.errors import InputError, Unsupported
from matex.exchange import sums

__all__ = ["allgather", "allreduce", "broadcast"]

_OPERATIONS = ("average", "sum")


def allreduce(value: Any, op: str = "average") -> Any:
    """Compute the mean or sum of a value over the living ranks. Collective.

    In a ``tf.function`` it runs whenever the function does.

    Args:
        value: tensor or array-like of numbers, of equal shape and dtype on all ranks;
            float16 and bfloat16 are summed as float32.
        op: "average", the default, or "sum"; averages of whole numbers are rounded to them.

    Returns:
        Tensor of the same shape and dtype, equal on all ranks; *value* outside a run.

    Raises:
        InputError: another *op*, no numbers, or, on every rank, another shape or dtype on some.
        Unsupported: called in a callback that only one rank runs.

    Example:
        >>> matex.allreduce(np.array([1.0, 2.0]), op="sum").numpy().tolist()  # on two ranks
        [2.0, 4.0]
    """
    if op not in _OPERATIONS:
        raise InputError(f"op must be one of {', '.join(_OPERATIONS)}. Received: op={op!r}")

    def reduce(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.bool_:
            raise InputError("allreduce wants numbers. Received: dtype=bool")
        wide = array.astype(_summed_as(array))
        total, count = _sum(np.ascontiguousarray(wide).reshape(-1), _form(array, array.shape))
        if op == "average":
            total = total / count if _is_float(wide) else np.rint(total / count)
        return np.asarray(total.reshape(array.shape).astype(array.dtype))

    return _run(reduce, value, same_shape=True)


def allgather(value: Any) -> Any:
    """Join the values of all living ranks along the first axis, in order of ranks. Collective.

    Args:
        value: tensor or array-like of numbers, with at least one axis; the first may
            have another length on each rank.

    Returns:
        Tensor of the same dtype, equal on all ranks; *value* outside a run.

    Raises:
        InputError: a scalar; or, on every rank, other further axes or another dtype on some.
        Unsupported: called in a callback that only one rank runs.

    Example:
        >>> matex.allgather(np.full(matex.rank() + 1, matex.rank())).numpy().tolist()
        [0, 1, 1]
    """

    def gather(array: np.ndarray) -> np.ndarray:
        if not array.ndim:
            raise InputError("allgather wants at least one axis. Received: a scalar")
        communicator = _communicator("allgather", _form(array, ("any", *array.shape[1:])))
        if communicator is None:
            return array
        longest = int(communicator.allgather(np.array([len(array)], np.int64)).rows.max())
        padded = np.zeros((longest, *array.shape[1:]), array.dtype)
        padded[: len(array)] = array
        # Lengths travel with the rows: a rank may have died in between.
        row = np.concatenate([_bytes(np.array([len(array)], np.int64)), _bytes(padded)])
        parts = []
        for line in communicator.allgather(row).rows:
            length = int(line[:8].view(np.int64)[0])
            part = np.frombuffer(line[8:].tobytes(), array.dtype).reshape(padded.shape)
            parts.append(part[:length])
        return np.concatenate(parts)

    return _run(gather, value, same_shape=False)


def broadcast(value: Any, root_rank: int | None = None) -> Any:
    """Copy the value of one rank to all of them. Collective.

    Args:
        value: tensor or array-like of numbers, of equal shape and dtype on all ranks.
        root_rank: original rank whose value is copied; the first living one by default.

    Returns:
        Tensor of the same shape and dtype, equal on all ranks; *value* outside a run.

    Raises:
        InputError: on every rank; *root_rank* is not alive, or shapes or dtypes differ.
        Unsupported: called in a callback that only one rank runs.

    Example:
        >>> matex.broadcast(np.array([matex.rank()]), root_rank=1).numpy().tolist()
        [1]
    """

    def copy(array: np.ndarray) -> np.ndarray:
        communicator = _communicator("broadcast", _form(array, array.shape))
        if communicator is None:
            return array
        gathered = communicator.allgather(_bytes(array))
        root = gathered.ranks[0] if root_rank is None else root_rank
        if root not in gathered.ranks:
            living = ", ".join(map(str, gathered.ranks))
            raise InputError(f"root_rank must be alive, one of {living}. Received: {root_rank}")
        return np.frombuffer(gathered[root].tobytes(), array.dtype).reshape(array.shape)

    return _run(copy, value, same_shape=True)


def _communicator(call: str, form: str) -> ft.Communicator | None:
    """Communicator of the run, on which all ranks begin *call*; None outside of a run.

    Args:
        form: dtype and shape of the value, which must be equal on all ranks.

    Raises:
        InputError: on every rank; calls or forms differ.
        Unsupported: called in a callback that only one rank runs.
    """
    from matex import session

    if session.current is None:
        return None
    if session.current.is_alone:
        raise Unsupported(
            "a collective must be called by all ranks. Received: a call from a callback that one "
            "rank runs; do not give its class the attribute on_one_rank"
        )
    run = session.current.run
    run.calls.begin(f"matex.{call} of {form}")
    return run.communicator


def _form(array: np.ndarray, shape: tuple[int | str, ...]) -> str:
    return f"{array.dtype.name} ({', '.join(map(str, shape))})"


def _sum(flat: np.ndarray, form: str) -> tuple[np.ndarray, int]:
    """Sum over the participating ranks, and their number."""
    communicator = _communicator("allreduce", form)
    if communicator is None:
        return flat, 1
    total = sums.over_members(communicator, np.append(flat, flat.dtype.type(1)))
    return total[:-1], int(total[-1])


def _run(collective: Callable[[np.ndarray], np.ndarray], value: Any, *, same_shape: bool) -> Any:
    """*collective* on the array of *value*, now or whenever the graph being traced runs."""
    from matex import keras_hooks

    tensor = keras_hooks.tensor_of(value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool):
        raise InputError(f"a collective wants numbers. Received: dtype={tensor.dtype.name}")
    if keras_hooks.is_eager():
        return keras_hooks.constant(collective(tensor.numpy()))
    result = keras_hooks.exchange_in_graph(collective, [tensor], tensor.dtype)
    result.set_shape(tensor.shape if same_shape else [None, *tensor.shape[1:]])
    return result


def _summed_as(array: np.ndarray) -> Any:
    """A dtype that holds sums of *array*, and the number of ranks."""
    if _is_float(array):
        return np.float32 if array.itemsize < 4 else array.dtype
    return np.int64 if array.itemsize < 8 else array.dtype


def _is_float(array: np.ndarray) -> bool:
    return not np.issubdtype(array.dtype, np.integer) and array.dtype != np.bool_


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(array.tobytes(), np.uint8)
