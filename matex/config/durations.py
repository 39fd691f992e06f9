"""Durations in the format of batch systems: ``HH:MM:SS``. Pure."""

from __future__ import annotations

import re

__all__ = ["duration_s", "duration_text"]


def duration_s(text: str) -> float:
    """Seconds of ``HH:MM:SS`` or ``D-HH:MM:SS``, as batch systems write them.

    Raises:
        ValueError: written otherwise, or no time at all.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", text)
    days, hours, minutes, seconds = (
        (int(part or 0) for part in match.groups()) if match else [0] * 4
    )
    if not days + hours + minutes + seconds:
        raise ValueError(f"a time HH:MM:SS above zero was wanted. Received: {text!r}")
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def duration_text(seconds: float) -> str:
    """*seconds* as ``HH:MM:SS``, rounded up, at least one second."""
    whole = max(1, int(-(-seconds // 1)))
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
