"""The options of ``matex run`` by which ranks of the full layer share a training. Pure."""

from __future__ import annotations

import random

__all__ = ["STRATEGIES", "bound_of", "draw_way", "strategy_of", "takes_spares", "tolerance"]

Way = tuple[str, ...]

#: Each strategy with its options, and what --sync-every may be beside them.
STRATEGIES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("gossip", ()),
    ("gossip --compression int8", ()),
    ("daso --ranks-per-node 2", ()),
    ("daso --ranks-per-node 3", ()),
    ("easgd", (1, 2, 3, 4)),
    ("easgd --asynchronous", (2, 3, 4)),
    ("easgd --elastic-force 0.5", (1, 2, 3)),
    ("easgd --two-level --ranks-per-node 2", (1, 2)),
    ("downpour", (1, 2, 3, 4)),
    ("downpour --staleness-bound 0", (1, 3, 4)),
    ("downpour --staleness-bound 1", (2, 3, 4)),
    ("downpour --momentum 0.5", (1, 2, 4)),
    ("downpour --momentum 0.5 --staleness-bound 0", (2, 4)),
    ("downpour --centre-optimizer sgd:learning_rate=0.5,momentum=0.5", (1, 2, 4)),
    ("downpour --centre-optimizer sgd:learning_rate=1.0 --staleness-bound 0", (1, 2)),
    ("downpour --two-level --ranks-per-node 2", (2, 3)),
)
#: What goes with sync alone; often nothing.
_BESIDE_SYNC = (
    *("", "", "--balance", "--exchange-plan slices"),
    *("--compression fp16", "--compression int8", "--balance --compression bf16"),
    "--compression powersgd:2",
)

# Of a loss, relative to that of one rank alone: how far it may be. A wide model under Adam is
# 0.12 behind by easgd where nobody dies, for the centre must be moved as well.
_EXACT, _COMPRESSED, _APART = 1e-4, 1e-2, 0.25


def draw_way(dice: random.Random) -> Way:
    """A strategy other than sync in one of two cases."""
    if dice.random() < 0.5:
        return tuple(dice.choice(_BESIDE_SYNC).split())
    words, every = dice.choice(STRATEGIES)
    way = ["--strategy", *words.split()]
    if every and dice.random() < 0.7:
        way += ["--sync-every", str(dice.choice(every))]
    if dice.random() < 0.25:
        way += ["--lr-scaling", "sqrt", "--warmup-epochs", "0"]
    return tuple(way)


def strategy_of(way: Way) -> str:
    """The name of the strategy of *way*."""
    return way[way.index("--strategy") + 1] if "--strategy" in way else "sync"


def bound_of(way: Way) -> int | None:
    """The bound of the staleness of its pushes; None where there is none."""
    bounded = "--staleness-bound" in way
    return int(way[way.index("--staleness-bound") + 1]) if bounded else None


def takes_spares(way: Way) -> bool:
    """Whether matex run takes --spares beside it."""
    return strategy_of(way) == "sync" and "--balance" not in way


def tolerance(way: Way) -> float:
    """Largest difference of losses from those of one rank alone, relative to these."""
    if strategy_of(way) != "sync" or "powersgd:2" in way:
        return _APART
    return _COMPRESSED if "--compression" in way else _EXACT
