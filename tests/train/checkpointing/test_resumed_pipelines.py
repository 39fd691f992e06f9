"""A mapped tf.data pipeline goes on from its checkpoint on one rank after several, and conversely.

One rank runs the script's pipeline as it is, several ranks share its maps.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import checkpoints
from tests.train.runs import PLAIN, Outcome, execute, matex_run

LEFT = re.compile(r"^left: (.*)$", re.MULTILINE)

SCRIPT = """
import os
import keras, numpy as np, tensorflow as tf

class End(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == int(os.environ.get("END", 0)):
            raise RuntimeError("the end of all ranks")

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1] > 0)).shuffle(80)
data = data.map(lambda a, b: (a / 3.0, b)).map(lambda a, b: (a * 0.7 - 0.1, b)).batch(16)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
# Longer than what is read ahead: plain Keras may or may not have begun another pass otherwise.
held = tf.data.Dataset.from_tensor_slices((x, x[:, :1] > 0)).shuffle(80).repeat().batch(8)
history = model.fit(
    data, epochs=3, verbose=0, callbacks=[End()], validation_data=held, validation_steps=2
)
print("left:", *model.get_weights()[0].ravel(), *history.history["val_loss"])
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def plain(script: Path) -> list[float]:
    return left(execute([*PLAIN, script], directory=script.parent))


def left(outcome: Outcome | subprocess.CompletedProcess[str]) -> list[float]:
    """The weights at the end, and the losses of validations, each of which shuffles anew."""
    found = LEFT.search(outcome.stdout)
    assert found is not None, outcome.stderr
    return [float(word) for word in found[1].split()]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_mapped_pipeline_resumes_on_other_ranks(
    before: int, after: int, script: Path, plain: list[float], tmp_path: Path
) -> None:
    options = ["--checkpoint", tmp_path / "saved", "--checkpoint-every", "1"]
    ended = matex_run(
        tmp_path, script, ranks=before, options=options, environment={"END": "8"}
    )  # before its checkpoint
    assert ended.status == 1 and "the end of all ranks" in ended.stderr
    newest = checkpoints.Store(tmp_path / "saved").newest_valid()
    assert newest is not None
    assert (newest[1].cursor["step"], newest[1].cursor["raw"]) == (7, before > 1)
    rest = matex_run(tmp_path, script, ranks=after, options=options)
    assert rest.status == 0, rest.stderr
    assert left(rest) == pytest.approx(plain, rel=1e-4)
    assert rest.summary["steps"] == 15
