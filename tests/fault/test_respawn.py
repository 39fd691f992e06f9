"""Processes take the places of ranks that are killed, as often as it happens, on each host."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ci.chaos.respawn.launch import Plan, make, wrong
from ci.testing import leftovers
from tests.train.runs import faults, matex_run

pytestmark = pytest.mark.usefixtures("forked_ranks")

# One after the other; and all of one host at once.
ONE_BY_ONE = Plan(seed=3, ranks=2, layers="dropout", kills=2, only_whole=True, rest_ms=25.0)
A_HOST = Plan(seed=1, ranks=4, layers="dropout", kills=2, only_whole=True, rest_ms=25.0, hosts=2)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("plan", [ONE_BY_ONE, A_HOST], ids=["one-by-one", "a-host"])
def test_as_many_ranks_as_at_the_start_are_there_in_the_end(plan: Plan, tmp_path: Path) -> None:
    """Two ranks are killed; another fit came before."""
    if plan.hosts > 1 and (os.geteuid() != 0 or shutil.which("ip") is None):
        pytest.skip("network namespaces need root and the command ip")
    before = leftovers.shared_memory()
    outcome = make(plan, tmp_path, limit_s=700)
    assert not wrong(plan, outcome), outcome.output
    summary = outcome.summary
    replaced = {fault["rank"]: fault for fault in summary["faults"]}
    assert set(replaced) == {rank for rank, _ in outcome.killed}
    assert all(fault["replaced_by"] is not None for fault in replaced.values())
    assert summary["respawned"] == 2
    assert all(0 < fault["pause_s"] < fault["respawn_s"] for fault in replaced.values())
    assert not leftovers.stray_shared_memory(before)


TRAINED_BY_HAND = """
import pathlib, sys, time
import keras, numpy as np

events = pathlib.Path(sys.argv[1]) / "events.jsonl"


class UntilNobodyComes(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
        self.model.stop_training = "respawn-failed" in events.read_text()


model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((4, 2)), np.ones((4, 1))
model.train_on_batch(x, y)
model.fit(x, y, batch_size=4, epochs=20_000, verbose=0, callbacks=[UntilNobodyComes()])
"""


def test_a_process_that_cannot_join_says_why_and_ends_without_a_word_of_mpiexec_s(
    tmp_path: Path,
) -> None:
    script = tmp_path / "trained_by_hand.py"
    script.write_text(TRAINED_BY_HAND)
    outcome = matex_run(
        tmp_path, str(script), str(tmp_path / "report"), ranks=2,
        options=["--respawn", *faults("kill:rank=1,step=3")],
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    (failed,) = [event for event in outcome.events if event["event"] == "respawn-failed"]
    assert failed["reason"].startswith("the script trains by train_on_batch before the fit")
    assert f"ended before it could join: {failed['reason']}" in outcome.stdout
    assert "prterun noticed" not in outcome.stdout + outcome.stderr


TRAINED = """
import signal
import keras, numpy as np
import matex

if matex.rank() > 1:
    signal.pause()  # as a long preparation of data
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((80, 2)), np.ones((80, 1))
"""
# Its process has been started a moment ago; and it has come as far as the script.
JUST_STARTED = "model.fit(x, y, batch_size=4, epochs=1, verbose=0)"
IN_THE_SCRIPT = """
import pathlib, sys, time

class UntilItIsThere(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
        devices = events.read_text().count('"devices"')
        self.model.stop_training = devices == 3

events = pathlib.Path(sys.argv[1]) / "events.jsonl"
model.fit(x, y, batch_size=4, epochs=20_000, verbose=0, callbacks=[UntilItIsThere()])
"""


@pytest.mark.parametrize("fit", [JUST_STARTED, IN_THE_SCRIPT], ids=["just-started", "in-script"])
def test_a_process_that_comes_too_late_ends_without_a_word_of_mpi_s(
    fit: str, tmp_path: Path
) -> None:
    script = tmp_path / "trained.py"
    script.write_text(TRAINED + fit)
    outcome = matex_run(
        tmp_path, str(script), str(tmp_path / "report"), ranks=2,
        options=["--respawn", *faults("kill:rank=1,step=18")],
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    assert "starting rank 2" in outcome.stdout + outcome.stderr
    said = outcome.stdout + outcome.stderr
    assert "prterun" not in said
    assert "MPI_Init" not in said
    assert "OPAL" not in said
