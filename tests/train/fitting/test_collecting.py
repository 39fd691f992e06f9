"""Callbacks of a script hold and do the same on every rank, and the same as in plain Keras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import slow
from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run


def told(text: str) -> dict[str, Any]:
    """Values of the script's lines that begin with "told"."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("told "):
            found |= json.loads(line.removeprefix("told "))
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("plain")
    done = execute([*PLAIN, SCRIPTS / "collecting.py"], directory=folder)
    assert done.returncode == 0, done.stderr
    return told(done.stdout)


@pytest.mark.parametrize(
    ("ranks", "plan"), slow.all_but([3], [(1, []), (2, []), (3, ["kill:rank=0,step=6"])])
)
def test_on_ranks_as_in_plain_keras(
    plain: dict[str, Any], ranks: int, plan: list[str], tmp_path: Path
) -> None:
    outcome = matex_run(tmp_path, "collecting.py", ranks=ranks, options=faults(*plan))
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["world_size_end"] == ranks - len(plan)
    assert len(set(outcome.summary["weights_hash"].values())) == 1
    assert ranks == 1 or "callbacks changed the weights differently" in outcome.stdout
    counted = 0
    for rank in range(len(plan), ranks):
        log = (tmp_path / "report" / f"rank-{rank:04d}.log").read_text()
        mine = told(log)
        assert set(mine) == set(plain)
        for name, value in plain.items():
            wanted = value if isinstance(value, str) else pytest.approx(value, rel=2e-3, abs=2e-4)
            assert mine[name] == wanted, (rank, name)
        counted += "one rank 3" in log
    assert counted == 1
