"""Numbers with units, for display. Pure."""

from __future__ import annotations

__all__ = ["bytes_text", "rate_text", "time_text"]

_STEPS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def bytes_text(count: float) -> str:
    """Number of bytes as text, such as ``150 MB``."""
    for unit, size in _STEPS:
        if count >= size:
            return f"{_three(count / size)} {unit}"
    return f"{count:.0f} B"


def rate_text(bandwidth: float) -> str:
    """Bytes per second as text, such as ``11.9 MB/s``."""
    return f"{bytes_text(bandwidth)}/s"


def time_text(seconds: float) -> str:
    """Duration as text, such as ``1.05 ms``."""
    return f"{_three(seconds)} s" if seconds >= 1 else f"{_three(1e3 * seconds)} ms"


def _three(value: float) -> str:
    """The number with three digits that count, and never as a power of ten."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
