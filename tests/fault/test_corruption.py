"""Numbers go wrong without a sign: they are caught, made again or left out, replicas healed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.runs import Outcome, assert_whole, faults, matex_run

pytestmark = pytest.mark.usefixtures("forked_ranks")

ARGUMENTS = ["--epochs", "2", "--optimizer", "sgd"]


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    directory = tmp_path_factory.mktemp("alone")
    return matex_run(directory, "classify.py", *ARGUMENTS, ranks=1).losses


def events(outcome: Outcome, name: str) -> list[dict]:
    return [event for event in outcome.events if event["event"] == name]


def test_nans_are_made_again_and_flipped_bits_healed(losses: list[float], tmp_path: Path) -> None:
    # The least bit of one weight: too little to see in a loss, enough to be seen. A death in the
    # step of a NaN, before and while it is made again, shares its work out anew. The last
    # rank recomputes, too.
    plan = faults(
        "nan:rank=1,step=4", "bitflip:rank=0,step=6,bit=0",
        "bitflip:rank=2,step=11,bit=1,target=weights",
        "nan:rank=0,step=20", "kill:rank=3,step=20,at=in-exchange",
        "kill:rank=1+2,step=24", "nan:rank=0,step=28",
    )  # fmt: skip
    options = [*plan, "--nonfinite", "recompute", "--check-every", "5"]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=4, options=options)
    assert_whole(outcome, world_size_end=1, losses=losses)
    told = [(e["step"], e["ranks"], e["policy"]) for e in events(outcome, "nonfinite")]
    assert told == [(step, ranks, "recompute") for step, ranks in ((4, [1]), (20, [0]), (28, [0]))]
    assert [(e["rank"], e["step"]) for e in events(outcome, "healed")] == [(0, 9), (2, 14)]
    assert "rank 0: after step 9 differed from the other ranks in " in outcome.stderr
    assert not events(outcome, "fault-not-fired")


def test_samples_that_make_nans_can_be_left_out(tmp_path: Path) -> None:
    options = [*faults("nan:rank=1,step=7"), "--nonfinite", "skip", "--exchange", "host"]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=3, options=options)
    summary = outcome.summary
    assert (outcome.status, summary["status"]) == (0, "finished")
    assert len(set(summary["weights_hash"].values())) == 1
    assert summary["samples_lost"] == 128 // 3 or summary["samples_lost"] == 128 // 3 + 1
    assert summary["samples_repeated"] == 0
    told = "of plain Keras but for: samples left out (--nonfinite skip)"
    assert summary["numbers"] == told
    assert outcome.stdout.count(f"matex: numbers from this step on: {told}\n") == 1
    assert [(e["step"], e["ranks"]) for e in events(outcome, "nonfinite")] == [(7, [1])]


def test_two_replicas_that_differ_stop_the_run(tmp_path: Path) -> None:
    options = [*faults("bitflip:rank=1,step=5,target=optimizer,bit=3"), "--check-every", "4"]
    arguments = ["--epochs", "1", "--optimizer", "adam"]
    outcome = matex_run(tmp_path, "classify.py", *arguments, ranks=2, options=options)
    assert (outcome.status, outcome.summary["status"]) == (1, "failed")
    assert "after step 7 all ranks must hold equal weights" in outcome.summary["reason"]


def test_a_run_that_a_nan_stopped_can_be_continued_from_its_checkpoint(tmp_path: Path) -> None:
    nan = [*faults("nan:rank=0,step=7"), "--exchange", "host"]
    saved = ["--checkpoint", tmp_path / "saved", "--checkpoint-every", "7"]
    for number, (options, can) in enumerate([(nan, False), ([*nan, *saved], True)]):
        folder = tmp_path / str(number)
        outcome = matex_run(folder, "classify.py", *ARGUMENTS, ranks=1, options=options)
        assert (outcome.status, outcome.summary["status"]) == (1, "failed")
        assert "step 7 has gradients that are not finite" in outcome.summary["reason"]
        assert outcome.summary["resumable"] is can
    following = matex_run(tmp_path / "2", "classify.py", *ARGUMENTS, ranks=1, options=saved)
    assert (following.status, following.summary["status"]) == (0, "finished")
    assert "continuing from the checkpoint of step 7" in following.stdout
    assert following.summary["resumable"] is False


def test_a_whole_batch_is_made_with_gradients_of_a_rank_without_nans(tmp_path: Path) -> None:
    alone = matex_run(tmp_path / "alone", "whole_batches.py", ranks=1).losses
    plan = faults("nan:rank=0,step=3", "nan:rank=1+2,step=6")
    outcome = matex_run(tmp_path / "whole", "whole_batches.py", ranks=3, options=plan)
    assert_whole(outcome, world_size_end=3, losses=alone)
    told = [(e["step"], e["ranks"], e["policy"]) for e in events(outcome, "nonfinite")]
    assert told == [(3, [0], "replaced"), (6, [1, 2], "replaced")]
    assert "rank 0 computed what is not finite: step 3 is made with the gra" in outcome.stdout
    assert "draws random numbers" not in outcome.stdout


@pytest.mark.parametrize("policy", ["stop", "skip", "recompute"])
def test_a_whole_batch_with_nans_on_all_ranks_stops_the_run(policy: str, tmp_path: Path) -> None:
    options = [*faults("nan:rank=0+1,step=3"), "--nonfinite", policy]
    outcome = matex_run(tmp_path, "whole_batches.py", ranks=2, options=options)
    assert (outcome.status, outcome.summary["status"]) == (1, "failed")
    reason = outcome.summary["reason"]
    assert "step 3 has gradients that are not finite: those of all ranks" in reason
    assert policy == "stop" or f"--nonfinite {policy} would" in reason


def test_weights_of_a_leader_of_whole_batches_are_healed_by_a_majority(tmp_path: Path) -> None:
    alone = matex_run(tmp_path / "alone", "whole_batches.py", ranks=1).losses
    plan = faults("bitflip:rank=0,step=5,bit=22")
    outcome = matex_run(tmp_path / "whole", "whole_batches.py", ranks=3, options=plan)
    assert_whole(outcome, world_size_end=3, losses=alone)
    assert [(e["rank"], e["step"], e["source"]) for e in events(outcome, "healed")] == [
        (0, 5, [1, 2])
    ]
    assert "after step 5 rank 0 differed from the others and got their state" in outcome.stdout
    assert "draws random numbers" not in outcome.stdout


def test_two_replicas_that_differ_stop_a_run_of_whole_batches(tmp_path: Path) -> None:
    plan = faults("bitflip:rank=1,step=5,bit=22")
    outcome = matex_run(tmp_path, "whole_batches.py", ranks=2, options=plan)
    assert (outcome.status, outcome.summary["status"]) == (1, "failed")
    assert "after step 5 all ranks must hold equal weights" in outcome.summary["reason"]
