"""Pure: which snapshots stay, and which temporaries belong to nobody."""

from __future__ import annotations

from collections.abc import Iterable

#: A temporary of another host, whose processes cannot be asked, is stale after a day.
FOREIGN_STALE_S = 86_400.0


def retained(steps: Iterable[int], keep_last: int, *, written: int | None = None) -> set[int]:
    """The steps whose files stay.

    Args:
        steps: the steps that have files, in any order.
        keep_last: how many stay, counted from `written` downwards; at least 1.
        written: the step just written, which always stays, as do all newer ones: they may be
            damaged leftovers, so they do not count, but it is not for retention to judge.
            None: the highest step.

    Returns:
        A subset of `steps`.

    Raises:
        ValueError: keep_last is less than 1.
    """
    if keep_last < 1:
        raise ValueError(
            "at least one snapshot to keep was wanted. "
            f"Received: keep_last={keep_last}. Give 1 or more."
        )
    everything = set(steps)
    last = max(everything, default=0) if written is None else written
    upto = sorted((step for step in everything if step <= last), reverse=True)
    return {step for step in everything if step > last} | set(upto[:keep_last])


def is_stale(*, same_host: bool, process_alive: bool, age_s: float) -> bool:
    """Whether the writer of a temporary is gone. Of another host only its age is known."""
    return not process_alive if same_host else age_s > FOREIGN_STALE_S
