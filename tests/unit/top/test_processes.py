"""Processes of ranks on this host, real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from matex.top.processes import look
from matex.top.rank_view import RankState, RankView


def view(rank: int, pid: int, *, started_s: float, **fields: object) -> RankView:
    made = RankView(rank=rank, host="here", pid=pid, started_s=started_s)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_living_ended_and_other_processes() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    now = time.time()
    found = look(
        [
            view(0, os.getpid(), started_s=now),
            view(1, ended.pid, started_s=now),
            view(2, os.getpid(), started_s=1.0),  # a later process with its number
            view(3, ended.pid, started_s=now, host="elsewhere"),
            view(4, ended.pid, started_s=now, state=RankState.DEAD),
        ],
        "here",
    )
    assert found.gone == {1, 2}
    assert set(found.memory) == {0}
    assert found.memory[0] > 1_000_000


def test_a_process_that_nobody_has_waited_for_is_gone() -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert zombie.stdout is not None
    try:
        zombie.stdout.read()  # it has closed it, and ends
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert look([view(0, zombie.pid, started_s=time.time())], "here").gone == {0}
    finally:
        zombie.stdout.close()
        zombie.wait()
