"""The job scripts of the examples: bash runs them, and the real command reads every option."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples" / "slurm").glob("*.sh"))
# In place of the command: what it is given, and then the command itself, which only prints.
COMMAND = """#!/bin/bash
printf '%q ' "$@" >> "$SEEN"; echo >> "$SEEN"
if [ "$1" = run ]; then shift; exec {python} -m matex run --dry-run -n 2 "$@"; fi
"""


def job(script: Path, place: Path) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """Run a job script in a copy of the examples' folder; what it gave to matex."""
    (place / "bin").mkdir()
    (place / "examples").symlink_to(ROOT / "examples")
    (place / "bin" / "activate").touch()
    command = place / "bin" / "matex"
    command.write_text(COMMAND.format(python=shlex.quote(sys.executable)))
    command.chmod(0o755)
    environment = {
        "PATH": f"{command.parent}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "SEEN": str(place / "seen"),
        "SLURM_JOB_ID": "17",
        "VENV": str(place),
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
    }
    done = subprocess.run(
        ["bash", script], cwd=place, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=patience(30), check=False,
    )  # fmt: skip
    return done, [shlex.split(line) for line in (place / "seen").read_text().splitlines()]


def test_all_job_scripts_are_tested() -> None:
    assert [path.stem for path in SCRIPTS] == ["many_nodes", "one_node", "resume"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_command_takes_what_the_job_gives_it(script: Path, tmp_path: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert not any(" -n " in line for line in script.read_text().splitlines() if line[:1] != "#")
    done, calls = job(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mpiexec" in done.stdout or "prterun" in done.stdout, done.stdout
    (run,) = (words for words in calls if words[0] == "run")
    assert run[run.index("--report") + 1] == "report-17"
    # The examples' own options are read by the examples' own parsers.
    place = next(i for i, word in enumerate(run) if word.endswith(".py"))
    options = {word for word in run[place:] if word.startswith("--")}
    shown = subprocess.run(
        [sys.executable, ROOT / run[place], "--help"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=patience(60), check=True,
    ).stdout  # fmt: skip
    assert {option for option in options if f" {option} " not in shown} == set()


def test_an_option_that_does_not_exist_is_found(tmp_path: Path) -> None:
    script = tmp_path / "wrong.sh"
    text = (ROOT / "examples" / "slurm" / "one_node.sh").read_text()
    script.write_text(text.replace("--report", "--reprot"))
    done, _ = job(script, tmp_path)
    assert done.returncode == 2
    assert "--reprot" in done.stderr


@pytest.mark.parametrize("status", [75, 1, 0])
def test_a_job_near_its_end_stops_the_run_and_is_queued_again(status: int, tmp_path: Path) -> None:
    """The real script and signals; in place of the training a process that waits to be ended."""
    training = f"""trap 'kill $!; exit {status}' TERM; sleep 60 & kill -USR1 "$PPID"; wait"""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").touch()
    for name, body in {
        "matex": training,
        "scontrol": 'echo "$@" > queued',
    }.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    script = ROOT / "examples" / "slurm" / "resume.sh"
    done = subprocess.run(
        ["bash", script], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "17", "VENV": str(tmp_path)},
        timeout=patience(30), check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    queued = tmp_path / "queued"
    assert (queued.read_text() if queued.exists() else "") == ("requeue 17\n" * (status == 75))
