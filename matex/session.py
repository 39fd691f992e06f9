"""The session of this process: its part in a run, which the rest asks for by :data:`current`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matex.run.context import RunContext

__all__ = ["Session", "current"]


class Session(Protocol):
    """A process that takes part in a run, as features and the script's calls reach it."""

    run: RunContext

    @property
    def is_alone(self) -> bool:
        """Whether this rank makes calls that the others do not, in a callback on the leader."""
        ...

    def rank_is_asked_for(self) -> None:
        """Note that the script asks for its rank, and so may act on one rank alone; local."""
        ...

    def model_changed(self) -> None:
        """Trace the step of the running fit anew, whose model has other shapes; local."""
        ...

    def begin_own_checkpoint(self) -> int:
        """Note that the script saves a loop of its own; local.

        Returns:
            The number of fits that came before.

        Raises:
            InputError: it does so already.
        """
        ...

    def taped(self, gradients: list[Any], sources: list[Any]) -> list[Any]:
        """*gradients* of *sources*, averaged over the ranks; collective in loops of the script."""
        ...


#: None before the ranks have met, and in a process that takes part in no run. Only
#: :mod:`matex.process.bootstrap` sets it, once.
current: Session | None = None
