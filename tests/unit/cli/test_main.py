"""Bad input to the command: status 2, one line that names it, at once, and nothing started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import matex
from ci.patience import patience
from matex.cli import main

ROOT = Path(matex.__file__).parents[1]

# Runs the command as `python -m matex` does, and tells what it had imported in the end.
PROGRAM = """
import runpy, sys
sys.argv = ["matex", *sys.argv[1:]]
try:
    runpy.run_module("matex", run_name="__main__", alter_sys=False)
finally:
    heavy = sorted({"tensorflow", "keras", "mpi4py.MPI", "h5py"} & set(sys.modules))
    with open("imported", "w") as file:
        file.write(" ".join(heavy))
"""


def matex_command(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # The limit is that of a slow machine: TensorFlow alone would take longer to import.
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=directory, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(30), check=False,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('this script must not run')\n")
    return tmp_path


BAD = {
    "no ranks at all": (
        ["run", "-n", "0", "train.py"],
        "--ranks must be at least 1. Received: '0'",
    ),
    "negative ranks": (
        ["run", "-n", "-2", "train.py"],
        "--ranks must be at least 1. Received: '-2'",
    ),
    "ranks in words": (
        ["run", "-n", "two", "train.py"],
        "--ranks must be a whole number of at least 1. Received: 'two'",
    ),
    "number of ranks missing": (["run", "train.py"], "-n N, the number of ranks, is wanted"),
    "script missing": (["run", "-n", "2"], "SCRIPT"),
    "script is no file": (["run", "-n", "2", "none.py"], "Received: none.py, which is no file"),
    "the script's options are its own": (
        ["run", "-n", "2", "none.py", "--rank", "3", "--check", "x", "-n", "0"],
        "Received: none.py, which is no file",
    ),
    "script is a directory": (["run", "-n", "2", "."], "which is no file"),
    "unknown fault": (
        ["run", "-n", "2", "--inject", "explode:rank=0,step=1", "train.py"],
        "kind must be one of kill",
    ),
    "more faults than ranks": (
        ["run", "-n", "2", "--inject", "kill:rank=0+1,step=1", "train.py"],
        "more faults than ranks",
    ),
    "a fault for a rank that is not": (
        ["run", "-n", "2", "--inject", "kill:rank=2,step=1", "train.py"],
        "rank must be below the number of ranks, 2",
    ),
    "a plan that is not there": (
        ["run", "-n", "2", "--inject-file", "none.csv", "train.py"],
        "a fault plan must be a CSV file. Received: none.csv: No such file",
    ),
    "a plan that is no plan": (
        ["run", "-n", "2", "--inject-file", "train.py", "train.py"],
        "train.py, line 1: ",
    ),
    "a sample of nothing": (["faults", "sample", "--mtbf", "2h", "--ranks", "4"], "--hours"),
    "a sample with an age": (
        ["faults", "sample", "--mtbf", "old", "--ranks", "4", "--hours", "1"],
        "a duration such as 90s, 30m, 2h or 1d is wanted. Received: old",
    ),
    "a sample of one rank": (
        ["faults", "sample", "--mtbf", "1h", "--ranks", "1", "--hours", "1"],
        "ranks must be at least 2, for one must survive. Received: ranks=1",
    ),
    "unknown option": (["run", "-n", "2", "--fast", "train.py"], "--fast"),
    "seed in words": (["run", "-n", "2", "--seed", "x", "train.py"], "--seed"),
    "negative seed": (["run", "-n", "2", "--seed", "-1", "train.py"], "seed must be at least 0"),
    "nothing kept": (["run", "-n", "2", "--keep", "0", "train.py"], "keep must be at least 1"),
    "unknown strategy": (
        ["run", "-n", "2", "--strategy", "rumour", "train.py"],
        "--strategy must be one of sync, gossip, daso, easgd, downpour. Received: 'rumour'",
    ),
    "a rate for a batch that stays": (
        ["run", "-n", "2", "--lr-scaling", "linear", "train.py"],
        "give batch_per_rank too",
    ),
    "no patience": (
        ["run", "-n", "2", "--hang-timeout", "0", "train.py"],
        "--hang-timeout must be above 0 seconds. Received: '0'",
    ),
    "restarts in words": (
        ["run", "-n", "2", "--max-restarts", "some", "train.py"],
        "--max-restarts must be a whole number of at least 0. Received: 'some'",
    ),
    "growing from nowhere": (
        ["run", "-n", "2", "--grow", "train.py"],
        "--grow wants --checkpoint DIR",
    ),
    "a wall time of no form": (
        ["run", "-n", "2", "--wall-time", "90", "train.py"],
        "--wall-time must be a time HH:MM:SS above zero. Received: '90'",
    ),
    "report under a file": (
        ["run", "-n", "2", "--report", "train.py/out", "train.py"],
        "the report directory must be writable",
    ),
    "hosts with words for numbers": (
        ["run", "-n", "2", "--hosts", "a:x", "train.py"],
        "as in a:2,b:2. Received: 'a:x'",
    ),
    "a host without a name": (
        ["run", "-n", "2", "--hosts", "a:1,,b", "train.py"],
        "as in a:2,b:2. Received: 'a:1,,b'",
    ),
    "more deaths than ranks": (
        ["run", "-n", "1", "--inject", "kill:rank=0,step=3", "train.py"],
        "more faults than ranks",
    ),
    "a network without hosts": (
        ["doctor", "--network"],
        "--network wants two hosts or more, as --hosts a:2,b:2 or from a batch job. Received: this",
    ),
    "a network of one host": (
        ["doctor", "--network", "--hosts", "a:4"],
        "--hosts must name two hosts or more. Received: a:4",
    ),
    "ranks that do not reach the second host": (
        ["doctor", "--network", "--hosts", "a:2,b:2", "-n", "2"],
        "-n must reach the second host: a takes 2. Received: 2",
    ),
    "a model of no parameters": (
        ["doctor", "--network", "--parameters", "1.5"],
        "a whole number of at least 1 is wanted. Received: 1.5",
    ),
    "hosts for the usual doctor": (
        ["doctor", "--hosts", "a:2,b:2"],
        "--hosts wants --network. Received: none",
    ),
    "no command": ([], "command"),
    "unknown command": (["rum", "-n", "2"], "Received: rum, which is no file"),
    "a rank without a script": (["none.py"], "which is no file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_status_2(case: str, place: Path) -> None:
    words, said = BAD[case]
    done = matex_command(place, *words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert said in line
    assert (place / "imported").read_text() == ""
    assert {path.name for path in place.iterdir()} == {"train.py", "imported"}


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["-h"]])
def test_help_says_what_there_is(words: list[str], place: Path) -> None:
    done = matex_command(place, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: matex" in done.stdout
    assert (place / "imported").read_text() == ""


def test_help_of_run_names_every_option_and_fault(capsys: pytest.CaptureFixture[str]) -> None:
    import ft

    with pytest.raises(SystemExit) as stop:
        main(["run", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in (
        "--ranks",
        "--hosts",
        "--report",
        "--checkpoint",
        "--inject",
        "--max-restarts",
        *ft.KINDS,
    ):
        assert word in text
    assert all(phase in "".join(text.split()) for phase in ft.PHASES)  # broken at hyphens


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"matex {matex.__version__}\n"


def dry(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["run", "--dry-run", *words]) == 0
    return capsys.readouterr().out.split()


def test_a_dry_run_prints_the_command_that_would_start(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    words = dry(
        capsys, "-n", "3", "--seed", "5", "--inject", "nan:rank=1,step=2", "--hosts", "a:3",
        "--checkpoint", "saved", "train.py", "--epochs", "2", "--report", "theirs", "--", "-n", "8",
    )  # fmt: skip
    assert words[0] == "mpiexec"
    assert words[words.index("-n") + 1] == "3"
    assert words[words.index("--host") + 1] == "a:3"
    ranks = words[words.index("matex") + 1 :]
    assert ranks[: ranks.index("--report")] == [
        *("--checkpoint", str(place / "saved"), "--seed", "5", "--inject", "nan:rank=1,step=2")
    ]
    assert ranks[-8:] == ["train.py", "--epochs", "2", "--report", "theirs", "--", "-n", "8"]


def test_options_left_alone_are_not_passed_on(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    words = dry(capsys, "-n", "2", "--report", "out", "train.py")
    assert words[words.index("matex") + 1 :] == ["--report", "out", "train.py"]


ENVIRONMENTS = {
    "MATEX_ULFM": "maybe",
    "SLURM_JOB_NUM_NODES": "two",
    "PBS_NODEFILE": "none",
    "LSB_MCPU_HOSTS": "a 4 b",
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_variable_of_another_form_gets_one_line(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, ENVIRONMENTS[name])
    if name.startswith("SLURM"):
        monkeypatch.setenv("SLURM_JOB_ID", "1")
    with pytest.raises(SystemExit) as ended:
        main(["run", "--dry-run", "-n", "2", str(place / "train.py")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"environment variable {name} must" in line
    assert "Received: " in line


def test_all_ranks_may_die_where_they_are_started_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = ["--inject", "kill:rank=0,step=3", str(place / "train.py")]
    assert main(["run", "--dry-run", "-n", "1", "--max-restarts", "1", *fault]) == 0
    assert "kill:rank=0,step=3" in capsys.readouterr().out


JOBS = {
    "slurm": ({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "8"}, "-n 8", ""),
    "lsf": ({"LSB_MCPU_HOSTS": "a 4 b 4"}, "-n 8", "--host a:4,b:4"),
}


@pytest.mark.parametrize("job", JOBS)
def test_in_a_batch_job_ranks_and_hosts_are_those_of_the_job(
    job: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment, ranks, hosts = JOBS[job]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["run", "--dry-run", str(place / "train.py")]) == 0
    said = capsys.readouterr().out
    assert ranks in said and hosts in said
    assert "mpi_ft_detector 1" in said
    assert main(["run", "--dry-run", "-n", "3", str(place / "train.py")]) == 0
    assert "-n 3" in capsys.readouterr().out
