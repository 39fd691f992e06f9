"""However a run fails, the last line on the terminal says which rank failed, where and why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import slow
from tests.train.runs import execute, matex_run

BODIES = {
    "syntax": ("def broken(:\n", "SyntaxError: invalid syntax"),
    "segfault": ("import ctypes\nctypes.string_at(0)\n", "Segmentation fault"),
    "exit": ("import os\nos._exit(3)\n", "os._exit with status 3"),
    "interrupt": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n",
        "KeyboardInterrupt (script.py, line 2)",
    ),
    "thread": (
        "import os, threading\nthread = threading.Thread(target=os._exit, args=(0,))\n"
        "thread.start()\nthread.join()\n",
        "os._exit with status 0",
    ),
}


ONE_AFTER_ANOTHER = """
import keras, matex, numpy as np

class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if (batch, matex.rank()) == (3, 0):
            raise ValueError("first")
        if (batch, matex.rank()) == (8, 1):
            raise KeyError("later")

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((64, 2)), np.zeros((64, 1)), batch_size=4, verbose=0, callbacks=[Fails()])
"""


@pytest.mark.parametrize("how", slow.all_but(["syntax"], BODIES))
def test_the_rank_that_raised_first_is_named(how: str, tmp_path: Path) -> None:
    body, reason = BODIES[how]
    script = tmp_path / "script.py"
    script.write_text(body)
    outcome = matex_run(tmp_path, script, ranks=2)
    assert outcome.status == 1
    *before, last = outcome.stderr.strip().splitlines()
    assert last.startswith("matex: failed: rank ")
    assert reason in last
    log = Path(last.rpartition("; see ")[2])
    assert log.parent == outcome.report
    assert log.exists()
    assert outcome.summary["reason"] in last
    if how == "syntax":  # as plain Python says it
        assert before[0] == f'File "{script}", line 1'
        assert "/matex/" not in outcome.stderr
    if how == "segfault":  # what only the log had is shown above it
        assert any("script.py" in line and "line 2" in line for line in before)


def test_a_script_may_end_without_the_end_of_python(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nprint('ends', flush=True)\nos._exit(0)\n")
    outcome = matex_run(tmp_path, script, ranks=2)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.summary["status"] == "finished"
    assert "ends" in outcome.stdout.splitlines()


IN_A_CALLBACK = """
import keras, numpy as np

class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        try:
            1 / 0
        except ZeroDivisionError:
            raise ValueError("of the script")

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 2)), np.zeros((8, 1)), batch_size=4, verbose=0, callbacks=[Fails()])
"""


def test_a_traceback_is_that_of_plain_keras(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IN_A_CALLBACK)
    plain = execute([sys.executable, script], directory=tmp_path)
    outcome = matex_run(tmp_path, script, ranks=2)
    _, found, wanted = plain.stderr.partition("Traceback (most recent call last)")
    assert found
    *shown, last = outcome.stderr.splitlines()
    assert shown[0].startswith("matex: frames of matex are left out of this traceback; the log")
    assert "".join(shown[1:]) == f"{found}{wanted}".replace("\n", "")
    assert last.endswith("ValueError: of the script (script.py, line 9); see " + last.split()[-1])
    whole = (outcome.report / "rank-0000.log").read_text()
    assert "keras_adapter.py" in whole


def test_the_last_error_is_the_cause_where_the_others_survived_the_first(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ONE_AFTER_ANOTHER)
    outcome = matex_run(tmp_path, script, ranks=2)
    assert outcome.status == 1
    *_, warning, last = outcome.stderr.strip().splitlines()
    assert warning.startswith(
        "matex: went on without rank 0 at step 4: ValueError: first (script.py, line "
    )
    assert last.startswith("matex: failed: rank 1 at step 9: KeyError: 'later' (script.py, line ")
    assert last.endswith("rank-0001.log")


ON_ONE_RANK = """
import keras, matex, numpy as np

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 2)), np.zeros((8, 1)), batch_size=4, verbose=0)
if matex.rank() == 1:
    open("there/is/none")
model.fit(np.zeros((8, 2)), np.zeros((8, 1)), batch_size=4, verbose=0)
print("the others go on")
"""


@pytest.mark.parametrize("options", [[], ["--strict"]])
def test_a_rank_lost_to_the_script_is_the_last_line(options: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ON_ONE_RANK)
    outcome = matex_run(tmp_path, script, ranks=2, options=options)
    assert "the others go on" in outcome.stdout
    last = outcome.stderr.strip().splitlines()[-1]
    assert last.startswith("matex: went on without rank 1 at step 2: FileNotFoundError: ")
    assert "(script.py, line 8); every rank runs the whole script" in last
    assert last.endswith("rank-0001.log")
    (lost,) = outcome.summary["ranks_lost"]
    assert (lost["rank"], lost["step"], lost["cause"]) == (1, 2, "script")
    assert lost["error"].startswith("FileNotFoundError: ")
    wanted = (1, "failed") if options else (0, "finished")
    assert (outcome.status, outcome.summary["status"]) == wanted
