"""Training stops at the batch after which a callback stops it, whatever kind of step is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.runs import PLAIN, execute, matex_run

STOPPED = """
import os, sys
import keras, numpy as np, tensorflow as tf

kind, who = sys.argv[1:]
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")


class Rivals(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = keras.layers.Dense(1), keras.layers.Dense(1)
        self.optimizers = [keras.optimizers.Adam(), keras.optimizers.SGD(0.1)]
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x):
        return self.first(x) + self.second(x)

    def train_step(self, data):
        for part, optimizer in zip([self.first, self.second], self.optimizers):
            with tf.GradientTape() as tape:
                noise = keras.random.normal(tf.shape(data[1]), seed=self.seeds)
                loss = tf.reduce_mean((self(data[0]) - data[1] + noise) ** 2)
            gradients = tape.gradient(loss, part.trainable_weights)
            optimizer.apply_gradients(zip(gradients, part.trainable_weights))
        return {"loss": loss}


class Stop(keras.callbacks.Callback):
    seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        wanted = who == "all" or os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0"
        self.model.stop_training |= batch == 5 and wanted


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
if kind == "rivals":
    model = Rivals()
    model.build((None, 4))
model.compile("sgd", "mse")
stop = Stop()
model.fit(x, x[:, :1], batch_size=6, epochs=2, verbose=0, callbacks=[stop])
counts = [int(one.iterations) for one in getattr(model, "optimizers", [model.optimizer])]
weights = float(sum(np.abs(w).sum() for w in model.get_weights()))
print("made", counts, stop.seen, round(weights, 4), flush=True)
"""

WAYS = {
    "sync": [],
    "deterministic": ["--deterministic"],
    "rivals": [],
    "gossip": ["--strategy", "gossip"],
    "easgd": ["--strategy", "easgd"],
    "downpour": ["--strategy", "downpour"],
    "daso": ["--strategy", "daso", "--ranks-per-node", "1"],
}


def made(output: str) -> str:
    (line,) = (line for line in output.splitlines() if line.startswith("made"))
    return line


@pytest.mark.parametrize(
    ("kind", "who", "steps"),
    [
        *((kind, "all", 6) for kind in WAYS),
        # Where one rank alone wants it, the others learn of it in the next step.
        *((kind, "one", 7) for kind in ("rivals", "gossip", "deterministic")),
    ],
)
def test_training_stops_where_a_callback_stops_it(
    kind: str, who: str, steps: int, tmp_path: Path
) -> None:
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    outcome = matex_run(tmp_path, str(script), kind, who, ranks=2, options=WAYS[kind])
    assert outcome.status == 0, outcome.stderr
    counts = [steps] * (2 if kind == "rivals" else 1)
    assert made(outcome.stdout).startswith(f"made {counts} {steps} ")
    assert outcome.summary["steps"] == steps
    assert outcome.summary["samples_lost"] == outcome.summary["samples_repeated"] == 0


def test_what_the_declined_step_had_changed_is_put_back(tmp_path: Path) -> None:
    """The weights of several updates are those of plain Keras."""
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    outcome = matex_run(tmp_path, str(script), "rivals", "all", ranks=2)
    alone = execute([*PLAIN, script, "rivals", "all"], directory=tmp_path)
    assert made(outcome.stdout) == made(alone.stdout)
