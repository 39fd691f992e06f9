"""matex: data-parallel Keras training that outlives its ranks.

``matex run -n 4 train.py`` runs an unchanged Keras script on four ranks. A script
that is started by mpiexec or srun itself can ask for the same by

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
    ToldToLeave,
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

# Found when they are asked for, because they need Keras.
_LATER = {
    "Apoptosis": "matex.apoptosis.callback",
    "Checkpoint": "matex.fitting.custom_loop",
    "step": "matex.fitting.step_function",
}


def init(**options: Any) -> None:
    """Attach this process to Keras and meet the other ranks; collective, before the model is built.

    A second call, or a call in a script that ``matex run`` started, does nothing, and says so of
    options that it would have set otherwise.
    The end of the program waits for the other ranks.

    Args:
        options: options of :class:`matex.config.options.RankOptions` by their names; what is not
            given is taken from ``MATEX_<NAME>`` in the environment.

    Raises:
        InputError: an option is wrong, or TensorFlow is missing.
        HooksError: Keras could not be attached to.
        ft.Unrecoverable: MPI is missing.

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
        run.say_once(line)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name == "callbacks":
        return importlib.import_module("matex.callbacks")
    raise AttributeError(_advice(__name__, name))


def load(path: Any, **options: Any) -> Any:
    """Load the Keras model of a checkpoint, not compiled. Local.

    Args:
        path: path of a checkpoint, or of a directory, whose newest valid one is taken.
        options: ``custom_objects``, classes of the model that are not Keras's own, by name; and
            ``allow_lambda``, names of Lambda layers whose code may be loaded.

    Returns:
        A ``keras.Model``.

    Raises:
        InputError: no model can be made of it; the message says why.
        checkpoints.CheckpointError: the file is damaged, or cannot be read.

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
    """Put the weights of a checkpoint into a model, matched by their order. Local.

    Nothing is changed unless all fit.

    Args:
        model: ``keras.Model`` with the same weights.
        path: path of a checkpoint, or of a directory, whose newest valid one is taken.

    Raises:
        InputError: the weights are of another model.
        checkpoints.CheckpointError: the file is damaged, or cannot be read.

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
    """Find out whether this process takes part in a run. Local.

    Returns:
        True after :func:`init`, and in a script that ``matex run`` started.

    Example:
        >>> matex.is_initialized()
        True
    """
    from matex import session

    return session.current is not None


def rank() -> int:
    """Number of this process in the run, which never changes. Local.

    Returns:
        The original rank, from 0; 0 outside a run.

    Example:
        >>> matex.rank() < world_size_at_start
        True
    """
    from matex import session

    if session.current is None:
        return 0
    session.current.rank_is_asked_for()
    return session.current.run.communicator.world.rank


def size() -> int:
    """Number of ranks that are alive. Local.

    Returns:
        The number as of the last repair; 1 outside a run.

    Example:
        >>> matex.size()
        2
    """
    from matex import session

    return 1 if session.current is None else session.current.run.communicator.world.size


def strategy() -> str:
    """Name of the strategy by which the ranks share the work of ``fit``. Local.

    Returns:
        Value of ``--strategy``; "sync" outside a run.

    Example:
        >>> matex.strategy()
        'sync'
    """
    from matex import session

    return "sync" if session.current is None else session.current.run.config.strategy


def local_rank() -> int:
    """Place of this process among the living ranks of its host. Local.

    Returns:
        The place, from 0; 0 outside a run.

    Example:
        >>> matex.local_rank() < matex.local_size()
        True
    """
    from matex import session

    if session.current is None:
        return 0
    session.current.rank_is_asked_for()
    world = session.current.run.communicator.world
    return sum(member.rank < world.rank for member in world.neighbours)


def local_size() -> int:
    """Number of ranks that are alive on this host. Local.

    Returns:
        The number, this process among them; 1 outside a run.

    Example:
        >>> matex.local_size()
        2
    """
    from matex import session

    return (
        1 if session.current is None else 1 + len(session.current.run.communicator.world.neighbours)
    )
