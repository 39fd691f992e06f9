"""A cluster of Slurm's own programs, and jobs in it; skipped where those are not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci.network import slurm
from ci.patience import patience
from tests.train.runs import PATHS, SCRIPTS

NODES = 3
_LOOK_S = 0.1
_IDLE_S = patience(60)


@dataclass(frozen=True)
class Job:
    """A job that was submitted, in a directory of its own."""

    cluster: Any
    number: str
    directory: Path

    def wait(self, state: str, timeout_s: float = 120) -> None:
        """Until it is in *state*, as ``COMPLETED``."""
        try:
            self.cluster.wait(self.number, state.__eq__, patience(timeout_s))
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.output}\n{self.cluster.logs}") from None

    def end_in(self, seconds: int) -> None:
        """Have Slurm itself end it then, at its time limit; it looks each half minute.

        A limit of its own is at least a minute.
        """
        end = f"EndTime=now+{seconds}seconds"
        self.cluster.run("scontrol", "update", f"JobId={self.number}", end)

    def start_soon(self, *, nodes: int = NODES) -> None:
        """Start a job that was queued again before the two minutes of Slurm's wait are over.

        It does not start in the second in which it was ended: a node would take it for the old one.
        """
        self.cluster.wait_until_idle(_IDLE_S, nodes=nodes)
        words = (f"JobId={self.number}", "StartTime=now+5seconds", "TimeLimit=30")
        self.cluster.run("scontrol", "update", *words)

    def wait_for_steps(self, count: int, timeout_s: float = 90) -> None:
        """Until its ranks have made that many steps, each counted."""
        deadline = time.monotonic() + patience(timeout_s)
        while self._steps() < count:
            assert time.monotonic() < deadline, self.output
            time.sleep(_LOOK_S)

    def wait_for_line(self, text: str, timeout_s: float = 60) -> None:
        """Until its output has *text*."""
        deadline = time.monotonic() + patience(timeout_s)
        while text not in self.output:
            assert time.monotonic() < deadline, self.output
            time.sleep(_LOOK_S)

    def _steps(self) -> int:
        return sum(len(path.read_text().splitlines()) for path in self.directory.glob("*.jsonl"))

    @property
    def output(self) -> str:
        return "".join(
            path.read_text(errors="replace") for path in sorted(self.directory.glob("slurm-*.out"))
        )

    @property
    def summary(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.directory / "report/summary.json").read_text())
        return content

    @property
    def events(self) -> list[dict[str, Any]]:
        path = self.directory / "report" / "events.jsonl"
        return [json.loads(line) for line in path.open()]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The cluster of a module, whose hosts call themselves by their names and its ``DOMAIN``."""
    if os.geteuid() != 0 or slurm.missing():
        pytest.skip(f"a cluster needs root and {', '.join(slurm.PROGRAMS)}")
    try:
        up = slurm.cluster(NODES, domain=getattr(request.module, "DOMAIN", ""))
        found = up.__enter__()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network of namespaces can be made here: {error}")
    try:
        yield found
    finally:
        up.__exit__(None, None, None)


@pytest.fixture
def submit(cluster: Any, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """A function: the options of sbatch, the script's last lines -> the job. The cluster is whole.

    ``{run}`` in those lines is ``matex run`` with a report and a checkpoint after each tenth step;
    ``{steps:N}`` is a training of N steps of 50 ms on 480 rows, each noted in the directory.
    """
    cluster.sever(None)
    cluster.wait_until_idle(_IDLE_S)

    def make(*options: str, lines: str, name: str = "job") -> Job:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        run = f"{sys.executable} -m matex run --report report --checkpoint saved"
        script = directory / "job.sh"
        text = lines.replace("{run}", f"{run} --checkpoint-every 10")
        script.write_text(f"#!/bin/bash\nset -eu\nexport PYTHONPATH={PATHS}\n{text}\n")
        number = cluster.run("sbatch", "--parsable", *options, str(script), directory=directory)
        return Job(cluster, number.strip(), directory)

    yield make
    cluster.cancel_all()


def training(steps: int) -> str:
    """The words of a training of *steps* steps, each noted in the directory of the job."""
    return f"{SCRIPTS / 'noted_steps.py'} . {steps} 0.05"
