"""One start of the ranks of the full layer, and what it left behind."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ci.chaos.training.plan import Start
from ci.jobs import environment
from ci.testing import leftovers

__all__ = ["Event", "Outcome", "train"]

SCRIPT = Path(__file__).resolve().with_name("script.py")
TIMEOUT_S = 400.0
# For ranks that the launcher has just ended.
_GRACE_S = 10.0

Event = dict[str, Any]


@dataclass(kw_only=True)
class Outcome:
    """The outcome of a start of the ranks; ``left`` names what should have gone with them."""

    status: int
    output: str
    events: list[Event] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    left: list[str] = field(default_factory=list)

    @property
    def fired(self) -> list[Event]:
        return [e for e in self.events if e["event"] == "fault"]

    @property
    def dead(self) -> set[int]:
        return {e["rank"] for e in self.fired if e["lethal"]}

    @property
    def joined(self) -> dict[int, int]:
        """The spares that took others' places, and in which step."""
        return {s: e["step"] for e in self.events for s in e.get("joined", {}).values()}

    @property
    def died_waiting(self) -> set[int]:
        """The ranks that waited in the fit in which they died, and had not joined."""
        found: set[int] = set()
        waiting: set[int] = set()
        for event in self.events:
            waiting -= set(event.get("joined", {}).values())
            if event["event"] == "waits":
                waiting.add(event["rank"])
            elif event["event"] == "fit":
                waiting.discard(event["rank"])
            elif event["event"] == "fault" and event["lethal"] and event["rank"] in waiting:
                found.add(event["rank"])
        return found


def train(
    start: Start,
    trainings: Sequence[str],
    options: Sequence[str],
    place: Path,
    name: str,
    *,
    script: Path = SCRIPT,
) -> Outcome:
    """``matex run`` to its end; its status is -1 when it had to be ended.

    Args:
        trainings: arguments of the script.
        options: further options of ``matex run``.
        place: all that it writes is below it; its report in *name*.
        script: program that the ranks run; by default that of the full layer.
    """
    report, temporary = place / name, place / "tmp"
    temporary.mkdir()
    command = [
        *(sys.executable, "-m", "matex", "run", "-n", str(start.ranks), "--report", str(report)),
        *(("--spares", str(start.spares)) if start.spares else ()),
        *start.way,
        *options,
        *(word for fault in start.faults for word in ("--inject", fault)),
        str(script),
    ]
    if start.end_all is not None:
        command += ["--end-all-at", ",".join(map(str, start.end_all))]
    process = subprocess.Popen(
        [*command, *trainings],
        cwd=place,
        env=environment(TMPDIR=str(temporary)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
        status = process.returncode
    except subprocess.TimeoutExpired:
        output = _told_to_end(process)
        status, output = -1, f"no end within {TIMEOUT_S:g} s\n{output}"
    finally:  # interrupted: the launcher ends its ranks upon a signal
        if process.poll() is None:
            _told_to_end(process)
    outcome = Outcome(status=status, output=output, left=_left(process.pid, place))
    outcome.left += [f"{temporary}/{entry}" for entry in leftovers.stray_tmp(temporary)]
    events, summary = report / "events.jsonl", report / "summary.json"
    if events.exists():
        outcome.events = [json.loads(line) for line in events.read_text().splitlines()]
    if summary.exists():
        outcome.summary = json.loads(summary.read_text())
    return outcome


def _left(launcher: int, place: Path) -> list[str]:
    """Files of *launcher*'s run in /dev/shm, and processes that began in *place* and are left."""
    names = leftovers.shared_memory()
    mine = sorted(name for name in names if name.split("-")[2:3] == [str(launcher)])
    _, alive = psutil.wait_procs(_processes_in(place), timeout=_GRACE_S)
    return [
        *(f"{leftovers.SHARED_MEMORY}/{name}" for name in mine),
        *(f"process {process.pid}" for process in alive),
    ]


def _processes_in(place: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(place) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _told_to_end(process: subprocess.Popen[str]) -> str:
    """End ``matex run``; what it had printed. Ranks that hang cannot leave upon one signal."""
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=60)[0]
    raise SystemExit(f"matex run (process {process.pid}) did not end upon two signals")
