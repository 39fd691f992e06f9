"""Bad input gets one clear line, and never a hang."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests import slow
from tests.train.runs import ROOT, Outcome, execute, matex_run

BODIES = {
    "fails-to-import": "import there_is_no_such_module\n",
    "one-rank-fails-to-import": (
        "import matex\nif matex.rank() == 1:\n    import there_is_no_such_module\n"
        "exec(open({classify!r}).read())\n"
    ),
    "unequal-data": (
        "import os, keras, matex, numpy as np\n"
        "def batches():\n"
        "    generator = np.random.default_rng(os.getpid())\n"
        "    while True:\n"
        "        yield generator.normal(size=(16, 2)), np.zeros((16, 1))\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(batches(), steps_per_epoch=4, shuffle=False)\n"
    ),
    "unequal-loop": (
        "import keras, matex, numpy as np, tensorflow as tf\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "optimizer = keras.optimizers.SGD()\n"
        "@tf.function\n"
        "def step(x):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(model(x))\n"
        "    gradients = tape.gradient(loss, model.trainable_variables)\n"
        "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
        "step(tf.ones((4, 2)) * (1 + matex.rank()))\n"
    ),
    "unequal-whole": (
        "import os, keras, matex, numpy as np\n"
        "def batches():\n"
        "    generator = np.random.default_rng(os.getpid())\n"
        "    while True:\n"
        "        yield generator.normal(size=(16, 2)), np.zeros((16, 1))\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', keras.losses.MeanSquaredError(reduction=None))\n"
        "model.fit(batches(), steps_per_epoch=4, shuffle=False)\n"
    ),
    "other-backend": (
        "import os\n"
        "os.environ['KERAS_BACKEND'] = 'tensorflow'\n"
        "os.environ['KERAS_BACKEND'] = 'jax'\n"
        "import keras\n"
    ),
    "unequal-ranks": (
        "import keras, matex, numpy as np\n"
        "rows = 64 + matex.rank()\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((rows, 2)), np.zeros((rows, 1)))\n"
    ),
    "unequal-end": (
        "import keras, matex, numpy as np\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((64, 2)), np.zeros((64, 1)))\n"
        "model.set_weights([w + matex.rank() for w in model.get_weights()])\n"
    ),
    "legacy-keras": "import tf_keras\n",
    "overridden-hook": (
        "import keras, numpy as np\n"
        "class Own(keras.Sequential):\n"
        "    def make_train_function(self, force=False):\n"
        "        self.train_function = lambda iterator: {}\n"
        "model = Own([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((64, 2)), np.zeros((64, 1)))\n"
    ),
}


def run_body(name: str, folder: Path, ranks: int = 2) -> Outcome:
    script = folder / f"{name}.py"
    classify = str(ROOT / "tests" / "train" / "scripts" / "classify.py")
    script.write_text(BODIES[name].replace("{classify!r}", repr(classify)))
    return matex_run(folder, script, ranks=ranks)


@pytest.mark.parametrize(
    ("name", "wanted"),
    slow.all_but(
        ["unequal-data", "unequal-ranks", "overridden-hook"],
        [
            ("unequal-data", ["the same batches", "seed every random generator"]),
            ("unequal-whole", ["must compute the same", "gradients that differ"]),
            ("other-backend", ["Keras on TensorFlow", "KERAS_BACKEND='jax'"]),
            ("unequal-loop", ["the same batches", "batches that differ"]),
            (
                "unequal-ranks",
                ["all ranks must give fit the same", "64 rows on rank 0 and 65 on rank 1"],
            ),
            ("unequal-end", ["different weights", "'1':"]),
            ("legacy-keras", ["tf_keras", "alone"]),
            ("overridden-hook", ["make_train_function", "Own"]),
        ],
    ),
)
def test_a_script_that_cannot_be_shared_is_told_so(
    name: str, wanted: list[str], tmp_path: Path
) -> None:
    outcome = run_body(name, tmp_path)
    assert outcome.status == 1
    (line,) = outcome.stderr.strip().splitlines()
    for text in wanted:
        assert text in line
    assert outcome.summary["status"] == "failed"
    assert outcome.summary["reason"] in line


def test_a_script_that_fails_to_import(tmp_path: Path) -> None:
    outcome = run_body("fails-to-import", tmp_path)
    assert outcome.status == 1
    last = outcome.stderr.strip().splitlines()[-1]
    assert last.startswith("matex: failed: rank")
    assert "ModuleNotFoundError: No module named 'there_is_no_such_module'" in last
    assert outcome.summary["status"] == "failed"


def test_one_rank_that_fails_to_import_is_a_rank_lost(tmp_path: Path) -> None:
    script = "one-rank-fails-to-import"
    outcome = run_body(script, tmp_path)
    assert outcome.status == 0
    assert outcome.summary["world_size_end"] == 1
    assert "there_is_no_such_module" in (outcome.report / "rank-0001.log").read_text()
    last = outcome.stderr.strip().splitlines()[-1]
    assert last.startswith("matex: went on without rank 1: ModuleNotFoundError: ")
    assert last.endswith("rank-0001.log")


def test_a_data_file_without_the_arrays(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["images"] = np.zeros(3)
    script = ROOT / "examples" / "01_higgs.py"
    outcome = matex_run(tmp_path, script, "--data", tmp_path / "other.h5", ranks=2)
    assert outcome.status == 1
    assert "x_train" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_without_ulfm_training_works_and_a_death_ends_it(tmp_path: Path) -> None:
    """One warning; the run itself is whole; with a death no rank hangs; files of others stay."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    script = ROOT / "tests" / "train" / "scripts" / "classify.py"
    root = ["--allow-run-as-root"] if Path("/proc/self").owner() == "root" else []
    start = [mpiexec, *root, "--oversubscribe", "-n", "2", sys.executable, "-m", "matex"]
    plain = execute([*start, script, "--epochs", "1"], directory=tmp_path)
    assert plain.returncode == 0
    assert plain.stdout.count("no ULFM in this MPI") == 1
    options = ["--report", tmp_path / "report", "--inject", "kill:rank=1,step=5"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "summary.json").write_text("mine")
    elsewhere = execute([*start, "--report", "notes", script], directory=tmp_path)
    assert elsewhere.returncode != 0
    assert elsewhere.stderr.count("has summary.json, which is not of a report") == 2  # each rank
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["summary.json"]
    deadly = execute([*start, *options, script, "--epochs", "1"], directory=tmp_path)
    assert deadly.returncode != 0
    assert not (tmp_path / "report" / "summary.json").exists()


def test_a_host_on_which_nothing_can_be_started_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('never')\n")
    outcome = matex_run(tmp_path, script, ranks=2, options=["--hosts", "no-such-host.invalid:2"])
    assert outcome.status == 1
    assert outcome.stdout == ""
    (line,) = outcome.stderr.splitlines()
    reason = "the ranks did not start: no program can be started on no-such-host.invalid"
    assert reason in line, outcome.stderr
