"""Batches of fewer rows than ranks, of one row and of none: the numbers of plain Keras.

One launch of three ranks runs all kinds, the last ones while ranks die.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run
from tests.train.whole_runs.test_script_kinds import Outcomes, assert_same, outcomes

pytestmark = pytest.mark.timeout(600)

# With their numbers of steps: ranks die in those of the last two.
KINDS = {
    "sizes-of-batches": 24, "one-row": 6, "streams-of-one": 16, "counted-in-python": 12,
    "no-rows": 1, "single-rows": 6, "batches-of-one": 10, "batches-of-one-eager": 10,
    "batches-without-rows": 6,
}  # fmt: skip
_STEPS = list(KINDS.values())
EAGER, NONE = sum(_STEPS[:-2]), sum(_STEPS[:-1])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Plain Keras in one process, without matex."""
    folder = tmp_path_factory.mktemp("alone")
    done = execute([*PLAIN, SCRIPTS / "train_kinds.py", folder, *KINDS], directory=folder)
    assert done.returncode == 0, done.stderr
    return outcomes(folder)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("three")
    written = folder / "outcomes"
    written.mkdir()
    kills = [
        f"kill:rank=0,step={EAGER + 3},at=in-exchange",
        f"kill:rank=1,step={NONE + 1},at=in-exchange",  # in the batch without rows
    ]
    outcome = matex_run(
        folder, "train_kinds.py", written, *KINDS, ranks=3, options=faults(*kills), timeout_s=250
    )
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["world_size_end"] == 1
    steps = [fault["step"] for fault in summary["faults"]]
    assert steps == [EAGER + 3, NONE + 1]
    assert summary["steps"] == sum(KINDS.values())
    assert summary["samples_used"] == summary["samples_expected"] > 0
    return outcomes(written)


@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_give_the_result_of_one_process(
    kind: str, alone: Outcomes, three: Outcomes
) -> None:
    assert_same(three[kind], alone[kind])


@pytest.mark.parametrize(
    "options", [["--strategy", "gossip"], ["--shuffle", "ring", "--batch-per-rank"]], ids=" ".join
)
def test_few_rows_whatever_the_strategy(options: list[str], tmp_path: Path) -> None:
    kills = faults("kill:rank=1,step=1", "kill:rank=0,step=5,at=in-exchange")
    outcome = matex_run(tmp_path, "few_rows.py", ranks=3, options=[*options, *kills])
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["world_size_end"] == 1
    assert summary["samples_used"] == summary["samples_expected"] == 2 * (10 + 1 + 5)
