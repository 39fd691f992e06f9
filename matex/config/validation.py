"""Rules on which options go together, and which do not. Pure."""

from __future__ import annotations

from matex.config.option import options_of
from matex.config.options import OWN_ROWS, RankOptions
from matex.errors import InputError

__all__ = ["check_together"]


def check_together(config: RankOptions) -> None:
    """Refuse options that contradict each other.

    Each is right by itself: the table has seen to that.

    Raises:
        InputError: naming the first two that do.
    """
    if config.lr_scaling != "none" and not config.batch_per_rank and config.strategy == "sync":
        raise InputError(
            "lr_scaling is for a batch that grows with the ranks, and for strategies with "
            "replicas that part: give batch_per_rank too. "
            f"Received: lr_scaling={config.lr_scaling!r} with a constant global batch"
        )
    if config.exchange_plan == "flat" and config.compression != "none":
        raise InputError(
            "exchange_plan flat adds up numbers of 32 bits: leave it or compression out. "
            f"Received: exchange_plan='flat' with compression={config.compression!r}"
        )
    if config.compression.startswith("powersgd") and config.strategy != "sync":
        raise InputError(
            "compression powersgd is for gradients: sync sends them, gossip takes fp16, bf16 and "
            f"int8. Received: compression={config.compression!r} with strategy={config.strategy!r}"
        )
    _check_strategy(config)
    _check_centres(config)
    _check_shares(config)
    _check_deterministic(config)


def _check_deterministic(config: RankOptions) -> None:
    """Refuse options by which bits depend on the ranks, where they must not."""
    if not config.deterministic:
        if config.virtual:
            raise InputError(
                "virtual workers are for deterministic: give it too. "
                f"Received: virtual={config.virtual} without it"
            )
        return
    refused = {
        "batch_per_rank": config.batch_per_rank,
        "compression": config.compression != "none",
        "shuffle": config.shuffle == "ring",
        "apoptosis": bool(config.apoptosis),
        "nonfinite": config.nonfinite == "skip",
    }
    for name in (name for name, is_given in refused.items() if is_given):
        raise InputError(
            f"deterministic does not go with {name}, by which bits follow from the ranks. "
            f"Received: {name}={getattr(config, name)!r}"
        )


def _check_strategy(config: RankOptions) -> None:
    """Refuse an option that the strategy does not know."""
    for option in options_of(type(config)):
        value = getattr(config, option.attribute)
        if value == option.default or not option.strategies or config.strategy in option.strategies:
            continue
        which = " and ".join(option.strategies)
        wanted = (
            f"wants strategy {which}: {option.why}" if option.why else f"is for strategy {which}"
        )
        raise InputError(
            f"{option.name} {wanted}. "
            f"Received: {option.name}={value!r} with strategy={config.strategy!r}"
        )


def _check_centres(config: RankOptions) -> None:
    """Refuse a centre that cannot be: in two levels, or met in turn."""
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
    if config.momentum and config.centre_optimizer:
        raise InputError(
            "the centre moves by one optimizer: give it the momentum as its own argument, such as "
            f"sgd:momentum=0.5. Received: momentum={config.momentum} with "
            f"centre_optimizer={config.centre_optimizer!r}"
        )
    if config.asynchronous and config.sync_every == 1:
        raise InputError(
            "asynchronous easgd wants a sync_every of at least 2, which a meeting takes. "
            "Received: sync_every=1"
        )


def _check_shares(config: RankOptions) -> None:
    """Refuse unequal shares of a batch where equal ones are wanted."""
    if config.straggler == "balance" and config.strategy != "sync":
        raise InputError(
            f"straggler balance wants strategy sync: {OWN_ROWS}. "
            f"Received: straggler='balance' with strategy={config.strategy!r}"
        )
    if config.straggler != "warn" and config.check_every == 0:
        raise InputError(
            "stragglers are looked for when replicas are compared: give check_every too. "
            f"Received: straggler={config.straggler!r} with check_every=0"
        )
    unequal = config.balance or config.straggler == "balance"
    added = "spares" if config.spares else "respawn" if config.respawn else ""
    if config.shuffle == "ring" and (unequal or added):
        raise InputError(
            "shuffle ring wants equal shares of the ranks that begin. Received: "
            f"balance={config.balance}, straggler={config.straggler!r}, "
            f"spares={config.spares}, respawn={config.respawn}"
        )
    if added and (unequal or config.batch_per_rank):
        raise InputError(
            f"{added} wants a constant global batch in equal shares. Received: "
            f"balance={config.balance}, straggler={config.straggler!r}, "
            f"batch_per_rank={config.batch_per_rank}"
        )
