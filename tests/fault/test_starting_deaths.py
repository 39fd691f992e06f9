"""A rank that dies while it imports ends the attempt: the others would wait for it in MPI_Init."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.train.runs import PATHS, Outcome, matex_run

# Python imports it first: it kills rank 1 as soon as that looks for a module, of which mpi4py comes
# before MPI_Init, and TensorFlow after it.
KILLED = """
import os, pathlib, signal, sys, time

class Killing:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["TEST_MODULE"]:
            deaths = pathlib.Path(os.environ["TEST_DEATHS"])
            with deaths.open("a+") as file:
                file.seek(0)
                if len(file.readlines()) < int(os.environ["TEST_LIMIT"]):
                    file.write(f"{os.getpid()} {time.time()}\\n")
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
        return None

if os.environ.get("PMIX_RANK") == "1":
    sys.meta_path.insert(0, Killing())
"""

# So does this one: rank 1 stops, before it handles any signal, and tells the launcher to leave.
TOLD = """
import os, signal, sys

class Telling:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            pid = os.getppid()
            while open(f"/proc/{pid}/cmdline").read().split(chr(0))[1:4] != ["-m", "matex", "run"]:
                pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGTERM)
            while True:
                signal.pause()
        return None

if os.environ.get("PMIX_RANK") == "1":
    sys.meta_path.insert(0, Telling())
"""

SCRIPT = """
import keras, numpy as np
x = np.ones((8, 2), "float32")
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=4, verbose=0)
"""

# The launcher looks twice a second, waits 3 s for a sign that the ranks met, and ends mpiexec.
NOTICED_S = 20.0


def prepared(directory: Path, startup: str) -> Path:
    """The script, and what Python imports before it."""
    (directory / "startup").mkdir()
    (directory / "startup" / "sitecustomize.py").write_text(startup)
    script = directory / "script.py"
    script.write_text(SCRIPT)
    return script


def run(
    directory: Path, *options: str, deaths: int, module: str = "mpi4py"
) -> tuple[Outcome, list[int], float]:
    """The outcome, the processes that were killed, and the seconds from the first death."""
    script = prepared(directory, KILLED)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(directory / "startup"), PATHS]),
        "TEST_DEATHS": str(directory / "deaths"),
        "TEST_LIMIT": str(deaths),
        "TEST_MODULE": module,
    }
    outcome = matex_run(
        directory, script, ranks=3, options=options, timeout_s=40, environment=environment
    )
    rows = [line.split() for line in (directory / "deaths").read_text().splitlines()]
    seconds = time.time() - float(rows[0][1])
    return outcome, [int(process) for process, _ in rows], seconds


@pytest.mark.timeout(60)
def test_the_death_of_a_rank_that_still_imports_ends_the_attempt(tmp_path: Path) -> None:
    outcome, (process,), seconds = run(tmp_path, deaths=1)
    assert seconds < NOTICED_S
    assert outcome.status == 1
    reason = f"rank 1 (process {process}) ended before the ranks had met"
    (line,) = [line for line in outcome.stderr.splitlines() if reason in line]
    assert line.startswith(f"matex: failed: {reason}")
    assert outcome.summary["status"] == "failed"
    assert outcome.summary["reason"].startswith(reason)
    assert not (tmp_path / "report" / ".starting").exists()


@pytest.mark.timeout(60)
def test_the_launcher_notices_it_on_hosts_whose_processes_it_cannot_see(tmp_path: Path) -> None:
    outcome, (process,), seconds = run(tmp_path, "--hosts", "127.0.0.1:3", deaths=1)
    assert seconds < NOTICED_S
    assert outcome.status == 1
    named = rf"rank 1 \(process {process} on \S+\) ended before the ranks had met"
    assert re.match(named, outcome.summary["reason"])


@pytest.mark.timeout(120)
def test_after_such_a_death_the_ranks_are_started_again(tmp_path: Path) -> None:
    outcome, (process,), _ = run(tmp_path, "--max-restarts", "2", deaths=1)
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["status"] == "finished"
    assert outcome.summary["restarts"] == 1
    told = rf"rank 1 \(process {process}\) ended before .*: starting 3 ranks again"
    assert re.search(told, outcome.stdout)


@pytest.mark.timeout(120)
def test_a_rank_that_always_dies_is_given_up(tmp_path: Path) -> None:
    outcome, killed, _ = run(tmp_path, "--max-restarts", "9", deaths=99)
    assert outcome.status == 1
    assert len(killed) == 3
    assert outcome.summary["reason"].endswith("; the start failed 3 times in a row")


@pytest.mark.timeout(60)
def test_a_rank_that_dies_in_its_imports_after_the_meeting_is_gone_on_without(
    tmp_path: Path,
) -> None:
    outcome, killed, _ = run(tmp_path, deaths=1, module="tensorflow")
    assert len(killed) == 1
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["world_size_end"] == 2
    assert outcome.summary["restarts"] == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hosts", [[], ["--hosts", "127.0.0.1:2"]])
def test_a_run_told_to_stop_before_its_ranks_have_met_can_be_continued(
    hosts: list[str], tmp_path: Path
) -> None:
    """The status that a requeued job needs which is preempted while it starts."""
    script = prepared(tmp_path, TOLD)
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "startup"), PATHS])}
    outcome = matex_run(
        tmp_path, script, ranks=2, options=hosts, timeout_s=40, environment=environment
    )
    assert outcome.status == 75, outcome.stderr
    assert (outcome.summary["status"], outcome.summary["resumable"]) == ("stopped", True)
    reason = "the ranks had not met yet, asked to stop (SIGTERM)"
    assert outcome.summary["reason"] == reason
    assert outcome.stderr.startswith(f"matex: {reason}")
    assert "SIGTERM: leaving before the ranks have met" in outcome.stdout
    assert not (tmp_path / "report" / ".starting").exists()
