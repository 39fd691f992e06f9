"""The command line: help, dry runs, variables and batch jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import matex
from matex.cli import main

SCRIPT = "print('this script must not run')\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


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


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
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
        capsys, "-n", "3", "--seed", "5", "--inject", "nan:rank=1,step=2", "--hosts", " a:2 , a",
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


def test_variables_that_nothing_is_read_from_are_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SEED", "ULFM", "CACHE", "MAX_RESTARTS", "RANKS", "SEEED", "JOB", "ARBITER"):
        monkeypatch.setenv(f"MATEX_{name}", "1")
    assert main(["run", "--dry-run", "-n", "2", str(place / "train.py")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "matex: variables without effect: MATEX_MAX_RESTARTS (give --max-restarts), "
        "MATEX_RANKS (give -n), MATEX_SEEED (not known)"
    )


def test_the_help_names_the_options_that_have_no_variable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "but for -m, -n, --hosts, --max-restarts, --grow, --compare, --dry-run." in text


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


HET = {"SLURM_HET_SIZE": "2", "SLURM_TASKS_PER_NODE": "4(x2)"}
STEP = {
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_TASKS_PER_NODE": "8",
    "SLURM_TASKS_PER_NODE": "8",
}
LEFT_OUT = {
    "components": (HET, "2 components, and ranks start on the nodes of the first alone"),
    "step": (STEP, "srun gave this step 1 of the job's 2 nodes"),
    "shell-of-salloc": ({**STEP, "SLURM_TASKS_PER_NODE": "4(x2)"}, ""),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_line_says_which_part_of_a_job_of_slurm_has_no_ranks(
    case: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    further, expected = LEFT_OUT[case]
    for name, value in {**JOBS["slurm"][0], **further}.items():
        monkeypatch.setenv(name, value)
    assert main(["run", "--dry-run", str(place / "train.py")]) == 0
    said = capsys.readouterr().err
    assert expected in said and bool(said) == bool(expected)
    assert main(["run", "--dry-run", "--hosts", "a:2,b:2", "-n", "4", str(place / "train.py")]) == 0
    assert not capsys.readouterr().err


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
