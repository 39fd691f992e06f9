"""``matex run`` with the mpiexec of MPICH, of which a death ends all ranks of a start.

The wheel gets an environment of its own, which has everything else from this one's.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from matex.launcher.mpich_segments import segments
from tests.train.runs import (
    ROOT,
    SCRIPTS,
    Outcome,
    assert_whole,
    execute,
    faults,
    matex_run,
    relative_differences,
)

ULFM = """
import ft, os
communicator = ft.Communicator.start()
line = f"{communicator.world.size} {communicator.ulfm} {ft.has_ulfm()}\\n"
os.write(1, line.encode())  # one write: two ranks' lines cannot mix, buffered or not
communicator.leave()
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment whose mpiexec and MPI are MPICH's."""
    folder = tmp_path_factory.mktemp("mpich") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    found = folder / "bin" / "python"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        found,
    ]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "-c", ROOT / "constraints.txt", "mpich"],
        check=True,
    )
    # Of two directories of packages the environment's own comes first.
    [own] = (folder / "lib").glob("python*/site-packages")
    (own / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def run(
    python: Path, folder: Path, *arguments: str, ranks: int = 2, options: list[str | Path]
) -> Outcome:
    """``matex run`` of interrupted.py under MPICH."""
    folder.mkdir(exist_ok=True)
    report = folder / "report"
    before = segments()
    done = execute(
        [
            *(python, "-m", "matex", "run", "-n", str(ranks), "--report", report),
            *(*options, SCRIPTS / "interrupted.py", *arguments),
        ],
        directory=folder,
    )
    assert segments() <= before, "what killed ranks left in memory"
    return Outcome(status=done.returncode, stdout=done.stdout, stderr=done.stderr, report=report)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a run that nothing happens to, under this environment's MPI."""
    return matex_run(tmp_path_factory.mktemp("whole"), "interrupted.py", ranks=1).losses


def test_all_ranks_are_started_again_after_a_death(
    python: Path, whole: list[float], tmp_path: Path
) -> None:
    """They continue from snapshots in memory, and there are more ranks than cores."""
    options = ["--memory-every", "0.02", "--max-restarts", "2"]
    outcome = run(
        python, tmp_path, ranks=3,
        options=[*options, *faults("kill:rank=1,step=12", "kill:rank=0,step=30")],
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert (summary["status"], summary["restarts"]) == ("finished", 2)
    assert (summary["world_size_start"], summary["world_size_end"]) == (3, 3)
    assert len(set(summary["weights_hash"].values())) == 1
    starts = [event for event in outcome.events if event["event"] == "start"]
    assert [event["ulfm"] for event in starts] == 9 * [False]
    losses = {e["epoch"]: e["loss"] for e in outcome.events if e["event"] == "epoch"}
    assert max(relative_differences([losses[e] for e in sorted(losses)], whole)) < 1e-4
    assert "the injected fault kill:rank=1,step=12: starting 3 ranks again" in outcome.stdout


def test_told_to_leave_it_saves_and_is_continued(
    python: Path, whole: list[float], tmp_path: Path
) -> None:
    options: list[str | Path] = ["--checkpoint", tmp_path / "saved"]
    first = run(
        python, tmp_path / "1", "--at", "1:2", "--what", "SIGTERM:matex-run", options=options
    )
    assert first.status == 75, first.stderr
    assert first.summary["resumable"]
    second = run(python, tmp_path / "2", options=options)
    assert second.stdout.count("continuing from the checkpoint") == 1
    assert_whole(second, world_size_end=2, losses=whole[1:])
    twice = run(
        python, tmp_path / "3", "--endless", "--at", "0:3", "--what", "SIGINT:matex-run-twice",
        options=[],
    )  # fmt: skip
    assert twice.status in (1, 75)  # it may have come to its end before the second arrived


def test_what_there_is_without_ulfm_is_said(python: Path, tmp_path: Path) -> None:
    doctor = execute([python, "-m", "matex", "doctor"], directory=tmp_path)
    assert doctor.returncode == 0, doctor.stdout
    assert "(Hydra, the mpiexec of MPICH)" in doctor.stdout
    assert "- ULFM           not here: training works" in doctor.stdout
    spares = run(python, tmp_path, ranks=3, options=["--spares", "1"])
    assert spares.status == 2
    assert "--spares wants Open MPI 5" in spares.stderr
    # What Open MPI's launcher would set proves nothing.
    start: list[str | Path] = [python.with_name("mpiexec"), "-n", "2", python, "-c", ULFM]
    found = execute(start, directory=tmp_path, OMPI_MCA_mpi_ft_enable="1")
    assert found.stdout.splitlines() == 2 * ["2 False False"]
