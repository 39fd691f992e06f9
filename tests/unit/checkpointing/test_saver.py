"""The team that writes a checkpoint together, and when its members stop waiting for each other."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import ft
from matex.checkpointing.saver import Saver
from matex.config import Config


@pytest.mark.parametrize(
    ("apart", "over"), [({}, True), ({"space": 1}, False), ({"boot": "x"}, False)]
)
def test_a_team_waits_for_a_process_that_cannot_be_seen(
    apart: dict[str, object], over: bool, tmp_path: Path
) -> None:
    """The id of one in another container, or on another machine of the same name, means nothing."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    me = ft.Member.here(0)
    other = replace(me, rank=1, pid=ended.pid, **apart)  # type: ignore[arg-type]
    communicator = SimpleNamespace(world=ft.World(members=(me, other), rank=0))
    config = Config(checkpoint=None, checkpoint_part_mb=1e-6)
    given = config, communicator, None, print
    saver = Saver(  # type: ignore[misc]
        *given,  # type: ignore[arg-type]
        before_attempt=lambda: None,
        on_saved=lambda seconds: None,
    )
    saver._nbytes = 10**6
    team, writes = saver._team(SimpleNamespace(number=1), 0)  # type: ignore[arg-type]
    assert team is not None and writes
    assert (team.size, team.over()) == (2, over)
