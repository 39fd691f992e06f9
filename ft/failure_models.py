"""When machines fail: seeded random fault plans. Pure.

Every rank and every node is a renewal process with Weibull intervals, shape *k*, and the
whole machine fails once in ``mtbf_s`` on average. *k* = 1 is the exponential model; failure
logs of large machines are fitted by *k* from 0.5 to 0.8 (Schroeder and Gibson, DSN 2006).

A machine is rarely new when a job starts. Intervals that begin with the job would make all
units young together, and the first failures come much too early when k < 1; so the first
interval of each unit is the rest of one that is under way (the stationary start),

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
    """What fails how often.

    Args:
        mtbf_s: mean time between failures of the whole machine, seconds.
        ranks: how many there are, placed on the nodes in blocks.
        nodes: how many hosts they are on.
        shape: Weibull's k; 1 is exponential.
        node_share: the part of failures that take a whole node.
        cascade: the probability that a failure is followed by another one inside its
            recovery; that one may be followed by a further one.
        kinds, phases: what a single rank's failure is, and where it strikes, each drawn
            with equal chances.

    Raises:
        UsageError: a value is out of its range.
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
        """The ranks of *node*."""
        return tuple(r for r in range(self.ranks) if r * self.nodes // self.ranks == node)


def sample(model: FailureModel, *, duration_s: float, seed: int) -> tuple[Fault, ...]:
    """The faults of *duration_s* seconds, in order; the same for the same *seed*.

    Nobody is repaired: the dead stay dead, so failures become rarer, and the last rank
    is spared.
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
    """*faults* that are due by time, due in the step that then runs when one takes *step_s*."""
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
    """Mean interval of one of *units* that make up *share* of the failures, seconds."""
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
