"""One contract for the strategies that let replicas part: whole runs whose ranks die."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkpoints
from matex import keras_hooks
from matex.fitting.replica_vector import ReplicaVector
from tests import slow
from tests.eamsgd import nesterov
from tests.train.runs import PLAIN, SCRIPTS, Outcome, execute, faults, matex_run

ARGUMENTS = ("--epochs", "3", "--validate", "--optimizer", "sgd")
STEPS = 48
# Each leaves one rank.
PLANS = {
    "gossip": (
        "kill:rank=0,step=13,at=before-exchange",
        "kill:rank=1,step=30,at=after-exchange",
    ),
    "easgd": (
        "kill:rank=0,step=10,at=checkpoint",
        "kill:rank=3,step=23,at=after-exchange",
        "kill:rank=1,step=32,at=validation",
    ),
    # The keeper and who follows it, in steps in which something is on its way.
    "downpour": (
        "kill:rank=0,step=9,at=after-exchange",
        "kill:rank=1,step=21,at=in-exchange",
        "kill:rank=4,step=21,at=recovery",
        "kill:rank=2,step=33,at=in-strategy",
    ),
    "downpour --staleness-bound 0 --lr-scaling sqrt": (
        "kill:rank=1,step=15,at=after-exchange",  # before a meeting
    ),
    "easgd --asynchronous": (
        "kill:rank=0,step=7,at=before-exchange",
        "kill:rank=1,step=32,at=validation",
    ),
    "daso": (
        "kill:rank=0,step=8,at=in-exchange",
        "kill:rank=3,step=8,at=recovery",
        "kill:rank=1,step=32,at=in-consensus",
    ),
}
# On nodes of two: the keeper of all and then all of a node, a node's keeper, the last of a node.
TWO_LEVEL = (
    "kill:rank=2,step=9,at=before-exchange",
    "kill:rank=0,step=18,at=after-exchange",
    "kill:rank=1,step=19,at=in-exchange",
    "kill:rank=4,step=32,at=validation",
)
# How far apart replicas may be at an epoch's end, relative to their norm.
APART = 0.1
PLATEAU = "strategy/daso/plateau"


def run(
    folder: Path, strategy: str, *, ranks: int, options: tuple[Any, ...] = (), plan: Any = ()
) -> Outcome:
    outcome = matex_run(
        folder, "classify.py", *ARGUMENTS,
        ranks=ranks, options=["--strategy", strategy, *options, *faults(*plan)],
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["strategy"] == strategy
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(summary["weights_hash"]) == summary["world_size_end"]
    assert len(set(summary["weights_hash"].values())) == 1  # the end is a consensus
    return outcome


def newest_of(folder: Path) -> Path:
    return max(folder.glob("step-*.h5"))


def least_loss(path: Path) -> float:
    """Smallest loss that daso has seen, as of a checkpoint."""
    return float(checkpoints.read_snapshot(path).extra[PLATEAU][0])


def set_least_loss(path: Path, value: float) -> None:
    snapshot = checkpoints.read_snapshot(path)
    plateau = np.append(value, snapshot.extra[PLATEAU][1:])
    extra = {**snapshot.extra, PLATEAU: plateau}
    checkpoints.write_snapshot(path, dataclasses.replace(snapshot, extra=extra))


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of one rank, which every strategy follows but for the differences of its replicas."""
    return run(tmp_path_factory.mktemp("sync"), "sync", ranks=1).losses


