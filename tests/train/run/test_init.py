"""``import matex; matex.init()`` in a script that something else starts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from matex.launcher.mpiexec import OPEN_MPI_SETTINGS
from tests import slow
from tests.train.runs import execute

SCRIPT = """\
import keras  # before matex, as users do
import matex
import numpy as np

matex.init(seed=3)
matex.init()  # a second call does nothing
x = np.random.default_rng(0).normal(size=(300, 4)).astype("float32")
y = (x[:, 0] > 0).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
model.compile("sgd", "binary_crossentropy")
model.fit(x, y, batch_size=50, epochs=2, verbose=2)
assert matex.is_initialized()
print("rank", matex.rank(), "of", matex.size())
{end}
"""


def mpiexec(ranks: int) -> list[str | Path]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    start: list[str | Path] = [Path(sys.executable).with_name("mpiexec"), *root, "--oversubscribe"]
    start += ["--with-ft", "ulfm"]
    for name, value in OPEN_MPI_SETTINGS.items():
        start += ["--mca", name, value]
    return [*start, "-n", str(ranks), sys.executable]


@pytest.mark.parametrize("ranks", slow.all_but([2], [1, 2]))
def test_init_works_under_mpiexec(ranks: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(end=""))
    done = execute(
        [*mpiexec(ranks), script], directory=tmp_path, MATEX_REPORT=str(tmp_path / "report")
    )
    assert f"rank 0 of {ranks}" in done.stdout, done.stderr
    assert done.stdout.count("Epoch 2/2") == 1
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["world_size_end"] == ranks
    assert summary["samples_used"] == 600
    assert done.returncode == 0
    lines = (tmp_path / "report" / "events.jsonl").read_text().splitlines()
    taken = [event for event in map(json.loads, lines) if event["event"] == "devices"]
    kept_on = [core for event in taken for core in event["cores"]]
    assert len(taken) == ranks
    assert len(kept_on) == len(set(kept_on))
    assert all(1 <= event["threads"] <= len(os.sched_getaffinity(0)) for event in taken)


def test_without_a_launcher_it_is_one_rank(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    end = "from pathlib import Path\nprint('sm_segment' in Path('/proc/self/maps').read_text())"
    script.write_text(SCRIPT.format(end=end))
    done = execute([sys.executable, script], directory=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1\nFalse" in done.stdout  # nothing of MPI is left in /dev/shm


def test_without_any_mpi_it_is_one_rank_that_saves_and_reports(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(end="").replace("matex.init(seed=3)", "assert matex.size() == 1")
    )
    options = ["--seed", "3", "--report", tmp_path / "report", "--checkpoint", tmp_path / "saved"]
    command = [sys.executable, "-m", "matex", *options, script]
    missing = {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"}
    done = execute(command, directory=tmp_path, **missing)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("no MPI was found, so this is one rank") == 1
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert (summary["status"], summary["world_size_end"]) == ("finished", 1)
    assert summary["samples_used"] == 600
    assert list((tmp_path / "saved").glob("step-*.h5"))
    script.write_text("raise RuntimeError('a bug')")
    failed = execute(command, directory=tmp_path, **missing)
    assert failed.returncode == 1
    assert failed.stderr.strip().endswith("RuntimeError: a bug")


@pytest.mark.parametrize("strict", slow.all_but([True], [False, True]))
def test_a_rank_that_exits_in_error_is_left_behind(strict: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    end = "import sys\nif matex.rank() == 1: sys.exit(3)"
    script.write_text(SCRIPT.format(end=end))
    variables = {"MATEX_REPORT": str(tmp_path / "report"), "MATEX_STRICT": str(int(strict))}
    done = execute([*mpiexec(3), script], directory=tmp_path, **variables)
    assert "rank 0 of 3" in done.stdout, done.stderr
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert (summary["status"], summary["world_size_end"]) == ("failed" if strict else "finished", 2)
    (lost,) = summary["ranks_lost"]
    assert (lost["cause"], lost["error"]) == ("script", "the program ended with status 3")
    if strict:
        assert done.returncode == 1


def test_an_unknown_option_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import matex\nmatex.init(ranks=3)\n")
    done = execute([sys.executable, script], directory=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "options are checkpoint, report" in done.stderr
    assert "Received: ranks" in done.stderr
