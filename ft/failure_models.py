"""Models of the times at which machines fail, and seeded random fault plans. Pure.

Every rank and every node is a renewal process with Weibull intervals, shape *k*, and the
whole machine fails once in ``mtbf_s`` on average. *k* = 1 is the exponential model; failure
logs of large machines are fitted by *k* from 0.5 to 0.8 (Schroeder and Gibson, DSN 2006).

A machine is rarely new when a job starts. Intervals that begin with the job would make all
units young together, and the first failures would come much too early when k < 1; so the first
interval of each unit is the rest of an interval under way (the stationary start),

    R = U * scale * G^(1/k),    U uniform on (0, 1),    G ~ Gamma(1 + 1/k, 1),

for G^(1/k) is a length-biased Weibull variate (Cox, Renewal Theory, 1962).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ft.errors import UsageError
from ft.faults import KINDS, PHASES, Fault

__all__ = ["FailureModel", "in_steps", "sample"]


@dataclass(frozen=True, kw_only=True)
class FailureModel:
    """Rates and kinds of the failures of one machine (Schroeder and Gibson, DSN 2006).

    Args:
        mtbf_s: mean time between failures of the whole machine, seconds.
        ranks: number of ranks, placed on the nodes in blocks; at least 2.
        nodes: number of hosts of the ranks, 1 by default.
        shape: Weibull's k, from 0.1 to 10; 1, the default, is exponential.
        node_share: fraction of the failures that take a whole node, 0 by default.
        cascade: probability that another failure follows inside the recovery from a failure, which
            may be followed in turn; 0 by default.
        kinds, phases: kinds and phases of a single rank's failure, each drawn with equal
            probability; "kill" and "compute" by default.

    Raises:
        UsageError: a value is out of its range.

    Example:
        >>> model = ft.FailureModel(mtbf_s=3600.0, ranks=8, nodes=2, node_share=0.2)
        >>> model.on_node(1)
        (4, 5, 6, 7)
    """

    mtbf_s: float
    ranks: int
    nodes: int = 1
    shape: float = 1.0
    node_share: float = 0.0
    cascade: float = 0.0
    kinds: tuple[str, ...] = ("kill",)
    phases: tuple[str, ...] = ("compute",)

    def __post_init__(self) -> None:
        single = [kind for kind in KINDS if kind not in ("node", "bitflip")]
        for good, wanted, name in (
            (0 < self.mtbf_s < math.inf, "above 0", "mtbf_s"),
            (0.1 <= self.shape <= 10, "from 0.1 to 10", "shape"),
            (self.ranks >= 2, "at least 2, for one must survive", "ranks"),
            (1 <= self.nodes <= self.ranks, f"from 1 to {self.ranks}, the ranks", "nodes"),
            (0 <= self.node_share <= 1, "from 0 to 1", "node_share"),
            (0 <= self.cascade < 1, "from 0 to below 1", "cascade"),
            (set(self.kinds) <= set(single), f"of {', '.join(single)}", "kinds"),
            (set(self.phases) <= set(PHASES), f"of {', '.join(PHASES)}", "phases"),
        ):
            if not good:
                value = getattr(self, name)
                raise UsageError(f"{name} must be {wanted}. Received: {name}={value}")

    def on_node(self, node: int) -> tuple[int, ...]:
        """Ranks on one node.

        Args:
            node: number of the node, from 0.

        Returns:
            Original ranks, in order.
        """
        return tuple(r for r in range(self.ranks) if r * self.nodes // self.ranks == node)


def sample(model: FailureModel, *, duration_s: float, seed: int) -> tuple[Fault, ...]:
    """Draw the faults of a run from a failure model. Pure.

    Ranks are not repaired: dead ranks stay dead, so failures become rarer, and the last rank
    is spared.

    Args:
        model: rates and kinds of failures.
        duration_s: length of the run, seconds.
        seed: seed of the random numbers; equal seeds give equal faults.

    Returns:
        Faults due by time (``time_s``), in order.

    Example:
        >>> model = ft.FailureModel(mtbf_s=10.0, ranks=4)
        >>> faults = ft.sample(model, duration_s=1000.0, seed=1)
        >>> len(faults)  # one of four ranks is spared
        3
        >>> faults == ft.sample(model, duration_s=1000.0, seed=1)
        True
    """
    dice = np.random.Generator(np.random.PCG64(seed))
    units: list[tuple[tuple[int, ...], float]] = [
        ((rank,), _mean(model, model.ranks, 1 - model.node_share)) for rank in range(model.ranks)
    ]
    units += [
        (model.on_node(node), _mean(model, model.nodes, model.node_share))
        for node in range(model.nodes)
    ]
    queue = [(_residual(dice, mean, model.shape), n) for n, (_, mean) in enumerate(units)]
    heapq.heapify(queue)
    alive = set(range(model.ranks))
    faults: list[Fault] = []
    while queue[0][0] <= duration_s:
        time_s, number = queue[0]
        members, mean = units[number]
        following = time_s + _interval(dice, mean, model.shape)
        heapq.heapreplace(queue, (following, number))
        victims = tuple(rank for rank in members if rank in alive)
        if not victims:
            continue
        single = len(members) == 1 and number < model.ranks
        kind = str(dice.choice(model.kinds)) if single else "kill"
        phase = str(dice.choice(model.phases)) if single else "compute"
        struck = _struck(kind, victims, time_s, phase, alive)
        while struck is not None:
            faults.append(struck)
            if not struck.lethal or dice.random() >= model.cascade:
                break
            victim = int(dice.choice(sorted(alive)))
            struck = _struck("kill", (victim,), time_s, "recovery", alive)
    return tuple(faults)


def in_steps(faults: Sequence[Fault], *, step_s: float) -> tuple[Fault, ...]:
    """Replace the times at which faults are due by steps. Pure.

    Args:
        faults: any faults; faults that are not due by time are left unchanged.
        step_s: duration of one step, seconds.

    Returns:
        The faults, each due in the step that runs at its time.

    Example:
        >>> (fault,) = ft.in_steps([ft.parse_fault("kill:rank=1,time=12.5")], step_s=0.5)
        >>> fault.step
        25
    """
    return tuple(
        _named(replace(fault, time_s=None, step=int(fault.time_s / step_s)))
        if fault.time_s is not None
        else fault
        for fault in faults
    )


def _struck(
    kind: str, victims: tuple[int, ...], time_s: float, phase: str, alive: set[int]
) -> Fault | None:
    fault = Fault(kind=kind, ranks=victims, time_s=round(time_s, 3), at=phase)
    if fault.lethal:
        if not alive - set(victims):
            return None
        alive -= set(victims)
    return _named(fault)


def _named(fault: Fault) -> Fault:
    return replace(fault, text=fault.written())


def _mean(model: FailureModel, units: int, share: float) -> float:
    """Mean interval between failures of one unit, of *units* that cause *share* of all, seconds."""
    return model.mtbf_s * units / share if share else math.inf


def _scale(mean: float, shape: float) -> float:
    return mean / math.gamma(1 + 1 / shape)


def _interval(dice: np.random.Generator, mean: float, shape: float) -> float:
    return _scale(mean, shape) * float(dice.weibull(shape)) if mean < math.inf else mean


def _residual(dice: np.random.Generator, mean: float, shape: float) -> float:
    if mean == math.inf:
        return mean
    length_biased = float(dice.gamma(1 + 1 / shape)) ** (1 / shape)
    rest: float = dice.random() * _scale(mean, shape) * length_biased
    return rest
