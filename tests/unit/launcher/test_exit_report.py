"""Reasons for the end of ranks that wrote no summary."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from matex.launcher.exit_report import NOT_STARTED, Logs, reason_of


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (-signal.SIGSEGV, "mpiexec crashed (SIGSEGV)"),
        (-signal.SIGKILL, "mpiexec was killed (SIGKILL)"),
        (1, NOT_STARTED),
    ],
)
def test_the_status_gives_the_reason_without_events(
    status: int, reason: str, tmp_path: Path
) -> None:
    assert reason_of(tmp_path, Logs(tmp_path), status=status) == reason
