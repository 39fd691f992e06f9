"""Suppression of warnings that are not for the user. Local."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from matex.replacing import replaced

__all__ = ["unwarned"]


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Suppress warnings, on all threads of this process; local.

    ``warnings.catch_warnings`` would not do: it makes Python forget which warnings it has shown,
    and shows them again.
    """
    with replaced(warnings, "warn", lambda *args, **kwargs: None):
        yield
