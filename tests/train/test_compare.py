"""``matex run --compare``: the script once more, by plain Keras, whose files are thrown away."""

from __future__ import annotations

import re
from pathlib import Path

from tests.train.runs import matex_run

SCRIPT = """
import keras
import numpy as np

keras.utils.set_random_seed(5)
x = np.random.default_rng(0).normal(size=(300, 12)).astype("float32")
hidden = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2)]
model = keras.Sequential([keras.Input((12,)), *hidden, keras.layers.Dense(1, "sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, x[:, 0] > 0, batch_size=64, epochs=2, validation_split=0.2, verbose=0)
with open("written.txt", "a") as file:
    file.write("once")
"""


def test_the_run_is_compared_with_plain_keras_which_leaves_no_file(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    outcome = matex_run(tmp_path, script, ranks=2, options=["--compare"])
    assert outcome.status == 0, outcome.stderr
    found = re.findall(r"matex: (\w+): largest relative difference (\S+) \(epoch", outcome.stdout)
    assert {name for name, _ in found} == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert all(float(difference) < 1e-5 for _, difference in found)
    assert (tmp_path / "written.txt").read_text() == "once"


def test_a_script_that_plain_keras_ends_is_not_compared(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nif 'OMPI_COMM_WORLD_RANK' not in os.environ:\n    exit('no')\n")
    outcome = matex_run(tmp_path, script, ranks=1, options=["--compare"])
    assert outcome.status == 0, outcome.stderr
    assert "plain Keras ended with status 1, so nothing is compared: no" in outcome.stdout
