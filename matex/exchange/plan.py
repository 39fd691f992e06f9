"""Choice of how a step's sum is made: by allreduce, or by slices along a route. Pure."""

from __future__ import annotations

__all__ = ["MOST_HOSTS", "PLANS", "is_sliced"]

#: Values of ``--exchange-plan``.
PLANS = ("auto", "flat", "slices")

#: Number of hosts above which slices are too small: each rank sends one message to each other host.
MOST_HOSTS = 32


def is_sliced(plan: str, *, size: int, hosts: int, compressed: bool) -> bool:
    """Whether the members exchange slices instead of an allreduce.

    Args:
        plan: one of :data:`PLANS`.
        size: number of members.
        hosts: number of hosts of the members.
        compressed: whether numbers have fewer bits, which an allreduce cannot sum.
    """
    if size == 1:
        return False
    if compressed or plan == "slices":
        return True
    return plan == "auto" and 1 < hosts <= MOST_HOSTS
