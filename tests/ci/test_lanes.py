"""Parts of the suite that run side by side: each is judged, and ended, on its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci.jobs import TOKEN
from ci.testing import leftovers
from ci.testing.lanes import Runner
from ci.testing.parts import LANES, PARTS, Part

FAR_S = 100.0


def part(code: str, *arguments: object, timeout_s: float = FAR_S) -> Part:
    return Part([[sys.executable, "-c", code, *map(str, arguments)]], timeout_s)


def runner(folder: Path, **parts: Part) -> Runner:
    return Runner(parts, f"lanes-{folder.name}-{os.getpid()}", folder)


# Says that it is there, and ends once the other is.
_MEET = """
import pathlib, sys, time
mine, other = map(pathlib.Path, sys.argv[1:])
mine.touch()
while not other.exists():
    time.sleep(0.01)
print("met", other.name)
"""


def test_lanes_run_side_by_side_and_print_in_one_piece(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    found = runner(tmp_path, a=part(_MEET, here, there), b=part(_MEET, there, here))
    found.run([["a"], ["b"]])
    assert found.reasons == {"a": "", "b": ""}
    printed = capfd.readouterr().out
    assert "=== a\nmet there\n" in printed and "=== b\nmet here\n" in printed


@pytest.mark.parametrize("lanes", [[["bad", "good"]], [["bad"], ["good"]]])
def test_a_part_that_fails_stops_no_other(tmp_path: Path, lanes: list[list[str]]) -> None:
    both = Part([[sys.executable, "-c", "raise SystemExit(3)"], ["true"]], FAR_S)
    found = runner(tmp_path, bad=both, good=part("pass"))
    found.run(lanes)
    assert found.reasons["good"] == ""
    assert found.reasons["bad"].endswith("ended with status 3")


# Starts a process in a session of its own, which only the token finds, and waits for it.
_HANG = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
"""


def test_a_part_that_hangs_is_ended_and_the_one_beside_it_is_not(tmp_path: Path) -> None:
    over = tmp_path / "over"
    watch = f"import pathlib, time\nwhile not pathlib.Path({str(over)!r}).exists(): time.sleep(.01)"
    found = runner(
        tmp_path,
        hangs=part(_HANG, timeout_s=0.5),
        follows=part("import pathlib, sys; pathlib.Path(sys.argv[1]).touch()", over),
        lives=part(watch),
    )
    found.run([["hangs", "follows"], ["lives"]])
    assert "had not ended after 0.5 s" in found.reasons["hangs"]
    assert found.reasons["lives"] == found.reasons["follows"] == ""
    assert leftovers.processes(found.token) == []


def test_a_token_finds_the_processes_of_parts_and_of_no_other_run() -> None:
    mine = f"token-{os.getpid()}"
    tokens = (mine, f"{mine}.part", f"{mine}.part.inner", f"{mine}x", f"x{mine}")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", "input()"],
            env={**os.environ, TOKEN: token},
            stdin=subprocess.PIPE,
        )
        for token in tokens
    ]
    try:
        numbers = [child.pid for child in children]
        assert {p.pid for p in leftovers.processes(mine)} == set(numbers[:3])
        assert {p.pid for p in leftovers.processes(f"{mine}.part")} == set(numbers[1:3])
    finally:
        for child in children:
            child.communicate(b"\n")


def test_every_part_has_one_lane() -> None:
    assert sorted(name for lane in LANES for name in lane) == sorted(PARTS)
