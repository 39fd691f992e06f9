"""Reasons for the end of ranks that wrote no summary."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from matex.launcher.exit_report import NOT_STARTED, Logs, exit_status, reason_of


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


@pytest.mark.parametrize(("resumable", "status"), [(True, 75), (False, 1)])
def test_a_run_that_was_asked_to_stop_ends_with_its_reason(
    resumable: bool, status: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The ranks' own line may be lost: a batch system tells their mpiexec to end, too."""
    reason = "asked to stop after step 7 (SIGTERM)"
    summary = {"status": "stopped", "resumable": resumable, "reason": reason}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert exit_status(tmp_path, "", Logs(tmp_path), ranks=2, kept=True) == status
    assert capfd.readouterr().out == f"matex: {reason}\n"
