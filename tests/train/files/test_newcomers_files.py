"""Files of a script whose leader is, in the end, a rank that took a place during the run."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from tests.train.runs import SCRIPTS, execute, faults, matex_run

SCRIPT = SCRIPTS / "written_by_epochs.py"
SPARE = ["--spares", "1", *faults("kill:rank=0,step=25", "kill:rank=1,step=35")]
RESPAWNED = ["--respawn", *faults("kill:rank=0,step=3", "kill:rank=1,step=190")]


def content(folder: Path) -> dict[str, bytes | list[tuple[int, int]] | None]:
    found: dict[str, bytes | list[tuple[int, int]] | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".db":
            base = sqlite3.connect(path)
            found[name] = base.execute("select * from epochs").fetchall()
            base.close()
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("options", "epochs", "rest_s"), [(SPARE, 3, 0.0), (RESPAWNED, 10, 1.0)], ids=["spare", "new"]
)
def test_a_newcomer_that_leads_continues_the_files_of_the_dead(
    options: list[str], epochs: int, rest_s: float, tmp_path: Path
) -> None:
    """Both ranks of the start die, and with them the only ones that have seen all epochs."""
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    done = execute([sys.executable, SCRIPT, plain, str(epochs), "0"], directory=tmp_path)
    assert done.returncode == 0, done.stderr
    outcome = matex_run(
        tmp_path, SCRIPT, ours, str(epochs), str(rest_s), ranks=2, options=options, timeout_s=200
    )
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert {fault["rank"] for fault in outcome.summary["faults"]} == {0, 1}
    assert content(ours) == content(plain)
