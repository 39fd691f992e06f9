"""The reason that is in an error of Keras's, without what surrounds it. Pure."""

from __future__ import annotations

from ft.error_text import cause_of

__all__ = ["reason_of"]


def reason_of(error: BaseException) -> str:
    """The line of *error* that says what is wrong; the name of its kind if none does."""
    return cause_of(error) or type(error).__name__
