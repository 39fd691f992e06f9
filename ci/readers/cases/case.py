"""A line of the table: a file by an outside writer, and the values of an outside reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Case", "Close", "Members"]

#: Name of a member -> its values; masked where missing, None where it is no rows of numbers.
Members = Mapping[str, Any]
#: Ends what keeps the file open elsewhere.
Close = Callable[[], None]


class Case(NamedTuple):
    """One file.

    Attributes:
        name: words for what is particular about it.
        file: file name, by which matex may recognise its format.
        write: function that makes the file at a path of that name.
        read: function that reads it by the outside reader; None where matex must refuse it.
        word: a regular expression that the true reason for refusing it, or for passing a member
            over, matches in any case of letters; "" where it must be read.
        options: options of ``matex.data.open``.
        within: largest difference of values, where decoders differ.
    """

    name: str
    file: str
    write: Callable[[Path], Close | None]
    read: Callable[[Path], Members] | None = None
    word: str = ""
    options: Mapping[str, Any] = {}
    within: float = 0.0
