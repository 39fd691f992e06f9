"""``--shuffle ring``: rows are read once and go around, whoever dies, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.train.runs import Outcome, assert_whole, faults, matex_run, relative_differences

RING = ("--shuffle", "ring")
ROWS = 1010  # the last step is short, and no batch is divided by three
ARGUMENTS = ("--epochs", "3", "--validate")
STEPS = 48


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "data.h5"
    x = np.random.default_rng(3).normal(size=(ROWS, 12)).astype("float32")
    with h5py.File(path, "w") as opened:
        opened.create_dataset("x", data=x, chunks=(50, 12), compression="gzip")
        opened["y"] = (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype("float32")
    return path


def rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    """Each rank's account of its rows, epoch by epoch."""
    events = [event for event in outcome.events if event["event"] == "epoch"]
    return [{**e["rows"], "epoch": e["epoch"], "rank": e["rank"]} for e in events if "rows" in e]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="sync"),
        pytest.param(("--strategy", "gossip"), id="gossip", marks=pytest.mark.slow),
        pytest.param(("--batch-per-rank",), id="batch-per-rank", marks=pytest.mark.slow),
    ],
)
def test_a_rank_reads_its_first_part_once_and_trains_as_if_it_read_all(
    options: tuple[str, ...], file: Path, tmp_path: Path
) -> None:
    ranks, given = 3, [*options, *RING]
    around = matex_run(
        tmp_path / "around",
        "counted.py",
        file,
        tmp_path / "around-read",
        ranks=ranks,
        options=given,
    )
    assert around.status == 0, around.stderr
    few = 16 + 16 + 1  # looked at to compare the ranks' data, and to try out the first step
    total = np.zeros(ROWS, np.int64)
    for rank in range(ranks):
        for fit in (0, 1):
            read = np.load(tmp_path / f"around-read-{rank}-{fit}.npy")
            assert read.sum() <= ROWS * 1.05 / ranks + few
            total += read
    assert total.min() == 2  # once in each fit
    told = rows_of(around)
    assert len(told) == 2 * 3 * ranks
    assert all(t["read"] <= 8 + (ROWS if t["epoch"] == 0 else 0) for t in told)
    assert all(t["read"] == 0 for t in told if t["epoch"])
    part = 1.05 * ROWS / ranks
    assert all(t["held"] <= part + 100 for t in told)
    assert all((t["came"] > 0.9 * ROWS / ranks) == (t["epoch"] < 2) for t in told)
    summary = around.summary
    assert summary["rows"]["read"] <= 2 * (ROWS + 8 * ranks)
    assert summary["rows"]["came"] == sum(t["came"] for t in told)
    assert summary["samples_used"] == summary["samples_expected"] == 2 * 3 * ROWS
    reread = matex_run(
        tmp_path / "reread", "counted.py", "--reread", file, tmp_path / "reread-read",
        ranks=ranks, options=given,
    )  # fmt: skip
    assert reread.summary["rows"]["came"] == 0
    assert reread.summary["rows"]["read"] >= 2 * 3 * ROWS
    assert set(summary["weights_hash"].values()) == set(reread.summary["weights_hash"].values())
    assert around.losses == reread.losses
    assert summary["messages_per_step"] > reread.summary["messages_per_step"]
    assert summary["bytes_per_step"] > reread.summary["bytes_per_step"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Four ranks of which none dies."""
    outcome = matex_run(
        tmp_path_factory.mktemp("whole"), "classify.py", *ARGUMENTS, ranks=4, options=RING
    )
    assert_whole(outcome, world_size_end=4, losses=outcome.losses)
    return outcome


# Steps 16 and 32 begin an epoch.
PLANS = (
    ("kill:rank=1,step=7", "kill:rank=2,step=16,at=before-exchange", "kill:rank=0,step=30"),
    (
        "kill:rank=0,step=5,at=in-exchange",
        "kill:rank=3,step=5,at=recovery",
        "kill:rank=1,step=31,at=after-exchange",
    ),
    (
        "kill:rank=2,step=15,at=after-exchange",
        "kill:rank=1,step=32,at=validation",
        "kill:rank=3,step=20,at=after-exchange",
    ),
    ("kill:rank=3,step=10,at=checkpoint", "kill:rank=0+1,step=24,at=after-exchange"),
)


@pytest.mark.parametrize(
    ("strategy", "plan"),
    [
        ("sync", PLANS[0]),
        *(pytest.param("sync", plan, marks=pytest.mark.slow) for plan in PLANS[1:]),
        *(pytest.param("gossip", plan, marks=pytest.mark.slow) for plan in PLANS[1:3]),
    ],
    ids=lambda given: given if isinstance(given, str) else given[0],
)
def test_ranks_die_in_every_phase_and_no_sample_is_lost(
    strategy: str, plan: tuple[str, ...], whole: Outcome, tmp_path: Path
) -> None:
    saved = ("--checkpoint", tmp_path / "saved", "--checkpoint-every", "10")
    outcome = matex_run(
        tmp_path, "classify.py", *ARGUMENTS,
        ranks=4, options=[*RING, *saved, "--strategy", strategy, *faults(*plan)],
    )  # fmt: skip
    losses = whole.losses if strategy == "sync" else outcome.losses
    assert_whole(outcome, world_size_end=1, losses=losses)
    assert max(relative_differences(outcome.losses, whole.losses)) < 0.05
    summary = outcome.summary
    assert (summary["steps"], len(summary["faults"])) == (STEPS, 3)
    # Beyond the first epoch only what went with the dead, or is computed by others, is read.
    assert summary["rows"]["read"] < summary["samples_used"]
    assert summary["rows"]["came"] > 0


@pytest.mark.slow
def test_a_checkpoint_inside_an_epoch_is_continued_at_another_size(
    whole: Outcome, tmp_path: Path
) -> None:
    saved = ("--checkpoint", tmp_path / "saved", "--checkpoint-every", "10", "--keep-every", "10")
    first = matex_run(
        tmp_path / "four", "classify.py", *ARGUMENTS, ranks=4, options=[*RING, *saved]
    )
    assert first.losses == whole.losses

    def resumed(name: str, *options: str, ranks: int) -> Outcome:
        for path in (tmp_path / "saved").glob("step-*.h5"):
            if int(path.stem.split("-")[1]) > 20:
                path.unlink()
        return matex_run(
            tmp_path / name, "classify.py", *ARGUMENTS, ranks=ranks, options=[*options, *saved]
        )

    for ranks in (2, 5):
        again = resumed(f"ranks-{ranks}", *RING, ranks=ranks)
        assert again.status == 0, again.stderr
        summary = again.summary
        assert (summary["steps"], summary["world_size_end"]) == (STEPS - 20, ranks)
        assert summary["samples_used"] == summary["samples_expected"]
        # The same order goes on, so the same losses do.
        assert max(relative_differences(again.losses, whole.losses[1:])) < 1e-4
        assert sum(t["came"] for t in rows_of(again)) > 0
        last = [t for t in rows_of(again) if t["epoch"] == 2]
        assert sum(t["read"] for t in last) < 4 * 128 + 100  # passed before the checkpoint
    other = resumed("other", ranks=2)
    assert other.status == 1
    assert "one of a stream or of --shuffle ring, at sample 512" in other.summary["reason"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [("tf-data", "which are known by number. Received: "), ("unshuffled", "fit(shuffle=False)")],
)
def test_what_cannot_go_around_is_refused_in_one_line(kind: str, said: str, tmp_path: Path) -> None:
    outcome = matex_run(tmp_path, "classify.py", "--kind", kind, ranks=2, options=RING)
    assert outcome.status == 1
    assert said in outcome.summary["reason"]
    assert "\n" not in outcome.summary["reason"]
