"""Signs of life on a file server reach it soon, and never stop the rank that gives them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from ci.patience import patience
from matex.records.launcher_protocol.heartbeat_file import HeartbeatFile, read_sign


def wait_for_step(directory: Path, step: int) -> None:
    limit = time.monotonic() + patience(20)
    while read_sign(directory).step != step:
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_each_sign_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "matex.records.launcher_protocol.heartbeat_file.is_local", lambda directory: False
    )
    synced: list[int] = []
    reached = threading.Event()

    def sync(file: int) -> None:
        synced.append(read_sign(tmp_path).step)
        reached.set()

    heartbeat = HeartbeatFile(tmp_path, sync=sync)
    for step in (3, 7):
        reached.clear()
        heartbeat.beat(step)
        assert reached.wait(patience(20))
    assert synced == [3, 7]


def test_a_server_that_does_not_answer_stops_no_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "matex.records.launcher_protocol.heartbeat_file.is_local", lambda directory: False
    )
    asked, answers = threading.Event(), threading.Event()

    def hung(file: int) -> None:
        asked.set()
        answers.wait(patience(60))

    heartbeat = HeartbeatFile(tmp_path, sync=hung)
    heartbeat.beat(0)
    assert asked.wait(patience(20))
    for step in range(1, 100):
        heartbeat.beat(step)
    assert read_sign(tmp_path).step == 0  # a second write would wait for the server, too
    answers.set()
    wait_for_step(tmp_path, 99)


def test_a_local_disk_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "matex.records.launcher_protocol.heartbeat_file.is_local", lambda directory: True
    )
    synced: list[int] = []
    heartbeat = HeartbeatFile(tmp_path, sync=synced.append)
    for step in range(5):
        heartbeat.beat(step)
        assert read_sign(tmp_path).step == step
    time.sleep(0.05)
    assert not synced
