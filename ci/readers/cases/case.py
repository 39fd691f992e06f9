"""What a line of the table is: a file by an outside writer, and what an outside reader gives."""

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
        name: what is particular about it.
        file: its name, which matex may go by.
        write: makes it, at a path of that name.
        read: what the outside reader gives of it; without one matex must refuse it.
        word: a regular expression that the true reason for refusing it, or for passing a member
            over, matches in any case of letters; "" where it must be read.
        options: of ``matex.data.open``.
        within: by how much values may differ, where decoders do.
    """

    name: str
    file: str
    write: Callable[[Path], Close | None]
    read: Callable[[Path], Members] | None = None
    word: str = ""
    options: Mapping[str, Any] = {}
    within: float = 0.0
