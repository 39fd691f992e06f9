"""Choice of how the sum of a step is made: in one call of MPI, or in slices along a route. Pure."""

from __future__ import annotations

__all__ = ["MOST_HOSTS", "PLANS", "is_sliced"]

#: What ``--exchange-plan`` may be.
PLANS = ("auto", "flat", "slices")

#: Each rank sends each other host a message of its own, too small to be worth it from here on.
MOST_HOSTS = 32


def is_sliced(plan: str, *, size: int, hosts: int, compressed: bool) -> bool:
    """Whether the members send each other slices, and make no allreduce.

    Args:
        plan: one of :data:`PLANS`.
        size: number of members.
        hosts: number of hosts that they are on.
        compressed: whether numbers travel in fewer bits, which an allreduce cannot add up.
    """
    if size == 1:
        return False
    if compressed or plan == "slices":
        return True
    return plan == "auto" and 1 < hosts <= MOST_HOSTS
