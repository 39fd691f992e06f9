"""A launcher that is killed: its ranks train on, in directories that stay theirs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ci.patience import patience
from matex.launcher.locks import owned
from tests.train.runs import PATHS, execute

pytestmark = pytest.mark.usefixtures("forked_ranks")

SCRIPT = """
import keras, numpy as np

class Telling(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            print("training", flush=True)

x = np.ones((8, 2), "float32")
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=4, epochs=10**6, verbose=0, callbacks=[Telling()])
"""


@pytest.mark.timeout(90)
def test_a_second_run_waits_for_the_ranks_of_a_launcher_that_was_killed(tmp_path: Path) -> None:
    script, report, saved = (tmp_path / name for name in ("script.py", "report", "saved"))
    script.write_text(SCRIPT)
    own = {"PYTHONPATH": PATHS, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-m", "matex", "run", "-n", "1", "--checkpoint", saved]
    first = subprocess.Popen(
        [*words, "--report", report, script],
        env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdout is not None
    assert "training\n" in iter(first.stdout.readline, "")
    (mpiexec,) = psutil.Process(first.pid).children()
    first.kill()
    first.wait()
    try:
        ended = os.pidfd_open(mpiexec.pid)
        again = [*words, "--report", tmp_path / "other", script]
        second = execute(again, directory=tmp_path, **own)
        assert second.returncode == 2
        (line,) = second.stderr.splitlines()
        assert f"{saved}, which the run of process {first.pid} on " in line
        assert f"its ranks still run, below process {mpiexec.pid}: " in line
        assert f"kill -USR1 {mpiexec.pid}" in line
        mpiexec.send_signal(signal.SIGUSR1)
        assert select.select([ended], [], [], patience(30))[0]
    finally:
        first.stdout.close()
        if mpiexec.is_running():
            os.killpg(mpiexec.pid, signal.SIGKILL)
    os.close(ended)
    assert json.loads((report / "summary.json").read_text())["resumable"]
    for directory in (report, saved):
        with owned(directory, "--report"):
            pass
