"""Numbers for people: durations, milliseconds, bytes. Pure."""

from __future__ import annotations

__all__ = ["bytes_in_words", "duration", "milliseconds", "number"]


def duration(seconds: float) -> str:
    """*seconds* in the two largest units that matter, as in ``2 min 05 s``."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02} h"


def milliseconds(seconds: float | None) -> str:
    """*seconds* as milliseconds with three digits; "" if unknown."""
    if seconds is None:
        return ""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def bytes_in_words(count: int | None) -> str:
    """*count* bytes in decimal units; "" if unknown."""
    if count is None:
        return ""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


def number(value: float) -> str:
    """*value* in five digits, as a loss or a metric is shown."""
    return f"{value:.5g}"
