"""The frozen configuration of a rank, and values that follow from its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ft
from matex.config.contradiction import Contradiction
from matex.config.environment import user_cache
from matex.config.given import make, names_given
from matex.config.options import RankOptions
from matex.config.validation import check_together, check_used
from matex.errors import InputError

__all__ = ["Config", "read_plan"]


@dataclass(frozen=True, kw_only=True)
class Config(RankOptions):
    """Configuration of a rank; its fields are the options of :class:`RankOptions`.

    Raises:
        InputError: naming the first option that is wrong.
        ft.FaultSyntaxError: a fault is.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_together(self)
        _ = self.faults

    @cached_property
    def faults(self) -> tuple[ft.Fault, ...]:
        """Injected faults, parsed: single ones, then those of the plan."""
        single = tuple(ft.parse_fault(text) for text in self.inject)
        return single + (() if self.inject_file is None else read_plan(self.inject_file))

    @property
    def cache_directory(self) -> Path:
        """Directory of built files: the given one, else the user's default."""
        return self.cache or user_cache() / "matex"

    @classmethod
    def from_environment(cls, **given: Any) -> Config:
        """The configuration of ``MATEX_*`` variables, overridden by *given*.

        Raises:
            InputError: an option is unknown or wrong.
        """
        return make(cls, **given)

    @classmethod
    def from_words(cls, words: Mapping[str, Any]) -> Config:
        """The configuration of ``MATEX_*`` variables, overridden by *words* of a command line.

        Raises:
            InputError: an option is wrong, contradicts another one, or has no effect without it.
        """
        try:
            config = make(cls, words=words)
            check_used(config, names_given(cls, words))
        except Contradiction as error:
            raise InputError(error.on_command_line) from None
        return config


def read_plan(path: Path) -> tuple[ft.Fault, ...]:
    """The fault plan in the CSV file *path*.

    Raises:
        InputError: the file cannot be read.
        ft.FaultSyntaxError: naming the line that is wrong.
    """
    try:
        return ft.read_plan(path.read_text(encoding="utf-8-sig").splitlines(), name=str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"a fault plan must be a CSV file. Received: {path}: {reason}") from None
