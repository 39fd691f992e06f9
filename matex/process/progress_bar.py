"""Output streams of Keras's progress bar: discarded, or with text beside the bar."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from matex.run.context import RunContext

__all__ = ["BesideBar", "Nowhere", "StreamBeside", "living_ranks"]

_STYLES = re.compile(r"\x1b\[[0-9;]*m|[\b\r]")  # sequences that take no column
_ERASE = "\x1b[K"  # from here to the end of the line


class BesideBar(NamedTuple):
    """Text that a progress bar on a terminal shows after its metrics.

    Args:
        words: function that returns the text, such as ``ranks: 3/4``.
        columns: width of the terminal; 0 if unknown.
    """

    words: Callable[[], str]
    columns: int = 0


def living_ranks(run: RunContext) -> BesideBar | None:
    """Text with the number of living ranks of *run*, if bars are on a terminal. Local."""
    shown = run.config.shown_ranks
    if not shown:
        return None
    return BesideBar(
        lambda: f"ranks: {run.ranks.size_of(run.communicator.world)}/{shown}",
        run.config.shown_columns,
    )


class Nowhere(io.TextIOBase):
    """A stream of which nothing is seen."""

    def write(self, text: str) -> int:
        return len(text)


class StreamBeside(io.TextIOBase):
    """Stream that adds text to progress bars; other output is unchanged.

    Keras writes a bar in one piece, with a carriage return before it, and spaces behind it where
    the bar before was longer. A bar that the next one overwrites stays in its line, since
    terminals do not go back to the line above.

    Args:
        stream: the stream to which all goes on.
        beside: the words.
    """

    def __init__(self, stream: TextIO, beside: BesideBar) -> None:
        self._stream = stream
        self._beside = beside

    def write(self, text: str) -> int:
        if "\r" in text:
            text = self._with_words(text)
        return self._stream.write(text)

    def _with_words(self, text: str) -> str:
        bar = text.rstrip("\n")
        end = text[len(bar) :]
        bar = bar.rstrip(" ")
        words = f" - {self._beside.words()}"
        room = self._beside.columns - len(_STYLES.sub("", bar))
        if not end and self._beside.columns > 0 and room <= len(words):
            words = ""
        return bar.replace("\r", f"\r{_ERASE}", 1) + words + end

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()
