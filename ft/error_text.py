"""The cause in the text of an error, which frameworks print below headings and frames. Pure."""

from __future__ import annotations

import re

__all__ = ["cause_of", "in_one_line"]

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Keras puts the location before the cause, TensorFlow its own frames, AutoGraph lines of code.
_ABOVE = re.compile(
    r"Exception encountered when calling|Graph execution error|Detected at node|File |in user code|"
    r"Could not automatically infer|\d+ root error\(s\) found"
)


def cause_of(error: BaseException) -> str:
    """First line of *error*'s message that tells the cause; "" if there is none."""
    text = _STYLE.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind = f"{type(error).__name__}: "
    told = [line.removeprefix(kind) for line in lines if line.startswith(kind)]
    told = told or [line for line in lines if not _ABOVE.match(line)] or lines
    return told[0] if told else ""


def in_one_line(error: BaseException) -> str:
    """Kind of *error* and its cause, if it tells one."""
    cause = cause_of(error)
    return f"{type(error).__name__}: {cause}" if cause else type(error).__name__
