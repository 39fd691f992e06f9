"""Train steps with several updates: plain Keras's numbers, on ranks that share them and that die.

One launch runs all kinds, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import slow
from tests.train.runs import Outcome, faults, matex_run
from tests.train.whole_runs.test_script_kinds import Outcomes, flat, in_plain_keras, outcomes

pytestmark = pytest.mark.timeout(400)

SHARED = [
    "gan-with-noise", "wasserstein-gan", "cycle-gan", "sharpness-aware", "synchronized",
    "moving-target", "alternating", "autoencoder", "clipped-gan", "clipped-autoencoder",
    "guarded-autoencoder",
]  # fmt: skip
ACROSS = ["gan-across-rows", "late-across-rows"]
KINDS = [*SHARED, *ACROSS]
STEPS = 16  # of each kind


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return in_plain_keras(tmp_path_factory.mktemp("alone"), KINDS)


def run(folder: Path, kinds: list[str], *options: str, ranks: int) -> tuple[Outcome, Outcomes]:
    written = folder / "outcomes"
    written.mkdir()
    outcome = matex_run(
        folder, "train_kinds.py", written, *kinds, ranks=ranks, options=list(options), timeout_s=300
    )
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(set(summary["weights_hash"].values())) == 1
    return outcome, outcomes(written)


def whole(outcome: Outcome) -> set[str]:
    """Why fits were computed whole."""
    return {event["whole"] for event in outcome.events if "whole" in event}


def assert_same(mine: Outcomes, alone: Outcomes, kinds: list[str]) -> None:
    assert set(mine) == set(kinds)
    for kind in kinds:
        wanted: Any = pytest.approx(list(flat(alone[kind]["numbers"])), rel=1e-4, abs=1e-6)
        assert list(flat(mine[kind]["numbers"])) == wanted, kind


@pytest.mark.parametrize("ranks", slow.all_but([1, 2], [1, 2, 3]))
def test_ranks_share_each_update(ranks: int, alone: Outcomes, tmp_path: Path) -> None:
    outcome, mine = run(tmp_path, KINDS, ranks=ranks)
    assert_same(mine, alone, KINDS)
    if ranks == 1:
        return
    reasons = whole(outcome)
    assert len(reasons) == len(ACROSS)
    assert all("does not add up over rows" in reason for reason in reasons)
    assert "retracing" not in outcome.stderr


def test_a_step_is_made_again_from_its_begin(alone: Outcomes, tmp_path: Path) -> None:
    plan = faults(
        "nan:rank=1,step=3",
        f"kill:rank=2,step={STEPS + 4},at=in-exchange",
        f"kill:rank=0,step={2 * STEPS + 9},at=after-exchange",
    )
    options = ["--nonfinite", "recompute", "--spares", "1", *plan]
    kinds = ["gan-with-noise", "wasserstein-gan", "sharpness-aware"]
    outcome, mine = run(tmp_path, kinds, *options, ranks=3)
    assert_same(mine, alone, kinds)
    assert whole(outcome) == set()
    assert len(outcome.summary["faults"]) == 3
    assert outcome.summary["world_size_end"] == 2


def test_it_goes_on_from_a_checkpoint_within_an_epoch(alone: Outcomes, tmp_path: Path) -> None:
    at = 4
    plan = faults(*(f"kill:rank={rank},step={at}" for rank in range(2)))
    saving = ["--checkpoint", str(tmp_path / "saved"), "--checkpoint-every", "3"]
    kinds = ["gan-with-noise", "alternating"]
    outcome, mine = run(tmp_path, kinds, *saving, "--max-restarts", "1", *plan, ranks=2)
    assert outcome.summary["restarts"] == 1
    assert_same(mine, alone, kinds)
    assert whole(outcome) == set()


def test_a_step_counts_once_where_every_rank_computes_it_whole(tmp_path: Path) -> None:
    """Faults strike by the number of the step, of which each has two updates."""
    written = tmp_path / "outcomes"
    written.mkdir()
    options = ["--strategy", "easgd", *faults(f"kill:rank=1,step={STEPS - 2}")]
    outcome = matex_run(
        tmp_path, "train_kinds.py", written, "gan-with-noise", ranks=2, options=options
    )
    assert outcome.status == 0, outcome.stderr
    assert len(whole(outcome)) == 1
    assert outcome.summary["steps"] == STEPS
    assert [fault["step"] for fault in outcome.summary["faults"]] == [STEPS - 2]
