"""Table of the words of ``--compression``, and what they go with. Pure.

What they do is in the table of ``matex.exchange.reductions``, which has the same words.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMPRESSIONS", "Compression", "compression_of"]


class Compression(NamedTuple):
    """A way to send gradients, or models, in fewer bytes."""

    name: str
    """Word in the option."""
    most_rank: int = 0
    """The highest rank of factors, given behind the word; 0 for a word without one."""
    only_gradients: bool = False
    """Whether it is for gradients that are summed alone, not for models."""
    by_numpy: bool = False
    """Whether NumPy computes it, so that the native exchange cannot."""
    relative_error: float = 0.0
    """Largest error of rounding a number once, relative to the number."""
    block_error: float = 0.0
    """Largest error of rounding a number once, relative to the largest number in its block."""

    @property
    def form(self) -> str:
        """The word as it is given, such as ``powersgd:R``."""
        return f"{self.name}:R" if self.most_rank else self.name

    @property
    def example(self) -> str:
        """The word with a low rank if it has one: a value of the option."""
        return f"{self.name}:2" if self.most_rank else self.name

    @property
    def wanted(self) -> str:
        """The word as it is given, with its limits, for messages."""
        return f"{self.form} with R from 1 to {self.most_rank}" if self.most_rank else self.form

    def check_rank(self, given: str | None) -> None:
        """Refuse what is *given* behind the word, after a colon; None if there is no colon.

        Raises:
            ValueError: it is no rank, or the word has none.
        """
        if not self.most_rank:
            if given is not None:
                raise ValueError
            return
        rank = int(given or "")
        if not 1 <= rank <= self.most_rank or given != str(rank):
            raise ValueError


#: Compressions by their words, in the order in which they are named.
COMPRESSIONS = {
    row.name: row
    for row in (
        Compression("none"),
        Compression("fp16", relative_error=2.0**-11),
        Compression("bf16", relative_error=2.0**-8),
        Compression("int8", block_error=1 / 254),
        Compression("powersgd", most_rank=64, only_gradients=True, by_numpy=True),
    )
}


def compression_of(text: str) -> Compression:
    """Row of the word in *text*, a value of the option.

    Raises:
        ValueError: *text* is no such value.
    """
    name, colon, rank = text.partition(":")
    if name not in COMPRESSIONS:
        raise ValueError
    COMPRESSIONS[name].check_rank(rank if colon else None)
    return COMPRESSIONS[name]
