"""matex.allreduce, allgather and broadcast, for scripts that come from Horovod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.train.runs import PLAIN, SCRIPTS, execute, matex_run


def found(directory: Path) -> dict[int, Any]:
    return {int(path.stem): json.loads(path.read_text()) for path in directory.glob("[0-9].json")}


def expected(ranks: int, rank: int) -> dict[str, Any]:
    mean = sum(range(ranks)) / ranks
    return {
        "size": [ranks, rank, ranks],
        "mean": [mean, 1.0],
        "sum": [sum(range(ranks)), 10 * ranks],
        "half": [0.5 + mean],
        "graph": [2.0 * sum(range(1, ranks + 1))],
        "rows": [[r, r] for r in range(ranks) for _ in range(r + 1)],
        "copy": [0, 7],
        "last": ranks - 1.0,
    }


def test_on_three_ranks_of_which_the_leader_dies(tmp_path: Path) -> None:
    outcome = matex_run(tmp_path, "collectives.py", tmp_path, "--die", "0", ranks=3)
    assert outcome.status == 0, outcome.stderr
    results = found(tmp_path)
    assert sorted(results) == [0, 1, 2]
    for rank, result in results.items():
        assert {key: result[key] for key in expected(3, rank)} == expected(3, rank)
        assert result["before"] == [i + 1.0 for i in range(3)]
        assert result.get("after") == ([i + 1.5 for i in range(3)] if rank else None)
        assert ("on_one_rank" in result["alone"]) == (rank == 0)


def test_without_a_run_there_is_one_rank(tmp_path: Path) -> None:
    done = execute([*PLAIN, SCRIPTS / "collectives.py", tmp_path], directory=tmp_path)
    assert done.returncode == 0, done.stderr
    result = found(tmp_path)[0]
    assert {key: result[key] for key in expected(1, 0)} == expected(1, 0)
    assert result["alone"] == ""
