"""Runs of the script's own step on less than a whole batch, whose errors are no refusal."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import ft
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
        raise type(error)(_told(error)) from error
    except (MatexError, ft.FtError):
        raise
    except Exception as error:
        raise NotShareable(f"{what}: {in_short(error)}") from error


def in_short(error: BaseException) -> str:
    """Kind and first words of *error*, in one line; pure."""
    return f"{type(error).__name__}: {_told(error)}"[:_LONGEST].rstrip(": ")


def _told(error: BaseException) -> str:
    """First line of *error*'s message that tells the cause.

    Keras puts the location before the cause, TensorFlow its own frame, AutoGraph lines of code.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind = f"{type(error).__name__}: "
    told = [line.removeprefix(kind) for line in lines if line.startswith(kind)]
    told = told or [line for line in lines if not line.startswith(_FRAMES)] or lines
    return told[0] if told else ""


_FRAMES = (
    "Exception encountered when calling",
    "Graph execution error",
    "Detected at node",
    "File ",
    "in user code",
    "Could not automatically infer",
)
