"""The reason that is in an error of Keras's, without what surrounds it. Pure."""

from __future__ import annotations

from ft.error_text import cause_of

__all__ = ["reason_of"]

_WRAPPED, _OBJECT = "Exception encountered: ", "Full object config"


def reason_of(error: BaseException) -> str:
    """The line of *error* that says what is wrong; the name of its kind if none does.

    Keras wraps an error in the loading of a model: a long advice, the cause, and a long object.
    """
    _, found, wrapped = str(error).rpartition(_WRAPPED)
    cause = wrapped.partition(_OBJECT)[0].strip() if found else ""
    return cause or cause_of(error) or type(error).__name__
