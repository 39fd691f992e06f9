"""Requirements of options that are known only when the ranks have met."""

from __future__ import annotations

import ft
from matex.config import Config
from matex.errors import InputError
from matex.process.mpi_start import MpiStart

__all__ = ["check_requirements"]

_ULFM = (
    "an MPI with ULFM switched on (Open MPI 5 under 'mpiexec --with-ft ulfm', as 'matex run' does)"
)


def check_requirements(config: Config, started: MpiStart) -> None:
    """Refuse options that do not fit the ranks, their MPI or each other; local, equal on all ranks.

    Raises:
        InputError: spares or newcomers cannot be, or lost ranks could not say why.
        ft.UsageError: the faults do not fit the number of ranks.
    """
    communicator = started.communicator
    if config.spares >= communicator.initial_size:
        raise InputError(
            "spares must be fewer than all ranks that were started. Received: "
            f"spares={config.spares} of {communicator.initial_size} ranks"
        )
    if config.spares and not communicator.ulfm:
        raise InputError(f"spares want {_ULFM}. Received: spares={config.spares} without it")
    ft.check_faults(
        config.faults,
        ranks=communicator.initial_size,
        replaced=config.grow_to > 0 or config.memory is not None or config.respawn > 0,
        hosts=started.possible_hosts,
    )
    if config.respawn and not communicator.ulfm:
        raise InputError(f"respawn wants {_ULFM}. Received: respawn={config.respawn} without it")
    if config.strict and config.report is None:
        raise InputError(
            "strict wants a report directory, in which ranks say what ends them. "
            "Received: strict without report; give --report DIR"
        )
