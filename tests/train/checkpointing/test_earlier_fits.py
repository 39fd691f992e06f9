"""Models and histories of earlier fits, in a run that continues in a later one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import checkpoints
import ft
from matex.apoptosis.cut import rebuild
from matex.apoptosis.graph.trace import groups_of, trace
from matex.checkpointing.earlier_fit_store import EarlierFitStore
from matex.fitting.fit_state import fit_histories
from matex.fitting.fit_state.earlier_fits import EarlierFits
from matex.fitting.trained_models import TrainedModels
from matex.run.waiting_newcomers import WaitingNewcomers
from tests import slow
from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run

HISTORY = {"epoch": [0, 1], "logs": {"loss": [0.5, float("inf")]}}
X, Y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
GIVEN = {
    "callbacks": None,
    "x": X,
    "y": Y,
    "sample_weight": None,
    "class_weight": None,
    "batch_size": 4,
}


def fits(folder: Path, said: list[str], saved: Any = None) -> EarlierFits:
    """Earlier fits of a run of one rank, which continues from *saved*."""
    alone = SimpleNamespace(
        world=SimpleNamespace(is_leader=True, awaits_admission=False, members=()),
        agree=lambda flag: flag,
        allgather=lambda row: ft.Gathered(ranks=(0,), rows=row[np.newaxis]),
        hosts={0: "here"},
    )
    fence = SimpleNamespace(check=lambda: None)
    store = EarlierFitStore(alone, files=folder, memory=None, fence=fence, warn=said.append)  # type: ignore[arg-type]
    run = SimpleNamespace(
        communicator=alone,
        saver=SimpleNamespace(earlier_fits=store),
        checkpoints=SimpleNamespace(saved=saved),
        elastic=SimpleNamespace(joining=None, waiting_newcomers=WaitingNewcomers()),
        terminal=SimpleNamespace(say=said.append),
    )
    return EarlierFits(run, TrainedModels())  # type: ignore[arg-type]


def unread(epochs: int) -> None:
    """Read nothing: the data are arrays."""


def make(*, wide: bool) -> Any:
    """A model without an input shape, as its script makes it."""
    model = keras.Sequential([layers.Dense(24 if wide else 3, "relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def checkpoint(past: list[tuple[int, dict[str, Any]]]) -> checkpoints.Snapshot:
    extra = {fit_histories.HISTORIES: fit_histories.packed(past, HISTORY)}
    return checkpoints.Snapshot(weights={}, cursor={"step": 9, "fit": 2}, extra=extra)


def one_fit(run: EarlierFits, model: Any, number: int, cut: bool = False) -> Any:
    """Make fit *number*, of *model*, which is smaller in the end where it is *cut*; its outputs."""
    run.begin(model, number)
    model.fit(X, Y, verbose=0)
    if cut:
        net = trace(model)
        rebuild.cut(model, net, {int(root) for g in groups_of(net) for root in g.members[:4]})
    run.end(model, GIVEN, number)
    return model(X)


def freeze(model: Any) -> None:
    """Let *model* train its last layer only, with another optimizer."""
    model.layers[0].trainable = False
    model.compile(keras.optimizers.SGD(0.1), "mse")


def test_models_are_what_they_were_at_the_end_of_each_fit(tmp_path: Path) -> None:
    """Also of fits of the same model, one that apoptosis has made smaller, and a changed optimizer;
    what the script does between fits it does again."""
    said: list[str] = []
    before = fits(tmp_path, said)
    teacher, student = make(wide=True), make(wide=False)
    outputs = [one_fit(before, teacher, 0, cut=True)]
    freeze(teacher)
    teacher.layers[1].bias.assign([3.0])
    outputs += [one_fit(before, teacher, 1), one_fit(before, student, 2)]
    slots = [variable.numpy() for variable in student.optimizer.variables]
    before.begin(student, 3)

    saved = checkpoint([(fit, HISTORY) for fit in range(3)])
    after = fits(tmp_path, said, saved)
    again, other = make(wide=True), make(wide=False)
    told = after.passed_over(again, GIVEN, number=0, read=unread)
    assert (told.history, told.epoch) == (HISTORY["logs"], HISTORY["epoch"])
    np.testing.assert_array_equal(again(X), outputs[0])
    freeze(again)
    after.passed_over(again, GIVEN, number=1, read=unread)
    np.testing.assert_array_equal(again(X), outputs[1])
    after.passed_over(other, GIVEN, number=2, read=unread)
    np.testing.assert_array_equal(other(X), outputs[2])
    for one, wanted in zip(other.optimizer.variables, slots, strict=True):
        np.testing.assert_array_equal(one, wanted)
    assert [line.endswith("passed over") for line in said] == [True] * 3
    one_fit(after, make(wide=False), 9)
    after.passed_over(make(wide=False), GIVEN, number=9, read=unread)  # the last one is not saved
    assert "fit number 10 was complete" in said[3] and "as the script makes it" in said[3]


class Pair(keras.Model):
    """A model without a call, whose train step alone knows its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = keras.Sequential([layers.Input((4,)), layers.Dense(1)])
        self.compile()
        self.own = keras.optimizers.Adam(0.1)

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.net(data[0]))
        weights = self.net.trainable_weights
        self.own.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


