"""The state of a model as named arrays: to broadcast, to hash, to save and to restore."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import checkpoints
import ft
from matex import keras_hooks
from matex.checkpointing.buffer_pool import BufferPool
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.errors import InputError

__all__ = [
    "ARCHIVE",
    "architecture_of",
    "broadcast",
    "broadcast_all",
    "hold",
    "matched",
    "nbytes_of",
    "restore",
    "restore_metrics",
    "size_of",
    "slots_of",
    "state_hash",
    "variables_of",
    "weights_hash",
    "weights_of",
]


#: The name in ``extra`` by which weights rounded for an archive are known.
ARCHIVE = "archive"
# The names in ``extra`` of the states of a model's draws, and of Keras's global generator.
_NOISE, _GLOBAL_NOISE = "noise", "global_noise"


def weights_of(model: Any) -> list[Any]:
    """Everything that is neither metric nor optimizer: weights, statistics, random seeds."""
    metrics = {id(v) for v in keras_hooks.metric_variables(model)}
    return [v for v in model.variables if id(v) not in metrics]


def slots_of(model: Any) -> list[Any]:
    """Variables of the optimizers of *model*: its own, then those among its attributes."""
    every = [v for one in keras_hooks.optimizers_of(model) for v in one.variables]
    return list({id(variable): variable for variable in every}.values())


def variables_of(model: Any) -> list[Any]:
    """The weights and the optimizer state of *model*."""
    return [*weights_of(model), *slots_of(model)]


def nbytes_of(model: Any) -> int:
    """Bytes of weights and optimizer state; local."""
    return sum(map(size_of, variables_of(model)))


def size_of(variable: Any) -> int:
    """Bytes of the variable's value; local."""
    return int(math.prod(variable.shape) * variable.value.dtype.size)


def broadcast(
    communicator: ft.Communicator, model: Any, *, sources: Sequence[int] = ()
) -> list[str]:
    """Give every rank the leader's weights, optimizer state and noise state; collective.

    Args:
        sources: ranks whose state replaces the leader's: the first living one is used.

    Returns:
        The names of the variables that held something else on this rank.
    """
    variables = [*variables_of(model), keras_hooks.noise_state(model)]
    return broadcast_all(communicator, variables, sources=sources)


def broadcast_all(
    communicator: ft.Communicator, variables: Iterable[Any], *, sources: Sequence[int] = ()
) -> list[str]:
    """Give every rank the leader's values of *variables*; collective. See `broadcast`."""
    changed: list[str] = []
    for variable in variables:
        value = np.asarray(variable.numpy())
        before = value.tobytes()
        flat = np.frombuffer(before, np.uint8).copy()
        communicator.broadcast(flat, sources=sources)
        if flat.tobytes() != before:
            variable.assign(flat.view(value.dtype).reshape(value.shape))
            changed.append(variable.path)
    return changed


def weights_hash(variables: Iterable[Any], after: Iterable[str] = ()) -> str:
    """64 bits over the values of *variables*, as 16 hexadecimal digits; local.

    Args:
        after: hashes that count, too, before the values.
    """
    digest = hashlib.blake2b("".join(after).encode(), digest_size=8)
    for variable in variables:
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()


def state_hash(model: Any) -> str:
    """64 bits over weights and optimizer state, as 16 hexadecimal digits; local."""
    return weights_hash(variables_of(model))


def hold(
    model: Any,
    cursor: dict[str, int],
    *,
    architecture: str,
    extra: dict[str, np.ndarray],
    pool: BufferPool | None = None,
) -> DeferredSnapshot:
    """The deferred snapshot of *model* for a checkpoint; local.

    Args:
        cursor: seed, fit, epoch, samples (of the epoch), step.
        architecture: see `architecture_of`.
        extra: further arrays that a continued run needs, by name.
        pool: see `DeferredSnapshot`.
    """
    parts = {
        "weights": weights_of(model),
        "optimizer": slots_of(model),
        "metrics": keras_hooks.metric_variables(model),
    }
    noise, generator = keras_hooks.noise_state(model).numpy(), keras_hooks.global_generator()
    if noise[0]:
        extra = {**extra, _NOISE: noise}
    if generator is not None:
        extra = {**extra, _GLOBAL_NOISE: generator.state.numpy()}
    return DeferredSnapshot(parts, cursor, architecture=architecture, extra=extra, pool=pool)


def architecture_of(model: Any) -> str:
    """Model as JSON text, empty if only its code defines it; local."""
    if not keras_hooks.is_graph(model):
        return ""
    try:
        return str(model.to_json())
    except (NotImplementedError, TypeError):  # a layer that does not describe itself
        return ""


def restore(model: Any, saved: checkpoints.Snapshot, *, optimizer: bool = True) -> None:
    """Put weights and, unless *optimizer* is False, optimizer state back; local.

    Variables are matched by their order, because Keras numbers layers by the layers that the
    process built before.

    Raises:
        InputError: the checkpoint is of another model; nothing was changed.
    """
    if ARCHIVE in saved.extra:
        raise InputError(
            "a checkpoint to continue from is wanted. Received: an archive, whose weights were "
            "rounded and which has no state of the optimizer; use matex.load on it"
        )
    pairs = matched("weights", weights_of(model), saved.weights)
    if optimizer:
        pairs += matched("optimizer", slots_of(model), saved.optimizer)
    for variable, value in pairs:
        variable.assign(value)
    if _NOISE in saved.extra:
        keras_hooks.noise_state(model).assign(saved.extra[_NOISE])
    if _GLOBAL_NOISE in saved.extra:
        keras_hooks.made_global_generator().state.assign(saved.extra[_GLOBAL_NOISE])


def restore_metrics(model: Any, saved: checkpoints.Snapshot) -> None:
    """Put the metrics of the interrupted epoch back; local."""
    values = {n: v for n, v in saved.extra.items() if n.startswith("metrics/")}
    for variable, value in matched("metrics", keras_hooks.metric_variables(model), values):
        variable.assign(value)


def matched(part: str, variables: Iterable[Any], values: Any) -> list[tuple[Any, np.ndarray]]:
    """Pairs of *variables* and arrays of *values*, by order; local.

    Raises:
        InputError: their number or a shape differs; the message names which.
    """
    variables = list(variables)
    if len(variables) != len(values):
        raise InputError(
            f"the checkpoint is of another model: {part} wants {len(variables)} arrays. "
            f"Received: {len(values)}; give an empty checkpoint directory to start anew"
        )
    pairs = list(zip(variables, values.items(), strict=True))
    for variable, (name, value) in pairs:
        if tuple(variable.shape) != value.shape:
            raise InputError(
                f"the checkpoint is of another model: {variable.path} wants shape "
                f"{tuple(variable.shape)}. Received: {name} of shape {value.shape}; "
                "give an empty checkpoint directory to start anew"
            )
    return [(variable, value) for variable, (_, value) in pairs]
