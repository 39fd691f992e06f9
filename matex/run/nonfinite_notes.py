"""Notes of steps in which ranks computed NaN or infinity."""

from __future__ import annotations

from matex.records.equality import SKIPPED, in_words
from matex.records.events import EventLog
from matex.run.terminal import Terminal

__all__ = ["note_nonfinite", "note_replaced"]


def note_nonfinite(
    events: EventLog | None,
    terminal: Terminal,
    ranks: tuple[int, ...],
    *,
    step: int,
    policy: str,
) -> None:
    """Record that *ranks* computed what is not finite, and say how the step is made again. Local.

    Args:
        events: event log of the leader; None on the other ranks.
        policy: value of ``--nonfinite``.
    """
    if events is not None:
        events.write("nonfinite", step=step, ranks=list(ranks), policy=policy)
    names = ", ".join(map(str, ranks))
    what = "made again" if policy == "recompute" else "made without its samples"
    terminal.say(f"rank {names} computed what is not finite: step {step} is {what}")
    if policy == "skip":
        terminal.say_once(f"numbers from this step on: {in_words([SKIPPED])}")


def note_replaced(
    events: EventLog | None,
    terminal: Terminal,
    ranks: tuple[int, ...],
    source: int,
    *,
    step: int,
) -> None:
    """Record that *ranks* computed what is not finite from a whole batch; local.

    Args:
        events: event log of the leader; None on the other ranks.
        source: rank whose gradients are used in place of theirs.
    """
    if events is not None:
        events.write("nonfinite", step=step, ranks=list(ranks), policy="replaced")
    names = ", ".join(map(str, ranks))
    terminal.say(
        f"rank {names} computed what is not finite: step {step} is made with the gradients of "
        f"rank {source}, which computed the same batch"
    )
