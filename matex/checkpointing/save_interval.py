"""The time between two checkpoints in files: as asked for, or Daly's interval."""

from __future__ import annotations

import checkpoints
import ft

__all__ = ["SaveInterval"]

_YEAR_S = 365 * 86_400.0
_WEEK_S = 7 * 86_400.0
_SHORTEST_S = 10.0
# Until it is measured: the cost of a checkpoint is the size of the state divided by this rate.
_BYTES_PER_S = 2e8


class SaveInterval:
    """Save interval, from the cost of a checkpoint and the mean time to a total loss. Local.

    Args:
        communicator: ranks of the run.
        asked_s: seconds that the user asked for, 0 for Daly's interval.
    """

    def __init__(self, communicator: ft.Communicator, asked_s: float) -> None:
        self._communicator = communicator
        self._asked_s = asked_s
        self._cost_s = 0.0
        self._mean_time: tuple[int, float] | None = None

    def note_cost(self, seconds: float) -> None:
        """Note for how long a checkpoint kept training waiting: the longest counts."""
        self._cost_s = max(self._cost_s, seconds)

    def seconds(self, nbytes: int) -> float:
        """The seconds between two checkpoints of a state of *nbytes*."""
        if self._asked_s:
            return self._asked_s
        cost_s = self._cost_s or max(0.05, nbytes / _BYTES_PER_S)
        return max(_SHORTEST_S, checkpoints.daly_s(cost_s, self._mean_time_s()))

    def _mean_time_s(self) -> float:
        """The mean time in seconds to the loss of all ranks.

        It counts losses of a host (the launcher then ends the job), losses of all ranks at once
        and, without ULFM, losses of any rank.
        """
        world = self._communicator.world
        if self._mean_time is None or self._mean_time[0] != world.generation:
            hosts = world.host_count
            mean_s = checkpoints.mean_time_to_total_loss_s(
                world.size,
                needed=1 if self._communicator.ulfm else world.size,
                failure_rate=1 / _YEAR_S,
                common_rate=1 / _WEEK_S + hosts / _YEAR_S,
            )
            self._mean_time = world.generation, mean_s
        return self._mean_time[1]
