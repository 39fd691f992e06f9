"""A fixed part of the chaos suite; ``python ci/chaos.py`` makes thousands of runs."""

from __future__ import annotations

import sys

from tests.fault.ranks import ROOT, execute, scratch


def test_random_faults_break_nothing() -> None:
    with scratch() as directory:
        output = execute(
            [sys.executable, str(ROOT / "ci" / "chaos.py"), "--runs", "12", "--seed", "168"],
            directory=directory,
            timeout_s=100,
        )
    runs = [line for line in output.splitlines() if line.startswith("seed ")]
    assert len(runs) >= 12
    assert any("aside)" in line for line in runs)  # with spares
    assert all(line.endswith(": ok") for line in runs), output
