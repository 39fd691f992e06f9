"""matex: data-parallel Keras training that survives the death of ranks.

``matex run -n 4 train.py`` runs an unchanged Keras script on four ranks. A script started by
mpiexec or srun itself joins a run by calling

::

    import matex
    matex.init()

before it builds its model. Nothing happens at import.
"""

from __future__ import annotations

import importlib
from typing import Any

from matex.compat.collectives import allgather, allreduce, broadcast
from matex.compat.horovod import DistributedGradientTape, DistributedOptimizer
from matex.compat.horovod import advice as _advice
from matex.errors import (
    DataError,
    HooksError,
    InputError,
    MatexError,
    NonFiniteGradients,
    NotShareable,
    ReplicasDiverged,
    StopRequested,
    TrainingError,
    Unsupported,
)

__all__ = [
    "Apoptosis",
    "Checkpoint",
    "DataError",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HooksError",
    "InputError",
    "MatexError",
    "NonFiniteGradients",
    "NotShareable",
    "ReplicasDiverged",
    "StopRequested",
    "ToldToLeave",
    "TrainingError",
    "Unsupported",
    "allgather",
    "allreduce",
    "broadcast",
    "init",
    "is_initialized",
    "load",
    "load_weights",
    "local_rank",
    "local_size",
    "rank",
    "size",
    "step",
    "strategy",
]

__version__ = "0.1.0"

#: Former name of the exception.
ToldToLeave = StopRequested

# Imported at first access, because they need Keras.
_LATER = {
    "Apoptosis": "matex.apoptosis.callback",
    "Checkpoint": "matex.fitting.loops.loop_checkpoint",
    "step": "matex.fitting.loops.step_function",
}

_MODULES = ("callbacks", "data", "optimizers")


def init(**options: Any) -> None:
    """Attach this process to Keras and meet the other ranks; collective, before the model is built.

    A second call, or a call in a script that ``matex run`` started, has no effect; it prints a line
    for each option that differs from the run's.
    At its end the program waits for the other ranks.

    Args:
        options: fields of :class:`matex.config.options.RankOptions` by name; an option not given is
            read from ``MATEX_<NAME>`` in the environment.

    Raises:
        InputError: an option is wrong, or TensorFlow is missing.
        HooksError: the hooks into Keras cannot be installed.
        ft.Unrecoverable: no usable MPI library was found.

    Example:
        >>> matex.init(seed=3)  # a second call does nothing
        >>> matex.is_initialized()
        True
    """
    from matex import session
    from matex.config import Config
    from matex.config.given import overruled
    from matex.process import bootstrap

    if session.current is None:
        bootstrap.start_rank(Config.from_environment(**options)).start()
        return
    run = session.current.run
    for line in overruled(run.config, options):
        run.terminal.say_once(line)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"matex.{name}")
    raise AttributeError(_advice(__name__, name))


def load(path: Any, **options: Any) -> Any:
    """Load the Keras model of a checkpoint, not compiled. Local.

    Args:
        path: path of a checkpoint, or of a directory, of which the newest valid checkpoint is
            loaded.
        options: ``custom_objects``, classes of the model other than Keras's own, by name; and
            ``allow_lambda``, names of Lambda layers whose code may be loaded.

    Returns:
        A ``keras.Model``.

    Raises:
        InputError: no model can be made of the checkpoint; the message gives the reason.
        checkpoints.CheckpointError: the file is damaged or cannot be read.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> weights = {weight.path: weight.numpy() for weight in model.weights}
        >>> with tempfile.TemporaryDirectory() as directory:  # as matex run --checkpoint writes it
        ...     path = checkpoints.Store(directory).save(
        ...         checkpoints.Snapshot(
        ...             weights=weights, cursor={"step": 120}, architecture=model.to_json()
        ...         )
        ...     )
        ...     matex.load(directory).count_params()
        5
    """
    from matex.checkpointing import export

    return export.load(path, **options)


def load_weights(model: Any, path: Any) -> None:
    """Set a model's weights from a checkpoint, matched by their order. Local.

    No weight is changed unless all weights fit.

    Args:
        model: ``keras.Model`` with the same number, order and shapes of weights.
        path: path of a checkpoint, or of a directory, of which the newest valid checkpoint is read.

    Raises:
        InputError: the checkpoint's weights belong to another model.
        checkpoints.CheckpointError: the file is damaged or cannot be read.

    Example:
        >>> kernel, bias = np.ones((4, 1), np.float32), np.zeros(1, np.float32)
        >>> weights = {"dense/kernel": kernel, "dense/bias": bias}
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     store = checkpoints.Store(directory)
        ...     path = store.save(checkpoints.Snapshot(weights=weights, cursor={"step": 120}))
        ...     matex.load_weights(model, directory)
        >>> model(np.ones((1, 4))).numpy().tolist()
        [[4.0]]
    """
    from matex.checkpointing import export

    export.load_weights(model, path)


def is_initialized() -> bool:
    """Determine whether this process takes part in a run. Local.

    Returns:
        True after :func:`init` and in a script that ``matex run`` started.

    Example:
        >>> matex.is_initialized()
        True
    """
    from matex import session

    return session.current is not None


def rank() -> int:
    """Original rank of this process, which never changes. Local.

    Returns:
        Rank, from 0; 0 outside a run.

    Example:
        >>> matex.rank() < world_size_at_start
        True
    """
    from matex import session

    world = session.world()
    if world is None or session.current is None:
        return 0
    session.current.rank_is_asked_for()
    return world.rank


def size() -> int:
    """Number of living members of the run. Local.

    Returns:
        Number as of the last repair; 1 outside a run.

    Example:
        >>> matex.size()
        2
    """
    from matex import session

    world = session.world()
    return 1 if world is None else world.size


def strategy() -> str:
    """Name of the strategy with which the ranks share the work of ``fit``. Local.

    Returns:
        Value of ``--strategy``; "sync" outside a run.

    Example:
        >>> matex.strategy()
        'sync'
    """
    from matex import session

    return "sync" if session.current is None else session.current.run.config.strategy


def local_rank() -> int:
    """Index of this process among the living ranks of its host. Local.

    Returns:
        Index, from 0; 0 outside a run.

    Example:
        >>> matex.local_rank() < matex.local_size()
        True
    """
    from matex import session

    world = session.world()
    if world is None or session.current is None:
        return 0
    session.current.rank_is_asked_for()
    return sum(member.rank < world.rank for member in world.neighbours)


def local_size() -> int:
    """Number of living ranks on this host, this process included. Local.

    Returns:
        Number as of the last repair; 1 outside a run.

    Example:
        >>> matex.local_size()
        2
    """
    from matex import session

    world = session.world()
    return 1 if world is None else 1 + len(world.neighbours)
