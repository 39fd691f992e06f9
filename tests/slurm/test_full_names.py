"""Jobs of Slurm on nodes that call themselves by other names than Slurm does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm.conftest import Job, training

pytestmark = pytest.mark.timeout(600)

DOMAIN = ".cluster.local"


def test_ranks_are_started_again_on_nodes_with_full_names(submit: Callable[..., Job]) -> None:
    """mpiexec takes no names but those of Slurm's list."""
    options = f"--max-restarts 2 --inject kill:rank=1,step=40 {training(100)}"
    lines = f"export MATEX_ULFM=0\nexec {{run}} {options}"
    job = submit("--nodes=2", "--ntasks-per-node=1", lines=lines)
    job.wait("COMPLETED", timeout_s=200)
    assert job.summary["restarts"] == 1, job.output
    (again,) = (event for event in job.events if event["event"] == "restart")
    assert again["hosts"] == {"host1": 1, "host2": 1}
    hosts = {event["host"] for event in job.events if event["event"] == "start"}
    assert hosts == {f"host1{DOMAIN}", f"host2{DOMAIN}"}
