"""Runs of the real thing: ``matex run`` as a subprocess, bounded in time, judged by its report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ci.patience import patience
from matex.launcher.exit_report import this_job
from tests.train.forks import ALONE, start_alone

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "scripts"
# Where ranks find modules first.
PATHS = f"{Path(__file__).resolve().parent / 'startup'}{os.pathsep}{ROOT}"
EXCHANGES = ["native", "host"]
#: The words before a script that trains in plain Keras, without ranks.
PLAIN = [sys.executable, "-m", "tests.train.plain_script"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a run: its status, its output and its report."""

    status: int
    stdout: str
    stderr: str
    report: Path

    @property
    def summary(self) -> dict[str, Any]:
        path = self.report / "summary.json"
        assert path.exists(), f"no summary; status {self.status}\n{self.stdout}\n{self.stderr}"
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.report / "events.jsonl").open()]

    @property
    def losses(self) -> list[float]:
        """The loss of each epoch since the run was continued last, as a surviving rank saw it."""
        survivor = int(next(iter(self.summary["weights_hash"])))
        return [
            event["loss"]
            for event in this_job(self.events)
            if event["event"] == "epoch" and event["rank"] == survivor
        ]


def execute(
    command: Sequence[str | Path],
    *,
    directory: Path,
    timeout_s: float = 150,
    stdin: str = "",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run *command* in *directory*; its whole process group is gone afterwards.

    Raises:
        AssertionError: it had not ended after *timeout_s* of a quiet machine.
    """
    variables = {**os.environ, "PYTHONPATH": PATHS, **start_alone(environment), **environment}
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=directory,
        env=variables,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    limit_s = patience(timeout_s)
    try:
        stdout, stderr = process.communicate(stdin or None, timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=patience(30))
        raise AssertionError(f"no end within {limit_s:g} s\n{stdout}\n{stderr}") from None
    finally:
        if process.poll() is None:  # the time limit of the test came first
            process.send_signal(signal.SIGTERM)
            print(*process.communicate(timeout=patience(30)), sep="\n")
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def matex_run(
    directory: Path,
    script: str | Path,
    *arguments: str | Path,
    ranks: int,
    options: Sequence[str | Path] = (),
    timeout_s: float = 150,
    stdin: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
    within: Sequence[str | Path] = (),
    alone: bool = True,
) -> Outcome:
    """``matex run`` of a script of tests/train/scripts, or of a path; the report in *directory*.

    Args:
        within: a command that executes the words after its own.
        alone: whether ranks start alone there, as they must in namespaces of their own.
    """
    directory.mkdir(exist_ok=True)
    report = directory / "report"
    command = [sys.executable, "-m", "matex", "run", "-n", str(ranks), "--report", report]
    done = execute(
        [*within, *command, *options, SCRIPTS / script, *arguments],
        directory=directory,
        timeout_s=timeout_s,
        stdin=stdin,
        **(ALONE if within and alone else {}),
        **environment,
    )
    return Outcome(status=done.returncode, stdout=done.stdout, stderr=done.stderr, report=report)


def faults(*texts: str) -> list[str]:
    """The options that inject them."""
    return [part for text in texts for part in ("--inject", text)]


def relative_differences(a: Sequence[float], b: Sequence[float]) -> list[float]:
    assert len(a) == len(b)
    return [abs(x - y) / abs(y) for x, y in zip(a, b, strict=True)]


def assert_whole(outcome: Outcome, *, world_size_end: int, losses: Sequence[float]) -> None:
    """The run finished, every sample was used once, replicas agree, and so does the trajectory."""
    summary = outcome.summary
    assert outcome.status == 0, outcome.stderr
    assert summary["status"] == "finished"
    ends = [e for e in outcome.events if e["event"] in ("death", "left", "straggler")]
    assert summary["world_size_end"] == world_size_end, ends
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert summary["samples_lost"] == summary["samples_repeated"] == 0
    assert len(summary["weights_hash"]) == world_size_end
    assert len(set(summary["weights_hash"].values())) == 1
    assert max(relative_differences(outcome.losses, losses)) < 1e-4
