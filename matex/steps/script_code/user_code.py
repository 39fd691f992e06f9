"""Errors of the script's code on a part of a batch, turned into NotShareable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import ft
from ft.error_text import cause_of, in_one_line
from matex.errors import MatexError, NotShareable

__all__ = ["attempted", "in_short"]

_LONGEST = 160


@contextlib.contextmanager
def attempted(what: str) -> Iterator[None]:
    """Context that runs the script's own code on a part of a batch or on one of any size. Local.

    Raises:
        NotShareable: the code raised an exception. A mistake in it raises again on the whole
            batch, as with plain Keras.
    """
    try:
        yield
    except NotShareable as error:
        raise type(error)(cause_of(error)) from error
    except (MatexError, ft.FtError):
        raise
    except Exception as error:
        raise NotShareable(f"{what}: {in_short(error)}") from error


def in_short(error: BaseException) -> str:
    """Kind and first words of *error*, in one line; pure."""
    return in_one_line(error)[:_LONGEST].rstrip(": ")
