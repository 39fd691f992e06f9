"""The session of this process: its part in a run, available as :data:`current`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import ft
    from matex.run.context import RunContext

__all__ = ["Session", "current", "world"]


class Session(Protocol):
    """A process that takes part in a run, as used by features and by the script's calls."""

    run: RunContext

    @property
    def is_alone(self) -> bool:
        """Whether this rank alone makes the current calls, in a callback on the leader."""
        ...

    def rank_is_asked_for(self) -> None:
        """Note that the script has asked for its rank, so it may act on one rank alone; local."""
        ...

    def model_changed(self) -> None:
        """Retrace the step of the running fit, whose model has changed its shapes; local."""
        ...

    def begin_own_checkpoint(self) -> int:
        """Note that the script saves a custom loop; local.

        Returns:
            Number of earlier fits.

        Raises:
            InputError: the script saves a custom loop already.
        """
        ...

    def average_tape(self, gradients: list[Any], sources: list[Any]) -> list[Any]:
        """Average over the ranks of the *gradients* of *sources*; collective in custom loops."""
        ...


#: None before the ranks have met, and in a process that takes part in no run;
#: :mod:`matex.process.bootstrap` sets it, once.
current: Session | None = None


def world() -> ft.World | None:
    """Living members of the run; None in a process that takes part in none."""
    return None if current is None else current.run.communicator.world
