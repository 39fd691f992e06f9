"""Facts about the ranks of a run, equal on all of them."""

from __future__ import annotations

import ft
from matex.config import Config
from matex.config.virtual import workers_for
from matex.run.processor import Threads
from matex.run.welcome import Welcome

__all__ = ["RunRanks"]


class RunRanks:
    """The number of ranks that train, and how they divide the work. Local.

    Args:
        config: options of the run.
        initial_size: number of ranks at the start, spares included.
        threads: threads and cores of this rank.
        welcome: message of the leader to this rank, which joins a running run; None on ranks
            of the start.
    """

    def __init__(
        self, config: Config, initial_size: int, threads: Threads, welcome: Welcome | None = None
    ) -> None:
        self._config = config
        self._virtual = 0 if welcome is None else welcome.virtual
        self._has_joined = welcome is not None
        self.threads = threads
        self.key = "" if welcome is None else welcome.key
        """Secret text, equal on all ranks, from the begin of the run."""
        self.active = initial_size - config.spares if welcome is None else welcome.active
        """Largest number of ranks that train; the others are spares."""
        self._balances = config.balance

    def size_of(self, world: ft.World) -> int:
        """Number of ranks of *world* that train.

        The others are spares, even if they are members now.
        """
        return min(world.size, self.active)

    @property
    def virtual_workers(self) -> int:
        """Number of virtual workers that share each batch; 0 if ranks share it.

        The number in the checkpoint from which the run continues is used, else the option's, else
        the smallest power of two that is at least the number of ranks.
        """
        if not self._config.deterministic:
            return 0
        if self._has_joined:
            return self._virtual
        return self._virtual or self._config.virtual or workers_for(self.active)

    def keep_virtual_workers(self, number: int) -> None:
        """Use the *number* of a checkpoint, 0 if it has none; equally on all ranks."""
        self._virtual = number

    @property
    def balances(self) -> bool:
        """Whether batches are divided by the speed of ranks; equal on all ranks."""
        return self._balances

    def balance_from_now(self) -> None:
        """Divide batches by speed from now on; equally on all ranks."""
        self._balances = True
