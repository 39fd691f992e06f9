"""Horovod's names, for scripts written for it; see docs/guide/from_horovod.md.

matex averages gradients where weights are changed, so an optimizer needs no wrapper, and a tape
needs one only for updates that no optimizer makes. Both are here so that a script runs before its
lines are deleted, and its user is told which lines must go.
"""

from __future__ import annotations

from typing import Any

from matex.errors import InputError

__all__ = ["DistributedGradientTape", "DistributedOptimizer", "advice"]

# Horovod's options that do not change the results here.
_IGNORED = frozenset(
    {
        "name", "device_dense", "device_sparse", "compression", "sparse_as_dense",
        "gradient_predivide_factor", "num_groups", "groups", "use_locking",
    }
)  # fmt: skip

_EQUAL = "delete the line: weights are equal from the first step"
_INSTEAD = {
    "broadcast_variables": _EQUAL,
    "broadcast_global_variables": _EQUAL,
    "BroadcastGlobalVariablesCallback": _EQUAL,
    "BroadcastGlobalVariablesHook": _EQUAL,
    "MetricAverageCallback": "delete the line: metric states are summed, so results are exact",
    "LearningRateWarmupCallback": "delete the line: the batch does not grow with the ranks",
    "LearningRateScheduleCallback": "use keras.callbacks.LearningRateScheduler",
    "BestModelCheckpoint": "use keras.callbacks.ModelCheckpoint, which writes on one rank",
    "callbacks": "delete Horovod's callbacks: weights are equal, and metrics exact",
    "elastic": "delete the line: the ranks go on when others die; --checkpoint covers the rest",
    "Compression": "delete the option: gradients are exchanged as they are",
    "Average": 'write op="average"',
    "Sum": 'write op="sum"',
    "join": "delete the line: every rank makes the same steps",
    "shutdown": "delete the line: the end of the program waits for the other ranks",
}


def advice(module: str, name: str) -> str:
    """Message that *module* has no *name*, with the substitute for a Horovod name. Local."""
    missing = f"module {module!r} has no attribute {name!r}"
    return f"{missing}: {_INSTEAD[name]}" if name in _INSTEAD else missing


def DistributedOptimizer(optimizer: Any, **options: Any) -> Any:
    """Return the optimizer itself: in a run every Keras optimizer takes gradients of all ranks.

    Local.

    The batch size of ``fit`` is that of all ranks together, so neither the learning rate
    nor the number of steps wants a factor of :func:`matex.size`.

    Args:
        optimizer: optimizer of Keras 3.
        options: options of Horovod's. Those about the exchange of gradients are ignored.

    Returns:
        *optimizer*.

    Raises:
        InputError: another kind of optimizer, or an option that would change the result.

    Example:
        >>> sgd = keras.optimizers.SGD(0.1)
        >>> matex.DistributedOptimizer(sgd) is sgd
        True
    """
    from matex import keras_hooks

    if not keras_hooks.is_optimizer(optimizer):
        raise InputError(
            "DistributedOptimizer wants a Keras 3 optimizer. "
            f"Received: {type(optimizer).__module__}.{type(optimizer).__qualname__}"
        )
    _refuse("DistributedOptimizer", options)
    from matex import session

    if session.current is not None:
        session.current.run.terminal.say_once(
            "DistributedOptimizer has nothing to do: batch_size is that of all ranks together; "
            "delete factors of size() from the learning rate and from the number of steps"
        )
    return optimizer


class DistributedGradientTape:
    """A ``tf.GradientTape`` whose ``gradient`` is the mean over the ranks.

    For a custom loop: every rank computes the same on the same, whole
    batches, and the mean of equal gradients is that gradient, on each rank to the last
    bit. It is taken once: an optimizer that is given these very gradients does not
    average them again, and the mean of a mean would be the same. Ranks whose gradients
    differ, because their data were sharded by rank, end with the reason before any
    update. Under ``fit``, and outside of a run, it is the tape it was given.

    Everything else is passed on to the tape. Without DistributedGradientTape a loop that
    changes weights through a Keras optimizer gets the same result.

    Args:
        tape: ``tf.GradientTape``, already recorded, or to be entered through this object.
        options: options of Horovod's. Those about the exchange of gradients are ignored.

    Raises:
        InputError: no tape, or an option that would change the result.

    Example:
        >>> weight = tf.Variable(3.0)
        >>> with matex.DistributedGradientTape(tf.GradientTape()) as tape:
        ...     loss = weight * weight
        >>> tape.gradient(loss, [weight])[0].numpy().item()
        6.0
    """

    def __init__(self, tape: Any, **options: Any) -> None:
        from matex import keras_hooks

        if not keras_hooks.is_tape(tape):
            raise InputError(
                "DistributedGradientTape wants a tf.GradientTape. "
                f"Received: {type(tape).__module__}.{type(tape).__qualname__}"
            )
        _refuse("DistributedGradientTape", options)
        self._tape = tape

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._tape.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """Average the tape's gradients over the ranks; collective in a run, when it is executed.

        Args:
            target, sources, args, kwargs: arguments of ``tf.GradientTape.gradient``.

        Returns:
            Gradients in the structure of *sources*; slices stay slices.

        Raises:
            TrainingError: the ranks computed different gradients; on every rank.
        """
        from matex import keras_hooks, session

        gradients = self._tape.gradient(target, sources, *args, **kwargs)
        if session.current is None:
            return gradients
        return keras_hooks.map_gradients(session.current.average_tape, gradients, sources)


def _refuse(name: str, options: dict[str, Any]) -> None:
    given = dict(options)
    if given.get("op", "average") == "average":
        given.pop("op", None)
    if given.get("backward_passes_per_step", 1) == 1:
        given.pop("backward_passes_per_step", None)
        given.pop("average_aggregated_gradients", None)
    for option in sorted(set(given) - _IGNORED):
        what = {
            "op": "gradients are averaged; for their sum multiply the learning rate",
            "backward_passes_per_step": "give the optimizer gradient_accumulation_steps",
        }.get(option, "delete it")
        raise InputError(f"{name} cannot do {option}: {what}. Received: {option}={given[option]!r}")
