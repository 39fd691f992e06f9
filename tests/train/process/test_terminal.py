"""The terminal of a run: how many ranks live, and what operations of a graph print."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.train.runs import PATHS, faults, matex_run

SCRIPT = """
import keras, numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, x[:, :1], batch_size=16, epochs=2)
print("logged", *history.history)
"""

PRINTING = """
import glob, os
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
writer = tf.summary.create_file_writer("curves")


class Printing(keras.layers.Dense):
    def call(self, x):
        tf.print("rows", tf.shape(x)[0])
        return super().call(x)


class Summarizing(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        with writer.as_default(step=0):
            tf.summary.scalar("mean", tf.reduce_mean(x))
        return self.dense(x)


model = keras.Sequential([keras.Input((4,)), Printing(1)])
model.compile("sgd", "mse", metrics=[lambda y, p: abs(y - p)])
model.fit(x, x[:, :1], batch_size=16, verbose=0)
model.evaluate(x, x[:, :1], batch_size=32, verbose=0)
tf.print("eager")
model = Summarizing()
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=16, verbose=0)
writer.close()
events = tf.data.TFRecordDataset(glob.glob("curves/*"))
print("curves", sum(b"mean" in event.numpy() for event in events))
"""


@pytest.mark.timeout(150)
def test_lines_of_operations_come_once_and_none_of_trials(tmp_path: Path) -> None:
    """Two ranks print the numbers of their rows: of four steps, and of a whole batch evaluated."""
    (tmp_path / "script.py").write_text(PRINTING)
    outcome = matex_run(tmp_path, tmp_path / "script.py", ranks=2)
    assert outcome.status == 0, outcome.stderr
    for text in (outcome.stderr, (outcome.report / "rank-0001.log").read_text()):
        lines = [line for line in text.splitlines() if line.startswith(("rows", "eager"))]
        assert lines == ["rows 8"] * 4 + ["rows 32", "eager"]
    assert "curves 4" in outcome.stdout.splitlines()
    assert "train_step writes summaries" in outcome.stdout


@pytest.mark.timeout(150)
@pytest.mark.parametrize("columns", [0, 120])
def test_the_bar_says_how_many_ranks_live(columns: int, tmp_path: Path) -> None:
    """The leader dies in the second of two epochs of five steps, and another rank shows the bar."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    status, text = _on_terminal(
        [sys.executable, "-m", "matex", "run", "-n", "2", *faults("kill:rank=0,step=7"), script],
        columns=columns,
    )
    assert status == 0, text
    first, second = re.findall(r"5/5\x1b[^\n]* - loss: [^\n\r]* - ranks: ([^\n\r]*)\r?\n", text)
    assert (first, second) == ("2/2", "1/2"), text
    assert "logged loss\r\n" in text


def _on_terminal(command: list[str | Path], *, columns: int) -> tuple[int, str]:
    """Status and output of *command* on a terminal of its own; the test's time limit bounds it."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "PYTHONPATH": PATHS}
    )
    os.close(theirs)
    shown = b""
    try:
        while True:
            try:
                read = os.read(mine, 65536)
            except OSError:  # nobody has the terminal open any more
                break
            if not read:
                break
            shown += read
        return process.wait(), shown.decode(errors="replace")
    finally:
        process.terminate()
        process.wait()
        os.close(mine)
