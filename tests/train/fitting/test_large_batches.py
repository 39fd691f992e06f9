"""Batches that grow with the ranks, shares by speed, and gradients that travel in 16 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from matex.partition.balance import EVERY
from tests.train.runs import Outcome, faults, matex_run, relative_differences


def run(folder: Path, *arguments: str, ranks: int, options: tuple[str, ...] = ()) -> Outcome:
    outcome = matex_run(folder, "classify.py", *arguments, ranks=ranks, options=options)
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(set(summary["weights_hash"].values())) == 1
    return outcome


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One rank, the global batch and the scaled rate written in the script."""
    folder = tmp_path_factory.mktemp("plain")
    return run(folder, "--batch-size", "100", "--rate", "0.04", ranks=1)


# It is in effect for all steps.
SLOW = "slow:rank=1,step=0,factor=10,steps=99"


def last_shares(outcome: Outcome) -> dict[str, int]:
    (*_, last) = [event["shares"] for event in outcome.events if event["event"] == "balance"]
    return dict(last)


@pytest.mark.slow
def test_a_batch_for_each_rank_is_that_of_a_larger_batch_and_rate(
    plain: Outcome, tmp_path: Path
) -> None:
    """Also when one rank is slow and computes less of it."""
    scaled = ("--batch-per-rank", "--lr-scaling", "linear", "--warmup-epochs", "0")
    options = (*scaled, "--balance", *faults(SLOW))
    outcome = run(tmp_path, "--batch-size", "50", "--rate", "0.02", ranks=2, options=options)
    assert outcome.summary["steps"] == plain.summary["steps"] == 40
    assert max(relative_differences(outcome.losses, plain.losses)) < 1e-4
    shares = last_shares(outcome)
    assert shares["0"] + shares["1"] == 100
    assert shares["1"] < 30


@pytest.mark.slow
def test_a_rank_found_slow_gets_less_from_then_on(tmp_path: Path) -> None:
    """It does in the fit in which it is found, if that is long enough, and in all that follow."""
    slow = faults("slow:rank=1,step=2,factor=40,steps=999")
    options = ("--straggler", "balance", "--check-every", "3", *slow)
    outcome = run(tmp_path, "--fits", "2", "--epochs", "2", ranks=2, options=options)
    found = [e for e in outcome.events if e["event"] == "straggler" and e["rank"] == 1]
    assert (found[0]["evicted"], found[0]["balanced"]) == (False, True)
    steps = [e["step"] for e in outcome.events if e["event"] == "balance"]
    assert min(steps) >= found[0]["step"] + EVERY - 1
    assert max(steps) >= 32, "the second fit begins with equal shares"
    shares = last_shares(outcome)
    assert shares["0"] + shares["1"] == 128
    assert shares["1"] < 40
    assert "from now on batches are shared by speed" in outcome.stdout


def test_a_death_shrinks_the_batch_and_16_bits_do(plain: Outcome, tmp_path: Path) -> None:
    """Three ranks become two in step 11, which is still made of three shares, unequal ones.

    The rate is a schedule's, which multiplies what the ranks make of it.
    """
    options = (
        "--batch-per-rank", "--lr-scaling", "sqrt", "--warmup-epochs", "0.5",
        "--compression", "bf16", "--balance", *faults(SLOW, "kill:rank=0,step=11,at=in-exchange"),
    )  # fmt: skip
    script = ("--batch-size", "50", "--rate", "0.03", "--half-life", "1000")
    outcome = run(tmp_path, *script, ranks=3, options=options)
    first = 12 + (2000 - 12 * 150) // 100  # steps of the first epoch
    assert outcome.summary["steps"] == first + 20
    assert outcome.summary["world_size_end"] == 2
    assert outcome.losses[1] < outcome.losses[0]
    assert max(relative_differences(outcome.losses, plain.losses)) < 0.15
