"""The run that this process takes part in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matex.process.keras_adapter import Runtime

__all__ = ["runtime"]

#: None before the ranks have met, and in a process that takes part in no run. Only
#: :mod:`matex.process.bootstrap` sets it, once.
runtime: Runtime | None = None
