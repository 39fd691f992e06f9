"""Notes of steps in which ranks computed NaN or infinity."""

from __future__ import annotations

from matex.records.equality import SKIPPED, in_words
from matex.records.events import EventLog
from matex.run.terminal import Terminal

__all__ = ["note_nonfinite"]


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
