"""Placeholder for Horovod's ``hvd.callbacks``: each name raises an error with a substitute."""

from __future__ import annotations

from typing import Any

from matex.compat import horovod


def __getattr__(name: str) -> Any:
    raise AttributeError(horovod.advice(__name__, name))
