"""The reason that is in an error of Keras's, without what surrounds it. Pure."""

from __future__ import annotations

import re

__all__ = ["reason_of"]

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CALLING = "Exception encountered when calling"


def reason_of(error: BaseException) -> str:
    """The line of *error* that says what is wrong.

    Where a layer's ``call`` fails, Keras puts the layer's name above the reason, and the arguments
    below it.
    """
    lines = [line.strip() for line in _STYLE.sub("", str(error)).splitlines()]
    told = [line for line in lines if line and not line.startswith(_CALLING)]
    return told[0] if told else type(error).__name__
