"""Embeddings train as in plain Keras, whose optimizers see the slices of their gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import slow
from tests.train.runs import SCRIPTS, execute, faults, matex_run


def losses(text: str) -> list[list[float]]:
    lines = [line for line in text.splitlines() if line.startswith("losses")]
    return [[float(word) for word in line.split()[1:]] for line in lines]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[list[float]]:
    folder = tmp_path_factory.mktemp("plain")
    done = execute([sys.executable, SCRIPTS / "embeddings.py"], directory=folder)
    assert done.returncode == 0, done.stderr
    return losses(done.stdout)


@pytest.mark.parametrize(
    ("ranks", "plan"),
    slow.all_but([3], [(1, []), (3, ["kill:rank=0,step=14", "kill:rank=1,step=55"])]),
)
def test_losses_are_those_of_plain_keras(
    plain: list[list[float]], ranks: int, plan: list[str], tmp_path: Path
) -> None:
    outcome = matex_run(tmp_path, "embeddings.py", ranks=ranks, options=faults(*plan))
    assert outcome.status == 0, outcome.stderr
    assert len(plain) == 13
    for mine, theirs in zip(losses(outcome.stdout), plain, strict=True):
        assert mine == pytest.approx(theirs, abs=2e-5)
    assert outcome.summary["samples_lost"] == outcome.summary["samples_repeated"] == 0
    *sliced, free = [e["but_for"] for e in outcome.events if e["event"] == "fit"]
    assert not any(sliced)
    assert free == ["added up gradients of embeddings (words/embeddings)"]
    assert "whole" not in outcome.stdout  # not computed whole, and no table sent whole


def test_compressed_gradients_keep_their_slices(plain: list[list[float]], tmp_path: Path) -> None:
    """Sums of slices, which an optimizer squares otherwise, differ from plain Keras by 0.1 here."""
    outcome = matex_run(
        tmp_path,
        "embeddings.py",
        ranks=2,
        options=["--compression", "int8", *faults("kill:rank=1,step=25")],
    )
    assert outcome.status == 0, outcome.stderr
    for mine, theirs in zip(losses(outcome.stdout), plain, strict=True):
        assert mine == pytest.approx(theirs, abs=3e-3)
    *sliced, _ = [e["but_for"] for e in outcome.events if e["event"] == "fit"]
    assert all(reasons == ["gradients in int8"] for reasons in sliced)
