"""``matex resize`` and ``matex drain`` where nobody answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import matex.cli.resize
from matex.cli import main


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("words", [("resize", "2"), ("drain", "a")])
def test_a_run_that_trains_is_wanted(
    words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, what = words
    wanted = "the report directory of a run that trains is wanted. Received: "
    assert f"{wanted}none in " in refused(capsys, command, str(tmp_path), what)
    (tmp_path / "events.jsonl").touch()
    (tmp_path / "summary.json").touch()
    assert f"{wanted}one that has ended" in refused(capsys, command, str(tmp_path), what)


@pytest.mark.parametrize("number", ["0", "-2"])
def test_at_least_one_rank_stays(
    number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "resize", str(tmp_path), "--", number)
    assert f"N must be at least 1. Received: {number}" in line


def test_nobody_is_waited_for_when_no_process_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matex.cli.resize, "_GONE_S", 0.0)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    start = {"time_s": time.time(), "rank": 0, "event": "start", "world_size": 1}
    start |= {"host": socket.gethostname(), "pid": ended.pid}
    (tmp_path / "events.jsonl").write_text(json.dumps(start) + "\n")
    line = refused(capsys, "resize", str(tmp_path), "2")
    assert f"one in {tmp_path} of which no process is left on this host" in line
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]


def test_a_request_without_an_answer_is_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events.jsonl").touch()
    assert main(["resize", str(tmp_path), "2", "--timeout", "0.2"]) == 1
    assert "no answer within 0.2 s, and the request is taken back" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]


@pytest.mark.parametrize(("size", "words"), [(1, "1 rank is"), (2, "2 ranks are")])
def test_the_answer_counts_one_rank_as_one(size: int, words: str) -> None:
    answer = {"leaving": [], "world_size": size, "step": 7}
    assert matex.cli.resize._in_words(answer) == f"{words} wanted from step 7 on"
