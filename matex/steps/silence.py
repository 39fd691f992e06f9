"""Suppression of output from computations that the script did not ask for."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

__all__ = ["unheard"]


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Suppress prints and warnings of the script's own code, which another call shows; local.

    ``warnings.catch_warnings`` would not do: it makes Python forget which warnings it has shown,
    and shows them again.
    """
    warn = warnings.warn
    warnings.warn = lambda *args, **kwargs: None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        warnings.warn = warn