def test_a_model_that_cannot_be_called_has_its_weights(tmp_path: Path) -> None:
    said: list[str] = []
    model, again = Pair(), Pair()
    before, after = fits(tmp_path, said), fits(tmp_path, said, checkpoint([(0, HISTORY)]))
    before.begin(model, 0)
    model.fit(X, Y, verbose=0)
    before.end(model, GIVEN, 0)
    before.begin(model, 1)
    after.passed_over(again, GIVEN, number=0, read=unread)
    np.testing.assert_array_equal(again.net(X), model.net(X))
    assert said[0].endswith("passed over")
    moments = [variable.numpy() for variable in again.own.variables]
    assert len(moments) == len(model.own.variables)
    for mine, theirs in zip(moments, model.own.variables, strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())


def test_a_script_of_many_fits_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matex.checkpointing.earlier_fit_store._MOST_FILES", 2)
    run, model, other = fits(tmp_path, []), make(wide=False), make(wide=False)
    for number, one in enumerate([other, model, model, model, model]):
        one_fit(run, one, number)
    run.begin(model, 5)
    left = [path.name for path in sorted((tmp_path / "earlier").iterdir())]
    assert left == [f"step-{number:09d}.h5" for number in (0, 3, 4)]


def test_checkpoints_of_before_have_no_histories(tmp_path: Path) -> None:
    saved = checkpoints.Snapshot(weights={}, cursor={"step": 9, "fit": 1})
    assert fit_histories.running_in(saved) is None
    told = fits(tmp_path, [], saved).passed_over(make(wide=True), GIVEN, number=0, read=unread)
    assert told.history == {}
    assert fit_histories.running_in(checkpoint([])) == HISTORY


def in_plain_keras(folder: Path, *arguments: str) -> str:
    command = [*PLAIN, SCRIPTS / "distilled.py", *arguments]
    return execute(command, directory=folder).stdout


def losses_in(stdout: str) -> list[float]:
    found: list[float] = json.loads(next(s for s in stdout.splitlines() if s.startswith("[")))
    return found


@pytest.mark.parametrize("who", slow.all_but(["tuned"], ["tuned", "student"]))
def test_a_run_continues_in_a_later_fit(who: str, tmp_path: Path) -> None:
    """The second of a model that was evaluated and made labels of before it, or one of another.

    Both read one pipeline, which goes on from where the first had left it.
    """
    ranks = 2 if who == "tuned" else 1
    alone = in_plain_keras(tmp_path, "4")
    options = ["--checkpoint", tmp_path / "saved", "--checkpoint-every", "5"]
    died = matex_run(tmp_path / "died", "distilled.py", "4", who, ranks=ranks, options=options)
    assert died.status == 1
    again = matex_run(tmp_path / "again", "distilled.py", "4", ranks=ranks, options=options)
    assert again.status == 0, again.stderr
    assert "passed over\n" in again.stdout
    assert losses_in(again.stdout) == pytest.approx(losses_in(alone), 1e-5)


def test_a_run_continues_in_a_later_fit_from_memory(tmp_path: Path) -> None:
    """Without a directory of checkpoints the models of earlier fits are in memory, too."""
    alone = in_plain_keras(tmp_path, "100")
    options = [*faults("kill:rank=0,step=500"), "--max-restarts", "1", "--memory-every", "0.01"]
    outcome = matex_run(tmp_path / "run", "distilled.py", "100", ranks=1, options=options)
    assert outcome.status == 0, outcome.stderr
    assert "fit number 2 was complete before the checkpoint: passed over\n" in outcome.stdout
    assert losses_in(outcome.stdout) == pytest.approx(losses_in(alone), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["memory", "files"])
def test_a_newcomer_has_the_models_of_earlier_fits(place: str, tmp_path: Path) -> None:
    """It makes the same targets with them; one without them would train on others."""
    alone = in_plain_keras(tmp_path, "1500")
    options = [*faults("kill:rank=1,step=30"), "--respawn"]
    if place == "files":
        options += ["--checkpoint", tmp_path / "saved"]
    outcome = matex_run(tmp_path / "run", "distilled.py", "1500", ranks=2, options=options)
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert (summary["respawned"], summary["world_size_end"]) == (1, 2)
    assert summary["samples_lost"] == summary["samples_repeated"] == 0
    assert len(set(summary["weights_hash"].values())) == 1
    assert losses_in(outcome.stdout) == pytest.approx(losses_in(alone), 1e-3, 1e-4)
