"""One frozen configuration; this is the only module that reads the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import ft
from matex.allocation import Allocation, allocation
from matex.errors import InputError
from matex.schedules import SCALINGS

__all__ = ["COMPRESSIONS", "EXCHANGES", "STRATEGIES", "Config", "batch_job", "visible_gpus"]

EXCHANGES = ("auto", "native", "host")
COMPRESSIONS = ("none", "fp16", "bf16")
STRATEGIES = ("sync", "gossip", "easgd")


_WORDS = {
    "exchange": EXCHANGES,
    "strategy": STRATEGIES,
    "lr_scaling": SCALINGS,
    "compression": COMPRESSIONS,
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a run is told from outside. All ranks must be given equal values.

    Args:
        report: directory for events, logs and the summary; none are written without it.
        checkpoint: directory of checkpoints; a run continues from the newest valid one in it.
        checkpoint_every: steps between checkpoints inside an epoch; 0 means at epoch ends only.
        keep: how many checkpoints are kept.
        seed: seeds Keras, NumPy and Python before the script runs, alike on all ranks.
        inject: faults, as written on the command line.
        hang_timeout: seconds without progress after which a rank ends itself.
        threads: TensorFlow threads of a rank; 0 divides the host's cores among its ranks.
        exchange: how gradients travel: "native" (an operation in C++), "host" (through
            mpi4py), or "auto" for native where it can be had.
        strategy: how ranks share the work of a fit, one of ``STRATEGIES``.
        batch_per_rank: the script's batch size is that of each rank, so the global batch is
            as many times larger as there are ranks, and shrinks when one dies.
        lr_scaling: by what the learning rate is multiplied then, one of ``SCALINGS``.
        warmup_epochs: in which that factor climbs from 1.
        compression: numbers of 16 bits in which gradients travel, or "none" for 32.
        cache: directory where the native exchange is kept once it is built.
    """

    report: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 0
    keep: int = 3
    seed: int = 0
    inject: tuple[str, ...] = ()
    hang_timeout: float = 600.0
    threads: int = 0
    exchange: str = "auto"
    strategy: str = "sync"
    batch_per_rank: bool = False
    lr_scaling: str = "none"
    warmup_epochs: float = 5.0
    compression: str = "none"
    cache: Path | None = None

    def __post_init__(self) -> None:
        for name, least in (("checkpoint_every", 0), ("keep", 1), ("seed", 0), ("threads", 0)):
            if getattr(self, name) < least:
                raise InputError(
                    f"{name} must be at least {least}. Received: {name}={getattr(self, name)}"
                )
        if not self.hang_timeout > 0:
            raise InputError(f"hang_timeout must be above 0 seconds. Received: {self.hang_timeout}")
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise InputError(
                    f"{name} must be one of {', '.join(words)}. Received: {getattr(self, name)!r}"
                )
        if not self.warmup_epochs >= 0:
            raise InputError(
                f"warmup_epochs must be at least 0. Received: warmup_epochs={self.warmup_epochs}"
            )
        if self.lr_scaling != "none" and not self.batch_per_rank:
            raise InputError(
                "lr_scaling is for a batch that grows with the ranks: give batch_per_rank too. "
                f"Received: lr_scaling={self.lr_scaling!r} with a constant global batch"
            )
        _ = self.faults

    @property
    def faults(self) -> tuple[ft.Fault, ...]:
        """The injected faults, parsed."""
        return tuple(ft.parse_fault(text) for text in self.inject)

    @property
    def cache_directory(self) -> Path:
        """The given one, else the user's own as the XDG specification has it."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return self.cache or Path(base) / "matex"

    @classmethod
    def from_environment(cls, **given: Any) -> Config:
        """``MATEX_<FIELD>`` variables, overridden by *given*; ``MATEX_INJECT`` splits at blanks."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = os.environ.get(f"MATEX_{field.name.upper()}")
            if text is not None and field.name not in given:
                values[field.name] = _read(field.name, text)
        try:
            return replace(cls(), **values, **given)
        except TypeError:
            known = ", ".join(field.name for field in fields(cls))
            raise InputError(f"options are {known}. Received: {', '.join(given)}") from None


def batch_job() -> Allocation | None:
    """The allocation of the batch job that this process runs in, if it does."""
    return allocation(os.environ, lambda path: Path(path).read_text())


def visible_gpus() -> str:
    """To which GPUs the environment restricts this process; equal where they are the same."""
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    return " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)


_KINDS: dict[str, Any] = {
    "report": Path,
    "checkpoint": Path,
    "checkpoint_every": int,
    "keep": int,
    "seed": int,
    "inject": lambda text: tuple(text.split()),
    "hang_timeout": float,
    "threads": int,
    "exchange": str,
    "strategy": str,
    "batch_per_rank": lambda text: bool(int(text)),
    "lr_scaling": str,
    "warmup_epochs": float,
    "compression": str,
    "cache": Path,
}


def _read(name: str, text: str) -> Any:
    try:
        return _KINDS[name](text)
    except ValueError:
        raise InputError(
            f"environment variable MATEX_{name.upper()} must be a number. Received: {text!r}"
        ) from None
