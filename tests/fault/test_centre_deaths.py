"""Workers and the server of a centre die on their way; the others have one model in the end.

So it is where each node of two ranks has a centre, and these have one above them.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest

from tests.fault.programs import begin, end_by, mark
from tests.fault.ranks import Job, run

STEPS = 30


def visit(kind: str, size: int, steps: int, plan: dict[int, tuple[int, str]]) -> None:
    """Every rank counts its steps in a weight of its own, and dies as *plan* says.

    ``plan[rank]`` is a step and when in it: before its collective, after it, or as soon as a
    message has been sent, or is awaited, from then on.
    """

    import numpy as np

    from ft import p2p
    from matex.strategies import (
        AllAtOnce,
        CentreRule,
        CentreStrategy,
        DownpourRule,
        ElasticRule,
        InTurn,
        nodes_by,
    )
    from tests.adagrad import Adagrad

    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    at, phase = plan.get(rank, (-1, ""))
    armed = ""

    def strike_after(cls: type, name: str, wanted: str) -> None:
        plain = getattr(cls, name)

        def call(self: object, *args: object, **named: object) -> object:
            result = plain(self, *args, **named)
            if armed == wanted:
                end_by("SIGKILL")
            return result

        setattr(cls, name, call)

    strike_after(p2p.Sending, "__init__", "sent")
    strike_after(p2p.Receiving, "__init__", "awaited")

    class Vector:
        weights = size

        def __init__(self) -> None:
            self.value = np.zeros(size + 2)

        def read(self) -> np.ndarray:
            return self.value.copy()

        def write(self, vector: np.ndarray) -> None:
            self.value = vector.copy()

    communicator = begin()
    vector = Vector()
    name, _, levels = kind.partition(" ")
    two = {"nodes": nodes_by(communicator, 2), "outer": 2} if levels else {}
    kinds: dict[str, tuple[CentreRule, Any]] = {
        "adagrad": (DownpourRule(optimizer=Adagrad(1.0)), InTurn),
        "downpour": (DownpourRule(momentum=0.8), InTurn),
        "downpour-sync": (DownpourRule(momentum=0.8), AllAtOnce),
        "easgd": (ElasticRule(), InTurn),
        "easgd-sync": (ElasticRule(), AllAtOnce),
    }
    rule, topology = kinds[name]
    strategy = CentreStrategy(communicator, vector, rule, topology(**two))
    versions = []
    for step in range(steps):
        strategy.before_step(step)
        if (at, phase) == (step, "before"):
            end_by("SIGKILL")
        communicator.barrier()  # in place of the step's collective
        if (at, phase) == (step, "after"):
            end_by("SIGKILL")
        armed = phase if at == step else armed
        vector.value[rank] += 1
        strategy.after_step(step)
        if not two:
            versions.append(strategy.exchange.version)
            mark("versions", versions)
            mark("slot", float(strategy.exchange.state[-1]))
        if step == 19:
            strategy.consensus()
    strategy.consensus()
    mark("model", [float(x) for x in vector.value[:8]])


# The server alone and with its successor at once, one after another, workers on their way.
PLANS: dict[str, tuple[int, dict[int, tuple[int, str]]]] = {
    "server": (4, {0: (9, "after")}),
    "server-sends": (3, {0: (8, "sent")}),
    "server-awaits": (4, {0: (8, "awaited")}),
    "server-and-next": (5, {0: (9, "before"), 1: (9, "sent")}),
    "one-after-another": (4, {0: (5, "after"), 1: (6, "before"), 2: (7, "sent")}),
    "worker-sends": (4, {2: (8, "sent")}),
    "worker-awaits": (3, {1: (8, "awaited"), 2: (21, "after")}),
}


def judge(job: Job, ranks: int, plan: dict[int, tuple[int, str]]) -> None:
    """The planned deaths and no others; one model, with what all have counted in it."""
    assert set(job["dying"]) == set(plan), job.output
    survivors = set(range(ranks)) - set(plan)
    assert job.ended == survivors, job.output
    models = [job["model"][rank] for rank in job.ended]
    assert models == [models[0]] * len(models)
    for rank in range(ranks):
        if rank in survivors:
            assert models[0][rank] > 1
        else:  # what it counted before its death at most, with what momentum makes of it
            assert 0 <= models[0][rank] <= 5 * (plan[rank][0] + 1)


@pytest.mark.parametrize("name", PLANS)
def test_who_is_left_has_one_model(name: str) -> None:
    ranks, plan = PLANS[name]
    kind = "easgd" if name in ("server-sends", "worker-awaits") else "downpour"
    large = name in ("server", "worker-sends")  # a message waits for its receiver then
    job = run(visit, ranks=ranks, kind=kind, size=50_000 if large else 8, steps=STEPS, plan=plan)
    judge(job, ranks, plan)
    if 0 in plan and name != "server-and-next":
        # All but the newest update, whose worker had not yet heard of it, and the server's own.
        before = job["versions"][0][-1]
        found = [job["versions"][rank][plan[0][0] + 2] for rank in job.ended]
        assert min(found) >= before - 2 > 0


def test_slots_of_the_centres_optimizer_outlive_its_servers_and_a_consensus() -> None:
    """The last of them counts its updates: those before the consensus, its own, and those since."""
    ranks, plan = PLANS["one-after-another"]
    job = run(visit, ranks=ranks, kind="adagrad", size=8, steps=STEPS, plan=plan)
    judge(job, ranks, plan)
    (survivor,) = job.ended
    versions = job["versions"][survivor]
    assert versions[19] > max(job["versions"][0]) > 0
    assert job["slot"][survivor] == versions[19] + 1 + versions[-1]


# Nodes are 0 and 1, 2 and 3, and 4. The first of each keeps its centre, and 0 that above them.
LEVELS: dict[str, tuple[int, dict[int, tuple[int, str]]]] = {
    "worker": (4, {1: (10, "sent")}),
    "worker-before": (3, {1: (9, "before")}),
    "node-server": (4, {2: (9, "sent")}),
    "node-server-awaits": (5, {2: (11, "awaited")}),
    "node-server-after": (5, {2: (12, "after")}),
    "top-server": (4, {0: (8, "sent")}),
    "top-server-awaits": (5, {0: (10, "awaited")}),
    "top-server-before": (3, {0: (15, "before")}),
    "all-servers": (5, {0: (16, "after"), 2: (16, "after"), 4: (16, "after")}),
    "servers-apart": (4, {0: (15, "after"), 2: (16, "sent")}),
    "node": (4, {2: (13, "before"), 3: (13, "after")}),
    "node-of-the-top": (5, {0: (13, "after"), 1: (13, "before")}),
    "one-node-left": (3, {2: (6, "after")}),
    "down-to-one": (4, {0: (5, "sent"), 2: (12, "before"), 3: (24, "after")}),
    "down-to-one-at-once": (3, {0: (12, "before"), 1: (12, "after")}),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    list(itertools.product(("downpour", "downpour-sync", "easgd", "easgd-sync"), LEVELS)),
)
def test_who_is_left_of_two_levels_has_one_model(kind: str, name: str) -> None:
    ranks, plan = LEVELS[name]
    large = name in ("worker", "top-server", "node-server-awaits")
    size = 50_000 if large else 8
    judge(run(visit, ranks=ranks, kind=f"{kind} 2", size=size, steps=STEPS, plan=plan), ranks, plan)
