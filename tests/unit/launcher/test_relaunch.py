"""The next start: on which hosts, and how it keeps out those who still write for an earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from matex.config import Config
from matex.launcher.launch import Launch
from matex.launcher.relaunch import Relaunch, Survey, take_fence


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


class Answering:
    """Hosts that say what they call themselves.

    Args:
        own: own name of each host, by the name of the list; others do not answer.
    """

    def __init__(self, **own: str) -> None:
        self.own = own
        self.asked: list[list[str]] = []

    def ask(self, hosts: Iterable[str], words: Sequence[str]) -> dict[str, str]:
        self.asked.append(list(hosts))
        return {
            name: f"matex-host {self.own[name]} boot-of-{self.own[name]} pid:[1]\n"
            for name in hosts
            if name in self.own
        }


def relaunch_of(
    report: Path,
    answering: Answering,
    started: Sequence[str],
    *events: dict[str, object],
    **given: Any,
) -> Relaunch:
    """The next starts of a run whose ranks were on the hosts that call themselves *started*."""
    starts = [
        {"event": "start", "rank": rank, "host": host, "boot": f"boot-of-{host}", "pid": 1,
         "world_size": len(started), "time_s": 1.0}
        for rank, host in enumerate(started)
    ]  # fmt: skip
    later = [{"rank": 0, "time_s": 2.0, **event} for event in events]
    lines = [f"{json.dumps(event)}\n" for event in (*starts, *later)]
    (report / "events.jsonl").write_text("".join(lines))
    wanted = Launch(ranks=2, script=Path("train.py"), arguments=[], **given)
    return Relaunch(wanted, report, answering, None)  # type: ignore[arg-type]


def test_a_host_s_fault_goes_with_the_host(tmp_path: Path) -> None:
    """Ranks of the next start would refuse the fault of a host that none of them is on."""
    config = Config(inject=("node:host=A,step=9", "node:host=B,step=9"))
    hosts = Answering(a="A", b="B")
    relaunch = relaunch_of(tmp_path, hosts, "AB", config=config, hosts="a:1,b:1")
    for left, faults in (({"a": 1}, config.inject[:1]), ({"a": 1, "b": 1}, config.inject)):
        following = relaunch.on(left)
        assert following is not None
        assert following.config.inject == faults
    assert hosts.asked == [["a", "b"]]


@pytest.mark.parametrize(
    ("answers", "larger"), [({"b": "B"}, True), ({"a": "A"}, False), ({"a": "A", "b": "B"}, False)]
)
def test_silent_ranks_are_on_their_own_hosts_wherever_these_are_in_the_list(
    answers: dict[str, str], larger: bool, tmp_path: Path
) -> None:
    """mpiexec on the second host puts the first ranks there."""
    relaunch = relaunch_of(tmp_path, Answering(**answers), "BAA", hosts="a:2,b:1")
    survey = Survey(relaunch)
    assert survey.left == {name: 2 if name == "a" else 1 for name in answers}
    assert relaunch.larger_part_is_silent(survey) is larger


def test_a_batch_job_s_hosts_are_asked_by_the_names_of_its_list(tmp_path: Path) -> None:
    full = ["n1.site.org", "n2.site.org", "n2.site.org"]
    hosts = Answering(n1=full[0], n2=full[1])
    relaunch = relaunch_of(tmp_path, hosts, full, nodes=2, node_slots={"n1": 2, "n2": 2})
    survey = Survey(relaunch)
    assert (survey.left, survey.lost) == ({"n1": 1, "n2": 2}, [])
    assert hosts.asked == [["n1", "n2"]]


def test_without_a_list_hosts_are_called_as_they_call_themselves(tmp_path: Path) -> None:
    relaunch = relaunch_of(tmp_path, Answering(), ["x", "y", "y"], nodes=2)
    assert relaunch.all_hosts() == {"x": 1, "y": 2}


def test_a_host_that_ranks_have_left_is_found_by_its_own_name(tmp_path: Path) -> None:
    resize: dict[str, object] = {
        "event": "resize", "host": "B", "leaving": [0], "refused": None, "step": 1, "number": 1,
        "request": "drain B", "world_size": 1,
    }  # fmt: skip
    hosts = Answering(a="A", b="B")
    relaunch = relaunch_of(tmp_path, hosts, "BA", resize, hosts="a:1,b:1")
    assert relaunch.all_hosts() == relaunch.all_hosts() == {"a": 1}
    assert hosts.asked == [["a", "b"]]


@pytest.mark.parametrize(
    ("answers", "summary", "taken"),
    [
        ({"a": "A"}, {}, "b: taken away while ranks were told to end (SIGTERM)"),
        ({"a": "A", "b": "B"}, {}, ""),  # all ranks were told, by a signal to the steps of a job
        ({}, {}, ""),  # the whole job has ended
        ({"a": "A"}, {"reason": "asked to stop after step 7 (wall time)"}, ""),
        ({"a": "A"}, {"resumable": False}, ""),
        ({"a": "A"}, {"status": "finished", "reason": None}, ""),
    ],
)
def test_ranks_that_stop_because_a_host_is_taken_away_are_started_again(
    answers: dict[str, str], summary: dict[str, object], taken: str, tmp_path: Path
) -> None:
    relaunch = relaunch_of(tmp_path, Answering(**answers), "AB", hosts="a:1,b:1")
    stopped: dict[str, object] = {"status": "stopped", "resumable": True}
    stopped["reason"] = "asked to stop after step 7 (SIGTERM)"
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(stopped | summary))
    assert relaunch.taken_away(Survey(relaunch)) == taken
    assert path.exists() is (not taken)
