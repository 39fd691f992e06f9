"""The next start keeps out those who still write for a start that was given up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import checkpoints
from matex.config import Config
from matex.launcher.hosts import Hosts
from matex.launcher.launch import Launch
from matex.launcher.mpiexec import Mpiexec
from matex.launcher.relaunch import Relaunch, take_fence


def test_a_fence_that_was_taken_lets_no_earlier_start_pass(tmp_path: Path) -> None:
    stale = checkpoints.Fence(tmp_path, lambda: (3, 7))
    stale.check()
    assert stale.passes()
    assert take_fence(tmp_path) == ""
    assert not stale.passes()
    with pytest.raises(checkpoints.StaleWriter):
        stale.check()
    following = checkpoints.Fence(tmp_path, lambda: (stale.newest()[0] + 1, 0))
    following.check()
    assert following.passes()


def test_why_a_fence_cannot_be_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "the fence of a directory was wanted" in take_fence(tmp_path / "file")


def test_a_host_s_fault_goes_with_the_host(tmp_path: Path) -> None:
    """Ranks of the next start would refuse the fault of a host that none of them is on."""
    starts = ({"event": "start", "rank": r, "host": h, "time_s": 1.0} for r, h in enumerate("AB"))
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in starts))
    config = Config(inject=("node:host=A,step=9", "node:host=B,step=9"))
    script = Path("train.py")
    wanted = Launch(ranks=2, script=script, arguments=[], config=config, hosts="a:1,b:1")
    hosts = Hosts(mpiexec=Mpiexec("mpiexec"), environment={})
    relaunch = Relaunch(wanted, tmp_path, hosts, None)
    for left, faults in (({"a": 1}, config.inject[:1]), ({"a": 1, "b": 1}, config.inject)):
        following = relaunch.on(left)
        assert following is not None
        assert following.config.inject == faults
