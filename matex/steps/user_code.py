"""The script's own step on less than a whole batch: whatever it raises, it is not refused."""

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
    """Run the script's own code inside, on a part of a batch or on one of any size. Local.

    Raises:
        NotShareable: it raised something. Where that is a mistake, it raises it again on the whole
            batch, where plain Keras does.
    """
    try:
        yield
    except (MatexError, ft.FtError):
        raise
    except Exception as error:
        raise NotShareable(f"{what}: {in_short(error)}") from error


def in_short(error: BaseException) -> str:
    """Kind and first words of *error*, in one line; pure."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Keras puts the place before the cause, TensorFlow its own frame.
    told = [line for line in lines if not line.startswith(_FRAMES)] or lines
    return f"{type(error).__name__}: {told[0] if told else ''}"[:_LONGEST].rstrip(": ")


_FRAMES = (
    "Exception encountered when calling",
    "Graph execution error",
    "Detected at node",
    "File ",
    "in user code",
    "Could not automatically infer",
)
