"""Generators that never end: how far one is read follows from the script, not from its speed."""

from __future__ import annotations

from pathlib import Path

from tests.train.runs import matex_run


def told(stdout: str) -> list[str]:
    words = ("trained", "evaluated", "predicted", "again")
    return [line for line in stdout.splitlines() if line.startswith(words)]


def test_ranks_of_different_speed_read_the_same(tmp_path: Path) -> None:
    for name in ("alone", "shared"):
        (tmp_path / name).mkdir()
    alone = matex_run(tmp_path / "alone", "generators.py", ranks=1)
    shared = matex_run(tmp_path / "shared", "generators.py", ranks=2)
    assert (alone.status, shared.status) == (0, 0), shared.stderr
    assert told(shared.stdout) == told(alone.stdout)
    assert len(told(alone.stdout)) == 4
