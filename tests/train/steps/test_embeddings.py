"""Embeddings train as in plain Keras, whose optimizers see the slices of their gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import slow
from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run


def losses(text: str) -> list[list[float]]:
    lines = [line for line in text.splitlines() if line.startswith("losses")]
    return [[float(word) for word in line.split()[1:]] for line in lines]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[list[float]]:
    folder = tmp_path_factory.mktemp("plain")
    done = execute([*PLAIN, SCRIPTS / "embeddings.py"], directory=folder)
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
    assert len(plain) == 14
    for mine, theirs in zip(losses(outcome.stdout), plain, strict=True):
        assert mine == pytest.approx(theirs, abs=2e-5)
    assert outcome.summary["samples_lost"] == outcome.summary["samples_repeated"] == 0
    assert not any(e["but_for"] for e in outcome.events if e["event"] == "fit")
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
    reasons = [e["but_for"] for e in outcome.events if e["event"] == "fit"]
    assert all(each == ["gradients in int8"] for each in reasons)


EAGER = """
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).integers(0, 50, (40, 8))

class Positions(keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(8, 4), name="table")
    def call(self, tokens):
        return tokens + keras.ops.take(self.table, keras.ops.arange(8), axis=0)

layers = [keras.layers.Embedding(50, 4, name="words"), Positions(), keras.layers.Flatten()]
model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)
model.fit(x, x[:, 0] / 50, epochs=2, batch_size=8, verbose=0)
"""


def test_an_eager_step_tells_of_gradients_that_it_adds_up(tmp_path: Path) -> None:
    """Only its first run shows which; rows that are looked up alike for any batch are exact."""
    script = tmp_path / "eager.py"
    script.write_text(EAGER)
    outcome = matex_run(tmp_path, str(script), ranks=2)
    assert outcome.status == 0, outcome.stderr
    reasons = [e["but_for"] for e in outcome.events if e["event"] == "fit"]
    told = "added up sparse gradients (sequential/words/embeddings)"
    assert sorted(reasons) == [[], [], [told], [told]]
    assert f"but for: {told}" in outcome.stdout


# In "adam" a batch is longer than all before in nearly each step of the first epoch.
FREE = ["adam", "again", "two-looks", "characters", "tags", "rivals", "loop", "batches"]
NOT_BOUNDED = "texts"


def numbers(text: str) -> list[tuple[str, list[float]]]:
    """Name of each fit, with its losses and sums of its weights."""
    words = [line.split() for line in text.splitlines()]
    return [(name, [*map(float, rest)]) for name, *rest in words if name in FREE]


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, list[float]]]:
    folder = tmp_path_factory.mktemp("free")
    done = execute([*PLAIN, SCRIPTS / "free_lengths.py", *FREE], directory=folder)
    assert done.returncode == 0, done.stderr
    return numbers(done.stdout)


@pytest.mark.parametrize(
    ("ranks", "options"),
    slow.all_but(  # two ranks are left for the ways after the second death
        [4],
        [
            (2, []),
            (4, faults("kill:rank=1,step=9", "kill:rank=2,step=70,at=in-exchange")),
        ],
    ),
)
def test_free_lengths_train_as_in_plain_keras(
    free: list[tuple[str, list[float]]], ranks: int, options: list[str], tmp_path: Path
) -> None:
    ways = [*FREE, NOT_BOUNDED]
    outcome = matex_run(
        tmp_path, "free_lengths.py", *ways, ranks=ranks, options=options, timeout_s=300
    )
    assert outcome.status == 0, outcome.stderr
    assert len(free) == 10
    for (name, mine), (_, theirs) in zip(numbers(outcome.stdout), free, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4), name
    assert outcome.summary["samples_lost"] == outcome.summary["samples_repeated"] == 0
    told = {e["fit"]: e["but_for"] for e in outcome.events if e["event"] == "fit"}
    told |= {
        e["function"]: e.get("whole") or e["but_for"]
        for e in outcome.events
        if e["event"] == "loop"
    }
    unbounded = told.pop(max(each for each in told if isinstance(each, int)))
    assert not any(told.values())
    assert unbounded == ["added up sparse gradients (texts/embeddings)"]
    assert "whole" not in outcome.stdout


def test_spare_makes_room_for_what_others_have_seen(
    free: list[tuple[str, list[float]]], tmp_path: Path
) -> None:
    """It begins in the second epoch, whose first batches are the shortest."""
    options = ["--spares", "1", *faults("kill:rank=1,step=10")]
    ways = ["adam", "again"]
    outcome = matex_run(tmp_path, "free_lengths.py", *ways, ranks=2, options=options)
    assert outcome.status == 0, outcome.stderr
    for (name, mine), (_, theirs) in zip(numbers(outcome.stdout), free[:4], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4), name
    assert outcome.summary["world_size_end"] == 2
