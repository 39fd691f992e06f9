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
    "strategy",
]

__version__ = "0.1.0"

# Found when they are asked for, because they need Keras.
_LATER = {"Apoptosis": "matex.apoptosis.callback", "Checkpoint": "matex.fitting.custom_loop"}


def init(**options: Any) -> None:
    """Attach this process to Keras and meet the other ranks; collective, before the model is built.

    A second call, or a call in a script that ``matex run`` started, does nothing.
    The end of the program waits for the other ranks.

    Args:
        options: options of :class:`matex.config.options.RankOptions` by their names; what is not
            given is taken from ``MATEX_<NAME>`` in the environment.

    Raises:
        InputError: an option is wrong, or TensorFlow is missing.
        HooksError: Keras could not be attached to.
        ft.Unrecoverable: MPI is missing.
    """
    from matex import session
    from matex.config import Config
    from matex.process import bootstrap

    if session.current is None:
        bootstrap.meet(Config.from_environment(**options)).start()


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name == "callbacks":
        return importlib.import_module("matex.callbacks")
    raise AttributeError(_advice(__name__, name))


def load(path: Any, **options: Any) -> Any:
    """The Keras model in the checkpoint *path*: see `matex.checkpointing.export`. Local."""
    from matex.checkpointing import export

    return export.load(path, **options)


def load_weights(model: Any, path: Any) -> None:
    """Put the weights of the checkpoint *path* into *model*. Local.

    See :func:`matex.checkpointing.export.load_weights`.
    """
    from matex.checkpointing import export

    export.load_weights(model, path)


def is_initialized() -> bool:
    """Whether this process takes part in a run. Local."""
    from matex import session

    return session.current is not None


def rank() -> int:
    """This process's original rank, which never changes. Local; 0 outside a run."""
    from matex import session

    if session.current is None:
        return 0
    session.current.rank_is_asked_for()
    return session.current.run.communicator.world.rank


def size() -> int:
    """How many ranks are alive. Local; 1 outside a run."""
    from matex import session

    return 1 if session.current is None else session.current.run.communicator.world.size


def strategy() -> str:
    """How the ranks share the work of ``fit``: ``--strategy``. Local; "sync" outside a run."""
    from matex import session

    return "sync" if session.current is None else session.current.run.config.strategy


def local_rank() -> int:
    """This process's place among the living ranks of its host. Local; 0 outside a run."""
    from matex import session

    if session.current is None:
        return 0
    session.current.rank_is_asked_for()
    world = session.current.run.communicator.world
    return sum(member.rank < world.rank for member in world.neighbours)


def local_size() -> int:
    """How many ranks are alive on this host. Local; 1 outside a run."""
    from matex import session

    return (
        1 if session.current is None else 1 + len(session.current.run.communicator.world.neighbours)
    )
