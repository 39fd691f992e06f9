"""Silence for what is computed beside what the script asked for."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

__all__ = ["unheard"]


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Suppress what the script's own code prints and warns of: another call says it; local.

    ``warnings.catch_warnings`` would not do: it makes Python forget which warnings it has shown
    once, and shows them again.
    """
    warn = warnings.warn
    warnings.warn = lambda *args, **kwargs: None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        warnings.warn = warn
