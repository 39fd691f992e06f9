"""Losses with masks, sums and means with weights are shared, with the numbers of plain Keras.

One launch runs all kinds, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import slow
from tests.train.runs import Outcome, faults, matex_run
from tests.train.whole_runs.test_script_kinds import Outcomes, flat, in_plain_keras, outcomes

pytestmark = pytest.mark.timeout(1200)

SINGLE = [
    "tags", "tags-of-padded-batches", "tags-with-weights", "tags-with-weights-of-words",
    "tags-summed", "tags-compiled", "tags-by-own-loss", "translation", "several-outputs", "sums",
    "sums-by-class", "weighted-means", "weighted-means-by-class", "words-ignored",
    "pixels-ignored", "computed-by-itself", "nested", "batch-by-batch", "unaligned",
    "loss-added-as-a-sum",
]  # fmt: skip
DOUBLE = [
    "double-tags", "double-several-outputs", "double-translation", "double-sums",
    "double-weighted-means",
]  # fmt: skip
WHOLE = ["normalized-by-itself", "tags-eagerly"]
KINDS = [*SINGLE, *DOUBLE, *WHOLE]
# Eight steps an epoch: the steps of the kinds follow each other.
KILLED = ["several-outputs", "weighted-means", "double-tags", "batch-by-batch"]
KILLS = faults("kill:rank=0,step=4,at=in-exchange", "kill:rank=2,step=34,at=in-exchange")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return in_plain_keras(tmp_path_factory.mktemp("alone"), KINDS)


def on_ranks(
    folder: Path, kinds: list[str], *, ranks: int, options: list[str]
) -> tuple[Outcome, Outcomes]:
    written = folder / "outcomes"
    written.mkdir()
    outcome = matex_run(
        folder, "train_kinds.py", written, *kinds, ranks=ranks, options=options, timeout_s=500
    )
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(set(summary["weights_hash"].values())) == 1
    return outcome, outcomes(written)


def assert_same(mine: Outcomes, alone: Outcomes, kinds: list[str]) -> None:
    assert mine.keys() == set(kinds)
    for kind in kinds:
        accuracy = (1e-10, 1e-12) if kind in DOUBLE else (1e-4, 1e-6)
        wanted = pytest.approx(list(flat(alone[kind]["numbers"])), *accuracy)
        assert list(flat(mine[kind]["numbers"])) == wanted, kind


@pytest.mark.parametrize("ranks", slow.all_but([2], [1, 2, 3]))
def test_they_are_shared_with_the_numbers_of_plain_keras(
    ranks: int, alone: Outcomes, tmp_path: Path
) -> None:
    outcome, mine = on_ranks(tmp_path, KINDS, ranks=ranks, options=[])
    assert_same(mine, alone, KINDS)
    fits = [e for e in outcome.events if e["event"] == "fit" and e["rank"] == 0]
    whole = [fit["whole"] for fit in fits if "whole" in fit]
    # Computed whole is what was begun otherwise; batch-by-batch makes no fit.
    assert len(fits) - len(whole) == len(KINDS) - 1
    assert len(whole) == (len(WHOLE) if ranks > 1 else 1), whole  # one rank needs no trial
    said = [line for line in outcome.stdout.splitlines() if "computes the whole batch" in line]
    assert (1 if ranks > 1 else 0) <= len(said) <= len(whole), said


def test_they_are_when_ranks_die_in_an_exchange(alone: Outcomes, tmp_path: Path) -> None:
    outcome, mine = on_ranks(tmp_path, KILLED, ranks=3, options=KILLS)
    assert len(outcome.summary["faults"]) == 2
    assert_same(mine, alone, KILLED)
