"""Intervals between checkpoints. Pure.

With the cost C of a checkpoint and the mean time M to a failure after which a checkpoint is needed,
both in seconds, Young's interval is sqrt(2 C M) (Communications of the ACM 17, 1974). Daly's
refines it (Future Generation Computer Systems 22, 2006), within 0.3 % of the optimum.

M is the mean time to *total* loss: if survivors go on in place, the death of one process needs no
checkpoint.
"""

from __future__ import annotations

import math

__all__ = ["daly_s", "mean_time_to_total_loss_s", "young_s"]


def young_s(cost_s: float, mean_time_s: float) -> float:
    """Young's interval between checkpoints, sqrt(2 C M) (CACM 17, 1974). Pure.

    Args:
        cost_s: seconds of training lost to one checkpoint (C); at least 0.
        mean_time_s: mean seconds to a failure after which a checkpoint is needed (M); above 0.

    Returns:
        Seconds of training between two checkpoints.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> checkpoints.young_s(cost_s=2.0, mean_time_s=3600.0)
        120.0
    """
    _check(cost_s, mean_time_s)
    return math.sqrt(2 * cost_s * mean_time_s)


def daly_s(cost_s: float, mean_time_s: float) -> float:
    """Daly's interval between checkpoints (Future Generation Computer Systems 22, 2006). Pure.

    It is sqrt(2 C M) [1 + x/3 + x^2/9] - C with x = sqrt(C / 2 M) where C < 2 M, else M.

    Args:
        cost_s: seconds of training lost to one checkpoint (C); at least 0.
        mean_time_s: mean seconds to a failure after which a checkpoint is needed (M); above 0.

    Returns:
        Seconds of training between two checkpoints.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> round(checkpoints.daly_s(cost_s=2.0, mean_time_s=3600.0), 1)
        118.7
    """
    _check(cost_s, mean_time_s)
    if cost_s >= 2 * mean_time_s:
        return mean_time_s
    x = math.sqrt(cost_s / (2 * mean_time_s))
    return math.sqrt(2 * cost_s * mean_time_s) * (1 + x / 3 + x * x / 9) - cost_s


def mean_time_to_total_loss_s(
    members: int,
    *,
    needed: int = 1,
    failure_rate: float,
    repair_rate: float = 0.0,
    common_rate: float = 1 / (7 * 86_400),
) -> float:
    """Mean time until fewer than *needed* members are left, or all are lost at once. Pure.

    With f_k = (p - k) lambda and r_k = k mu for k of p members lost, the mean time from k to
    k + 1 lost is e_k = 1/f_k + (r_k / f_k) e_(k-1), and the mean time to the loss of the quorum is
    the sum of e_0 to e_(p - needed).

    Args:
        members: number of members (p).
        needed: least number of members that form a quorum, 1 by default.
        failure_rate: failures per member and second (lambda).
        repair_rate: replacements per lost member and second (mu), 0 by default.
        common_rate: losses of all members at once per second (power, file system, scheduler); by
            default once in seven days.

    Returns:
        Mean time, seconds.

    Raises:
        ValueError: no member, *needed* above *members*, or a rate below 0.

    Example:
        >>> day_s = 86_400.0
        >>> lost_s = checkpoints.mean_time_to_total_loss_s(
        ...     2, failure_rate=1 / day_s, common_rate=0.0
        ... )
        >>> round(lost_s / day_s, 6)  # one of two in half a day, the other in a day
        1.5
    """
    if not 1 <= needed <= members:
        raise ValueError(
            f"from 1 to {members} members needed were wanted. Received: needed={needed}."
        )
    if min(failure_rate, repair_rate, common_rate) < 0 or not failure_rate + common_rate:
        raise ValueError(
            "rates of at least 0, and a failure that can happen, were wanted. Received: "
            f"failure_rate={failure_rate}, repair_rate={repair_rate}, common_rate={common_rate}."
        )
    if not failure_rate:
        return 1 / common_rate
    quorum_s = stage_s = 0.0
    for gone in range(members - needed + 1):
        rate = (members - gone) * failure_rate
        stage_s = 1 / rate + gone * repair_rate / rate * stage_s
        quorum_s += stage_s
    return 1 / (common_rate + 1 / quorum_s)


def _check(cost_s: float, mean_time_s: float) -> None:
    if not (cost_s >= 0 and mean_time_s > 0):
        raise ValueError(
            "a cost of at least 0 and a mean time above 0 were wanted. "
            f"Received: cost_s={cost_s}, mean_time_s={mean_time_s}."
        )
