"""Suppression of output from computations that the script did not ask for."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

from matex.keras_hooks.warning import unwarned
from matex.records import console

__all__ = ["unheard"]


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Suppress prints and warnings of the script's own code, which another call shows; local."""
    with unwarned(), console.muted(), contextlib.redirect_stdout(io.StringIO()):
        yield
