"""A network shrinks alike on any number of ranks, whoever dies while it does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.train.runs import ROOT, Outcome, faults, matex_run

EPOCHS = ("--epochs", "5")  # events after epochs 1 to 3: before steps 10, 20 and 30


def written(folder: Path) -> dict[str, Any]:
    """The ranks' account of their models, which is the same on all."""
    outcomes = [json.loads(path.read_text()) for path in sorted(folder.glob("out-*.json"))]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    return dict(outcomes[0])


def shrunk(folder: Path, *arguments: str, ranks: int, options: list[str]) -> Outcome:
    outcome = matex_run(
        folder, "shrinking.py", "--out", str(folder / "out"), *arguments, ranks=ranks,
        options=options,
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(set(summary["weights_hash"].values())) == 1
    assert summary["parameters_end"] < summary["parameters_start"]
    return outcome


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The account of one rank alone."""
    folder = tmp_path_factory.mktemp("alone")
    outcome = shrunk(folder, *EPOCHS, "--scores", ranks=1, options=[])
    assert re.search(r"apoptosis after epoch 1: \d+ of 88 units gone, in 2 of 2", outcome.stdout)
    return written(folder)


def assert_same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert mine["kept"] == theirs["kept"]
    assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


def test_the_same_units_die_when_ranks_die_in_every_phase(
    alone: dict[str, Any], tmp_path: Path
) -> None:
    plan = faults(
        "kill:rank=0,step=10,at=apoptosis",
        "kill:rank=2,step=20,at=apoptosis-deciding",
        "kill:rank=1,step=30,at=apoptosis-rebuilding",
    )
    outcome = shrunk(tmp_path, *EPOCHS, "--scores", ranks=4, options=plan)
    assert_same(written(tmp_path), alone)
    scored = written(tmp_path)["scored"]  # by the loss, before anyone died
    assert scored == alone["scored"]
    assert [len(removed) for removed in scored["oba"]] == [24, 20]
    assert outcome.summary["world_size_end"] == 1
    events = [e for e in outcome.events if e["event"] == "apoptosis" and e["rank"] == 3]
    assert [e["epoch"] for e in events] == [1, 2, 3]
    assert events[-1]["parameters"] == outcome.summary["parameters_end"]
    assert events[0]["changes"][0]["layer"] == "a"


@pytest.mark.slow
def test_the_same_units_die_where_the_held_out_loss_decides(tmp_path: Path) -> None:
    """Thresholds, what an event may cost and when it may come: all follow from losses."""
    folders = [tmp_path / "alone", tmp_path / "together"]
    for folder, ranks in zip(folders, (1, 4), strict=True):
        folder.mkdir()
        plan = faults("kill:rank=0,step=20,at=apoptosis-deciding") if ranks > 1 else []
        shrunk(folder, *EPOCHS, "--mode", "adaptive", ranks=ranks, options=plan)
    assert_same(written(folders[1]), written(folders[0]))


def test_a_checkpoint_carries_the_smaller_model(alone: dict[str, Any], tmp_path: Path) -> None:
    """A run that ends early leaves one; the same script, with its wide model, goes on from it."""
    store = ["--checkpoint", str(tmp_path / "saved")]
    first = matex_run(
        tmp_path, "shrinking.py", "--stop-after", "2", *EPOCHS, ranks=2, options=store
    )
    assert first.status == 0, first.stderr
    assert "widths" not in first.stdout
    outcome = shrunk(tmp_path, *EPOCHS, ranks=2, options=store)
    assert_same(written(tmp_path) | {"loss": alone["loss"]}, alone)
    assert outcome.summary["metrics"]["val_loss"] == pytest.approx(alone["loss"][-1], rel=1e-3)


@pytest.mark.slow
def test_a_residual_network_shrinks_on_two_ranks_of_which_one_dies(tmp_path: Path) -> None:
    """The example: convolutions in residual groups, BatchNorm, and made images."""
    plan = faults("kill:rank=0,step=8,at=apoptosis-rebuilding")
    small = ["--images", "160", "--side", "16", "--batch-size", "36", "--epochs", "4"]
    outcome = matex_run(
        tmp_path, ROOT / "examples/07_apoptosis_images.py", *small, ranks=2, options=plan
    )
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["world_size_end"] == 1
    changes = [c for e in outcome.events if e["event"] == "apoptosis" for c in e["changes"]]
    assert ("conv2d+conv2d_2+conv2d_4", 16) in [(c["layer"], c["units_from"]) for c in changes]
    assert "times fewer parameters" in outcome.stdout


def test_an_unmodified_script_with_streamed_data(tmp_path: Path) -> None:
    options = ["--apoptosis", "conservative", *faults("kill:rank=1,step=20,at=apoptosis-deciding")]
    arguments = ("--attached", "--kind", "stream", "--epochs", "5")
    outcome = shrunk(tmp_path, *arguments, ranks=3, options=options)
    assert outcome.summary["world_size_end"] == 2
    assert "apoptosis after epoch 2" in outcome.stdout