@pytest.mark.parametrize(
    ("strategy", "options"),
    slow.all_but(
        ["gossip", "daso"],
        [
            ("gossip", ()),
            ("easgd", ()),
            ("easgd", ("--asynchronous",)),
            ("downpour", ("--momentum", "0.3")),
            ("downpour", ("--centre-optimizer", "sgd:learning_rate=1,momentum=0.3")),
            ("downpour", ("--staleness-bound", "0", "--lr-scaling", "sqrt")),
            ("daso", ("--ranks-per-node", "2")),
            ("easgd", ("--two-level", "--ranks-per-node", "2", "--lr-scaling", "sqrt")),
            ("easgd", ("--two-level", "--ranks-per-node", "2", "--asynchronous")),
            ("downpour", ("--two-level", "--ranks-per-node", "2", "--outer-every", "2")),
            ("downpour", ("--two-level", "--ranks-per-node", "2", "--staleness-bound", "0")),
        ],
    ),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_ranks_die_in_every_phase_down_to_one_and_two_resume(
    strategy: str, options: tuple[str, ...], losses: list[float], tmp_path: Path
) -> None:
    """Checkpoints, each after a consensus, are made between the deaths."""
    saved = ("--checkpoint", tmp_path / "saved", "--checkpoint-every", "10", "--keep-every", "10")
    plan = PLANS.get(" ".join([strategy, *options])) or PLANS[strategy]
    plan = TWO_LEVEL if "--two-level" in options else plan
    ranks = len(plan) + 1
    outcome = run(tmp_path / "all", strategy, ranks=ranks, options=(*options, *saved), plan=plan)
    summary = outcome.summary
    assert (summary["steps"], summary["world_size_end"]) == (STEPS, 1)
    assert len(summary["faults"]) == len(plan)
    assert outcome.losses == pytest.approx(losses, rel=0.05)
    epochs = [event["strategy"] for event in outcome.events if event["event"] == "epoch"]
    assert 0 < max(told["disagreement"] for told in epochs) < APART
    assert summary["messages_per_step"] > 0
    if strategy in ("easgd", "downpour"):
        (survivor,) = map(int, summary["weights_hash"])
        counts = [
            Counter(event["strategy"]["staleness"])
            for event in outcome.events
            if event["event"] == "epoch" and event["rank"] == survivor
        ]
        assert Counter(summary["staleness"]) == sum(counts, Counter())
        together = strategy == "easgd" and "--asynchronous" not in options
        together = together or "--staleness-bound" in options
        assert (set(summary["staleness"]) == {"0"}) == together
    resumes = strategy == "daso" or not options or "--momentum" in options
    resumes = resumes or "--outer-every" in options
    if strategy == "gossip" or not resumes:
        return
    for path in sorted((tmp_path / "saved").glob("step-*.h5")):
        if int(path.stem.split("-")[1]) > 20:
            path.unlink()  # what is left was made inside the second epoch, by several ranks
    if strategy == "daso":
        set_least_loss(tmp_path / "saved" / "step-000000020.h5", -1.0)
    again = run(tmp_path / "two", strategy, ranks=2, options=(*options, *saved))
    assert again.summary["steps"] == STEPS - 20
    assert again.losses[-1] == pytest.approx(outcome.losses[-1], rel=0.02)
    if "--two-level" in options:
        assert "strategy downpour has one level: two_level wants ranks on several" in again.stdout
    if strategy == "easgd":  # the step's, and the centre in each fourth
        assert again.summary["messages_per_step"] == 1.25
    if strategy == "daso":  # it goes on from the loss that it was given
        assert least_loss(newest_of(tmp_path / "saved")) == -1.0


@pytest.fixture(scope="module")
def steps_alone(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Weights and momenta after each step of plain Keras, on whole batches."""
    folder = tmp_path_factory.mktemp("alone")
    done = execute([*PLAIN, SCRIPTS / "noted_weights.py", folder], directory=folder)
    assert done.returncode == 0, done.stderr
    return np.asarray(np.load(folder / "rank-alone.npy"))


def test_the_ranks_of_a_node_of_daso_make_the_steps_of_plain_keras(
    steps_alone: np.ndarray, tmp_path: Path
) -> None:
    """Batches of nine, of which one rank has a row more; Adam, and gradients that are clipped."""
    options = ("--strategy", "daso", "--ranks-per-node", "2")
    outcome = matex_run(tmp_path, "noted_weights.py", tmp_path, ranks=2, options=options)
    assert outcome.status == 0, outcome.stderr
    first, second = (np.load(tmp_path / f"rank-{rank}.npy") for rank in range(2))
    assert len(first) == len(steps_alone) == 6
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first[0], steps_alone[0], atol=1e-6)
    np.testing.assert_allclose(first, steps_alone, atol=1e-5)


def test_nodes_of_daso_make_the_steps_of_plain_keras_in_its_first_epoch(
    steps_alone: np.ndarray, tmp_path: Path
) -> None:
    """Two nodes, which would part if they averaged weights after Adam or after clipping."""
    options = ("--strategy", "daso", "--ranks-per-node", "1")
    outcome = matex_run(tmp_path, "noted_weights.py", tmp_path, "5", ranks=2, options=options)
    assert outcome.status == 0, outcome.stderr
    first, second = (np.load(tmp_path / f"rank-{rank}.npy")[:12] for rank in range(2))
    np.testing.assert_array_equal(first[:6], second[:6])
    np.testing.assert_allclose(first[:6], steps_alone, atol=1e-5)
    assert np.abs(first[6:] - second[6:]).max() > 1e-4


def test_nesterov_sgd_of_keras_is_the_worker_of_eamsgd() -> None:
    """The weights look ahead; behind them in the replica is the velocity by which they do."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), "mse")
    variables = model.trainable_variables
    model.optimizer.build(variables)
    momentum = keras_hooks.nesterov_momentum(model.optimizer)
    replica = ReplicaVector(model)
    count = replica.weights
    worker, velocity = replica.read()[:count], np.zeros(count, np.float32)
    for _ in range(5):
        # Of half the square of the weights, the gradient is where they are.
        model.optimizer.apply_gradients([(tf.identity(v), v) for v in variables])
        ahead = worker + momentum * velocity
        worker, velocity = nesterov(worker, velocity, ahead, rate=0.1, momentum=momentum)
        own = replica.read()
        np.testing.assert_allclose(own[count : 2 * count], velocity, atol=1e-6)
        np.testing.assert_allclose(own[:count] - momentum * velocity, worker, atol=1e-6)
    others = (keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam())
    assert [keras_hooks.nesterov_momentum(optimizer) for optimizer in others] == [0, 0]


def test_a_replica_keeps_constraints_and_tells_what_is_never_negative() -> None:
    unit = keras.constraints.UnitNorm()
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, kernel_constraint=unit), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(), "mse")
    variables = model.trainable_variables
    model.optimizer.build(variables)
    replica = ReplicaVector(model)
    replica.write(np.arange(replica.size, dtype=np.float32) + 1)
    np.testing.assert_allclose(np.linalg.norm(model.layers[0].get_weights()[0], axis=0), 1, 1e-5)
    np.testing.assert_allclose(model.layers[1].get_weights()[1], [replica.weights])
    mask = replica.magnitudes(replica.read())
    moments = replica.size - replica.weights  # the first ones and the second ones in turn
    assert (mask.sum(), mask[: replica.weights].any()) == (moments // 2, False)
    np.testing.assert_array_equal(replica.magnitudes(-replica.read()), mask)


class OwnAdam(keras.optimizers.Optimizer):
    """An optimizer of a script, with two moments of any name."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.first = [self.add_variable_from_reference(v, name="a") for v in variables]
        self.second = [self.add_variable_from_reference(v, name="b") for v in variables]


def test_of_an_optimizer_of_the_script_it_is_told_by_the_signs() -> None:
    optimizer = OwnAdam(0.1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    replica = ReplicaVector(model)
    both = np.array([1.0, 2.0, 3.0], np.float32)
    assert replica.magnitudes(both).tolist() == [False, True, True]
    assert replica.magnitudes(both, both * [1, -1, 1]).tolist() == [False, False, True]


class OwnSgd(keras.optimizers.SGD):
    """An optimizer of a script, made of one of Keras's."""


@pytest.mark.parametrize("kind", [keras.optimizers.SGD, OwnSgd])
def test_a_momentum_may_become_negative(kind: Any) -> None:
    optimizer = kind(momentum=0.9)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    replica = ReplicaVector(model)
    assert not replica.magnitudes(np.ones(replica.size)).any()


LEFT = """
import keras, numpy as np

class Enough(Exception):
    pass

class Leaving(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            raise Enough

x = np.random.default_rng(0).normal(size=(64, 4))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
try:
    model.fit(x, x[:, :1], batch_size=8, callbacks=[Leaving()], verbose=0)
except Enough:
    model.evaluate(x, x[:, :1], verbose=0)
"""


@pytest.mark.parametrize(
    "strategy", slow.all_but(["gossip"], ["gossip", "daso", "easgd", "downpour"])
)
def test_replicas_are_equal_where_the_script_catches_what_ended_fit(
    strategy: str, tmp_path: Path
) -> None:
    script = tmp_path / "left.py"
    script.write_text(LEFT)
    outcome = matex_run(tmp_path, script, ranks=2, options=("--strategy", strategy))
    assert outcome.status == 0, outcome.stderr
    assert len(set(outcome.summary["weights_hash"].values())) == 1


LOOP = """
import keras, tensorflow as tf

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD()

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

step(tf.ones((8, 2)))
"""


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--strategy", "gossip"), "with strategy sync in place of gossip"),
        (("--share-loops", "never"), "with share_loops proved"),
    ],
)
def test_a_loop_that_an_option_keeps_whole_is_told_which(
    options: tuple[str, ...], wanted: str, tmp_path: Path
) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    arguments = ["-m", "matex", "run", "-n", "2", *options, script]
    done = execute([sys.executable, *arguments], directory=tmp_path)
    assert f"train_on_batch, and, {wanted}, a step under tf.function" in done.stdout, done.stderr


REFUSED = """
import keras, matex, numpy as np, tensorflow as tf

def fit(x, optimizer, *callbacks, **options):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    try:
        model.fit(x, callbacks=list(callbacks), verbose=0, epochs=4, **options)
    except matex.errors.InputError as error:
        print("refused:", error)

x, y = np.zeros((64, 2)), np.zeros((64, 1))
fit(x, "sgd", matex.Apoptosis(), y=y)
fit(x, keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD()), y=y)
fit(x, keras.optimizers.Ftrl(), y=y)
fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), "sgd")
"""


def test_what_cannot_go_together_is_refused_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "refused.py"
    script.write_text(REFUSED)
    options = ["--strategy", "easgd", "--batch-per-rank", "--lr-scaling", "sqrt", script]
    done = execute([sys.executable, "-m", "matex", *options], directory=tmp_path)
    said = [line for line in done.stdout.splitlines() if line.startswith("refused: ")]
    wanted = (
        "apoptosis wants",
        "makes every update",
        "which Ftrl would take back",
        "whose batches fit makes",
    )
    assert len(said) == len(wanted), done.stdout + done.stderr
    for line, words in zip(said, wanted, strict=True):
        assert words in line
        assert "Received: " in line
