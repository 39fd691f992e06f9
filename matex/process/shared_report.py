"""The report directory of ranks that may have started without ``matex run``."""

from __future__ import annotations

from pathlib import Path

import ft
from matex.errors import InputError
from matex.launcher.earlier_report import claim

__all__ = ["claim_together"]


def claim_together(report: Path, communicator: ft.Communicator) -> None:
    """Claim *report* for this run, by :func:`matex.launcher.earlier_report.claim`; collective.

    The leader does so before any rank writes there.

    Raises:
        InputError: it is refused; on every rank.
    """

    def look() -> bytes:
        try:
            claim(report)
        except InputError as error:
            return str(error).encode()
        return b""

    if refusal := ft.one_answer(communicator, look):
        raise InputError(refusal.decode())
