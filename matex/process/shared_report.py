"""The report directory of ranks that may have started without ``matex run``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ft
from matex.errors import InputError
from matex.launcher.earlier_report import claim

__all__ = ["claim_together"]

_MOST_BYTES = 4096


def claim_together(report: Path, communicator: ft.Communicator) -> None:
    """Claim *report* for this run, by :func:`matex.launcher.earlier_report.claim`; collective.

    The leader does so before any rank writes there.

    Raises:
        InputError: it is refused; on every rank.
    """
    refusal = np.zeros(_MOST_BYTES, np.uint8)
    if communicator.world.is_leader:
        try:
            claim(report)
        except InputError as error:
            text = str(error).encode()[:_MOST_BYTES]
            refusal[: len(text)] = np.frombuffer(text, np.uint8)
    communicator.broadcast(refusal)
    if refusal.any():
        raise InputError(refusal.tobytes().rstrip(b"\0").decode(errors="replace"))
