"""``matex run --compare``: the script once more, by plain Keras, whose files are thrown away."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from ci.patience import patience
from tests.train.runs import ROOT, matex_run

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


def test_a_signal_ends_the_comparison_and_what_it_started(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    plainly = "if 'OMPI_COMM_WORLD_RANK' not in os.environ:\n"
    wait = "    print(f'{os.getpid()}', flush=True)\n    signal.pause()\n"
    script.write_text(f"import os\nimport signal\n{plainly}{wait}")
    report = tmp_path / "report"
    command = [sys.executable, "-m", "matex", "run", "-n", "1", "--compare", "--report", report]
    run = subprocess.Popen([*command, script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        limit = time.monotonic() + patience(60)
        while not (plain := _process_in(report / "plain.log")):
            assert time.monotonic() < limit
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=patience(60))
    finally:
        run.kill()
    assert "asked to stop: nothing is compared" in said
    assert run.returncode == 0
    assert not psutil.pid_exists(plain)


def _process_in(log: Path) -> int:
    """The id that the plain process has printed into *log*; 0 before it has."""
    lines = log.read_text().splitlines() if log.exists() else []
    return next((int(line) for line in lines if line.isdecimal()), 0)
