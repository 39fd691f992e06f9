"""Which values options take, and which of them go together. Pure."""

from __future__ import annotations

from typing import Any

from matex.apoptosis.schedule import MODES
from matex.config.lr_scaling import SCALINGS
from matex.errors import InputError

__all__ = [
    "APOPTOSIS",
    "COMPRESSIONS",
    "EXCHANGES",
    "POLICIES",
    "SHUFFLES",
    "STRAGGLERS",
    "STRATEGIES",
    "check",
]

EXCHANGES = ("auto", "native", "host")
APOPTOSIS = tuple(MODES)
POLICIES = ("stop", "skip", "recompute")
STRAGGLERS = ("warn", "evict", "balance")
COMPRESSIONS = ("none", "fp16", "bf16")
SHUFFLES = ("whole", "ring")
STRATEGIES = ("sync", "gossip", "daso", "easgd", "downpour")

_WORDS = {
    "exchange": EXCHANGES,
    "nonfinite": POLICIES,
    "straggler": STRAGGLERS,
    "apoptosis": ("", *APOPTOSIS),
    "strategy": STRATEGIES,
    "shuffle": SHUFFLES,
    "lr_scaling": SCALINGS,
    "compression": COMPRESSIONS,
}

_OWN_ROWS = "elsewhere each rank's own rows make its update"

# What only replicas that are equal can do: option, its default, and why.
_SYNC_ONLY = (
    ("apoptosis", "", "all ranks must remove the same units"),
    ("compression", "none", "elsewhere no gradients travel"),
    ("balance", False, _OWN_ROWS),
    ("spares", 0, "a spare takes over a state that all ranks share"),
)

# What only some strategies know: option, its default, and which.
_OF_STRATEGIES: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("ranks_per_node", 0, ("daso", "easgd", "downpour")),
    ("two_level", False, ("easgd", "downpour")),
    ("outer_every", 0, ("easgd", "downpour")),
    ("sync_every", 0, ("easgd", "downpour")),
    ("asynchronous", False, ("easgd",)),
    ("staleness_bound", None, ("downpour",)),
    ("momentum", 0.0, ("downpour",)),
)

_LEAST = {
    **{"checkpoint_every": 0, "checkpoint_interval": 0, "keep": 1, "keep_every": 0},
    **{"keep_best": 0, "seed": 0, "spares": 0, "threads": 0, "wall_time": 0, "grow_to": 0},
    **{"warmup_epochs": 0, "ranks_per_node": 0, "sync_every": 0, "momentum": 0},
    **{"outer_every": 0},
}


def check(config: Any) -> None:
    """Refuse what a :class:`matex.config.Config` cannot mean.

    Raises:
        InputError: naming the first option that is wrong.
    """
    for name, least in _LEAST.items():
        if not getattr(config, name) >= least:
            raise InputError(
                f"{name} must be at least {least}. Received: {name}={getattr(config, name)}"
            )
    for name in ("hang_timeout", "memory_every"):
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise InputError(f"{name} must be above 0 seconds. Received: {value}")
    for name in ("check_every", "checkpoint_part_mb", "staleness_bound"):
        value = getattr(config, name)
        if value is not None and not value >= 0:
            raise InputError(f"{name} must be at least 0. Received: {name}={value}")
    for name, words in _WORDS.items():
        if getattr(config, name) not in words:
            known = ", ".join(word for word in words if word)
            raise InputError(f"{name} must be one of {known}. Received: {getattr(config, name)!r}")
    if not config.momentum < 1:
        raise InputError(f"momentum must be below 1. Received: momentum={config.momentum}")
    if config.lr_scaling != "none" and not config.batch_per_rank and config.strategy == "sync":
        raise InputError(
            "lr_scaling is for a batch that grows with the ranks, and for strategies with "
            "replicas that part: give batch_per_rank too. "
            f"Received: lr_scaling={config.lr_scaling!r} with a constant global batch"
        )
    for name, default, which in _OF_STRATEGIES:
        if getattr(config, name) != default and config.strategy not in which:
            raise InputError(
                f"{name} is for strategy {' and '.join(which)}. "
                f"Received: {name}={getattr(config, name)} with strategy={config.strategy!r}"
            )
    for name in ("ranks_per_node", "outer_every"):
        if getattr(config, name) and config.strategy != "daso" and not config.two_level:
            raise InputError(
                f"with strategy {config.strategy} {name} is for two levels: give two_level too. "
                f"Received: {name}={getattr(config, name)} without it"
            )
    if config.outer_every == 1:
        raise InputError(
            "outer_every must be at least 2, so that nodes meet more seldom than their ranks. "
            "Received: outer_every=1; or leave two_level out"
        )
    if config.asynchronous and config.sync_every == 1:
        raise InputError(
            "asynchronous easgd wants a sync_every of at least 2, which a meeting takes. "
            "Received: sync_every=1"
        )
    for name, plain, why in _SYNC_ONLY:
        if getattr(config, name) != plain and config.strategy != "sync":
            raise InputError(
                f"{name} wants strategy sync: {why}. "
                f"Received: {name}={getattr(config, name)!r} with strategy={config.strategy!r}"
            )
    if config.straggler == "balance" and config.strategy != "sync":
        raise InputError(
            f"straggler balance wants strategy sync: {_OWN_ROWS}. "
            f"Received: strategy={config.strategy!r}"
        )
    if config.straggler != "warn" and config.check_every == 0:
        raise InputError(
            "stragglers are looked for when replicas are compared: give check_every too. "
            f"Received: straggler={config.straggler!r} with check_every=0"
        )
    if config.shuffle == "ring" and (
        config.balance or config.straggler == "balance" or config.spares
    ):
        raise InputError(
            "shuffle ring wants equal shares of the ranks that begin. Received: "
            f"balance={config.balance}, straggler={config.straggler!r}, spares={config.spares}"
        )
    if config.spares and (config.balance or config.straggler == "balance" or config.batch_per_rank):
        raise InputError(
            "spares want a constant global batch in equal shares. Received: "
            f"balance={config.balance}, straggler={config.straggler!r}, "
            f"batch_per_rank={config.batch_per_rank}"
        )
