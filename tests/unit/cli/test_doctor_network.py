"""``matex doctor --network`` where it cannot start, or is one of several ranks."""

from __future__ import annotations

import pytest

from matex.cli import main


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher and no batch system, whatever the tests run under."""
    for name in ("SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS", "PBS_NODEFILE", "LSB_MCPU_HOSTS"):
        monkeypatch.delenv(name, raising=False)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that ends with status 2."""
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--network", *words])
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_a_batch_job_of_one_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"JOB_ID": "7", "JOB_NUM_NODES": "1", "NTASKS": "4"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    line = refused(capsys)
    assert "wants two hosts or more. Received: a Slurm job with one; ask for several" in line


def test_one_rank_in_a_batch_job_of_several_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"JOB_ID": "7", "JOB_NUM_NODES": "2", "NTASKS": "4"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    line = refused(capsys, "-n", "1")
    assert "-n must be at least 2, for ranks on two hosts. Received: 1" in line


def test_one_rank_of_a_launcher_needs_hosts_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "1")
    assert "Received: this host alone" in refused(capsys)


@pytest.mark.parametrize("words", [["--hosts", "a:1,b:1"], ["-n", "2"]])
def test_one_of_several_ranks_starts_none(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "4")
    line = refused(capsys, *words)
    assert "is for starting ranks. Received: one of 4 that MPICH's mpiexec has started" in line
