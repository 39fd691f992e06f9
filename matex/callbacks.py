"""Horovod's ``hvd.callbacks``: none of them is here, and the error says what to write instead."""

from __future__ import annotations

from typing import Any

from matex.compat import horovod


def __getattr__(name: str) -> Any:
    raise AttributeError(horovod.advice(__name__, name))
