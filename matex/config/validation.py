"""Rules on which options go together, and which do not. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from matex.config.compressions import COMPRESSIONS, compression_of
from matex.config.contradiction import Contradiction
from matex.config.named_arguments import KERAS_OPTIMIZERS, named_arguments, unfit_argument
from matex.config.option import options_of
from matex.config.options import OWN_ROWS, RankOptions

__all__ = ["check_together", "check_used"]

# Those in the memory of hosts are saved, kept and written in one way only.
_OF_FILES = (
    "checkpoint_every",
    "checkpoint_interval",
    "checkpoint_part_mb",
    "keep",
    "keep_every",
    "keep_best",
    "monitor",
)


def check_together(config: RankOptions) -> None:
    """Refuse options that contradict each other.

    Each is right by itself: the table has seen to that.

    Raises:
        Contradiction: naming the first two that do.
    """
    if config.lr_scaling != "none" and not config.batch_per_rank and config.strategy == "sync":
        raise Contradiction(
            "{lr_scaling} is for a batch that grows with the ranks, and for strategies with "
            "replicas that part: give {batch_per_rank} too. "
            "Received: {lr_scaling:=} with a constant global batch",
            config,
        )
    if config.exchange_plan == "flat" and config.compression != "none":
        raise Contradiction(
            "{exchange_plan} flat adds up numbers of 32 bits: leave it or {compression} out. "
            "Received: {exchange_plan:=} with {compression:=}",
            config,
        )
    _check_compression(config)
    _check_strategy(config)
    _check_centres(config)
    _check_shares(config)
    _check_deterministic(config)


def check_used(config: RankOptions, given: Collection[str]) -> None:
    """Refuse options of a command line that have no effect without another one.

    A script's own ``matex.init`` may give them, and leave the directory to its caller.

    Args:
        given: names of the options that were given, also with the values of their defaults.

    Raises:
        Contradiction: naming the first.
    """
    idle = {} if config.checkpoint is not None else dict.fromkeys(_OF_FILES, "{checkpoint} DIR")
    if not config.keep_best:
        idle.setdefault("monitor", "{keep_best} K")
    if config.lr_scaling == "none":
        idle["warmup_epochs"] = "{lr_scaling}"
    if not config.deterministic:
        idle["virtual"] = "{deterministic}"
    for option in options_of(type(config)):
        if option.name in idle and option.name in given:
            raise Contradiction(
                f"{{{option.name}}} wants {idle[option.name]}, where it has an effect. "
                f"Received: {{{option.name}:=}} without it",
                config,
            )


def _check_deterministic(config: RankOptions) -> None:
    """Refuse options that make results depend on the ranks, with ``--deterministic``."""
    if not config.deterministic:
        if config.virtual:
            raise Contradiction(
                "virtual workers are for {deterministic}: give it too. "
                "Received: {virtual:=} without it",
                config,
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
        raise Contradiction(
            f"{{deterministic}} does not go with {{{name}}}, by which bits follow from the ranks. "
            f"Received: {{{name}:=}}",
            config,
        )


def _check_compression(config: RankOptions) -> None:
    """Refuse a compression that is not for what is sent, or not for who sends it."""
    row = compression_of(config.compression)
    if row.only_gradients and config.strategy != "sync":
        *others, last = (
            name
            for name, other in COMPRESSIONS.items()
            if name != "none" and not other.only_gradients
        )
        raise Contradiction(
            f"{{compression}} {row.name} is for gradients: sync sends them, gossip takes "
            f"{', '.join(others)} and {last}. Received: {{compression:=}} with {{strategy:=}}",
            config,
        )
    if row.by_numpy and config.exchange == "native":
        raise Contradiction(
            f"{{compression}} {row.name} is computed by NumPy: leave {{exchange}} out, or give "
            "another {compression}. Received: {exchange:=} with {compression:=}",
            config,
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
        raise Contradiction(
            f"{{{option.name}}} {wanted}. Received: {{{option.name}:=}} with {{strategy:=}}", config
        )


def _check_centres(config: RankOptions) -> None:
    """Refuse a centre that cannot be: in two levels, or met in turn."""
    for option in options_of(type(config)):
        is_given, name = getattr(config, option.attribute) != option.default, option.name
        if is_given and config.strategy in option.two_level and not config.two_level:
            raise Contradiction(
                f"with strategy {config.strategy} {{{name}}} is for two levels: give {{two_level}} "
                f"too. Received: {{{name}:=}} without it",
                config,
            )
    if config.momentum and config.centre_optimizer:
        raise Contradiction(
            "the centre moves by one optimizer: give it the momentum as its own argument, such as "
            "sgd:momentum=0.5. Received: {momentum:=} with {centre_optimizer:=}",
            config,
        )
    if config.centre_optimizer is not None:
        name, arguments = named_arguments(config.centre_optimizer)
        if name.lower() not in KERAS_OPTIMIZERS:
            raise Contradiction(
                f"{{centre_optimizer}} must name an optimizer of Keras: one of "
                f"{', '.join(KERAS_OPTIMIZERS)}; adagrad:learning_rate=0.01 is one with an "
                "argument. Received: {centre_optimizer:=}",
                config,
            )
        if wanted := unfit_argument(arguments):
            raise Contradiction(
                f"{{centre_optimizer}} must have {wanted}. Received: {{centre_optimizer:=}}", config
            )
    if config.asynchronous and config.sync_every == 1:
        raise Contradiction(
            f"asynchronous {config.strategy} wants {{sync_every}} of at least 2, which a meeting "
            "takes. Received: {sync_every:=}",
            config,
        )


def _check_shares(config: RankOptions) -> None:
    """Refuse unequal shares of a batch if equal ones are required."""
    if config.straggler == "balance" and config.strategy != "sync":
        raise Contradiction(
            f"{{straggler}} balance wants strategy sync: {OWN_ROWS}. "
            "Received: {straggler:=} with {strategy:=}",
            config,
        )
    if config.straggler != "warn" and config.check_every == 0:
        raise Contradiction(
            "stragglers are looked for when replicas are compared: give {check_every} too. "
            "Received: {straggler:=} with {check_every:=}",
            config,
        )
    unequal = {"balance": config.balance, "straggler": config.straggler == "balance"}
    added = {"spares": config.spares, "respawn": config.respawn}
    if config.shuffle == "ring" and (found := _received({**unequal, **added})):
        raise Contradiction(
            "{shuffle} ring wants equal shares of the ranks that begin. " + found, config
        )
    name = next((name for name, value in added.items() if value), "")
    if name and (found := _received({**unequal, "batch_per_rank": config.batch_per_rank})):
        raise Contradiction(
            f"{{{name}}} wants a constant global batch in equal shares. {found}", config
        )


def _received(options: dict[str, Any]) -> str:
    """Text about the *options* whose values are true; "" if none is."""
    given = [f"{{{name}:=}}" for name, value in options.items() if value]
    return f"Received: {', '.join(given)}" if given else ""
