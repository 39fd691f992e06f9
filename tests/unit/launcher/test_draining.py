"""The hosts that a job's ranks are to leave, by what Slurm says; and where the next start goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from matex.launcher.draining import Draining, hosts_to_leave, nodes_to_leave
from matex.launcher.restarts import drained_in
from matex.records.events import EVENTS
from matex.records.launcher_protocol.resize_request import RESIZE, Request


def test_nodes_that_drain_or_fail_are_left_once_whatever_flags_they_have() -> None:
    listing = (
        "a allocated\nb draining\nb draining\nc mixed\nd drained*\ne failing\nf down*\ng fail@\n"
    )
    assert nodes_to_leave(listing) == ["b", "d", "e", "g"]
    assert nodes_to_leave("\n") == []


def test_ranks_may_call_a_host_by_its_full_name() -> None:
    hosts = ["n1.site.org", "n2.site.org", "n10.site.org", "n1.site.org"]
    assert hosts_to_leave(["n1", "n3"], hosts) == ["n1.site.org"]
    assert hosts_to_leave(["n2.other"], hosts) == ["n2.site.org"]
    assert hosts_to_leave([], hosts) == []


def started(rank: int, host: str) -> dict[str, object]:
    return {"event": "start", "rank": rank, "host": host, "time_s": 0.0}


def test_hosts_that_ranks_left_on_purpose_are_those_of_requests_that_were_met() -> None:
    def resize(host: str | None, leaving: list[int], refused: str | None) -> dict[str, object]:
        return {"event": "resize", "host": host, "leaving": leaving, "refused": refused}

    events = [
        *(started(rank, f"node{rank // 2}") for rank in range(6)),
        resize("node0", [], "nobody would be left"),
        resize(None, [5], None),
        resize("node1", [2, 3], None),
    ]
    assert drained_in(events) == {"node1"}


def slurm(folder: Path, listing: str) -> dict[str, str]:
    """The environment of a job of two nodes, in which sinfo prints *listing*, or fails."""
    program = folder / "sinfo"
    program.write_text(f"#!/bin/sh\n{listing}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "n[1-2]"}


@pytest.mark.parametrize(
    ("script", "said", "left"),
    [
        ("echo n1 draining; echo n2 mixed", "Slurm drains n1", "n1"),
        ("echo n1 mixed; echo n2 mixed", "drains no host of the ranks: n1 mixed, n2 mixed", ""),
        ("echo n1 drained; echo n2 draining", "hosts of the ranks, which stay: n1, n2\n", ""),
        ("echo >&2; exit 1", "does not say which hosts it drains: Command ", ""),
        ("echo no controller >&2; exit 1", "does not say which hosts it drains: no contr", ""),
    ],
)
def test_slurm_is_asked_once_a_signal(
    script: str,
    said: str,
    left: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment = slurm(tmp_path, script)
    monkeypatch.setenv("PATH", environment["PATH"])
    events = [started(0, "n1"), started(1, "n2")]
    (tmp_path / EVENTS).write_text("".join(json.dumps(event) + "\n" for event in events))
    draining = Draining(tmp_path, environment)
    draining.look()
    assert not (tmp_path / RESIZE).exists()
    draining.ask()
    draining.look()
    assert said in capsys.readouterr().out
    assert (tmp_path / RESIZE).exists() == bool(left)
    if left:
        assert Request.from_bytes((tmp_path / RESIZE).read_bytes()).host == left
    draining.look()
    assert capsys.readouterr().out == ""


def test_outside_of_slurm_the_command_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draining = Draining(tmp_path, {})
    draining.ask()
    draining.look()
    assert "this is no job of Slurm: matex drain DIR HOST lets" in capsys.readouterr().out
