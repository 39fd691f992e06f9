"""One way to run test files of Keras's: launch after launch, until each test has a record.

A launch runs all files in one process a rank. When a rank is lost or hangs, the launch is over,
the test is recorded so, and another launch goes on with the tests behind it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ci.core_sharing import core_sharing
from ci.jobs import environment
from ci.keras_suite.records import Outcome, Records, file_of

PROGRAM = Path(__file__).resolve().with_name("rank.py")
_POLL_S = 0.2
_START_S = 300.0
_END_S = 180.0
_LOG_LINES = 40
_ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",  # the tests lie in the installed package
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


@dataclass
class Way:
    """Plain pytest (``ranks=0``), or pytest on each of so many ranks.

    Args:
        root: Keras's own folder of tests.
        folder: directory for the records and logs of this way.
        test_s: longest time of a test, in seconds; one that takes longer hangs.
    """

    ranks: int
    root: Path
    folder: Path
    test_s: float
    seconds: float = 0.0
    launches: int = 0
    stopped: bool = False
    outcomes: list[dict[str, Outcome]] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outcomes = [{} for _ in range(max(1, self.ranks))]

    @property
    def name(self) -> str:
        return f"{self.ranks}" if self.ranks else "plain"

    def run(self, files: list[str]) -> None:
        """Run *files*, names relative to ``root``."""
        began = time.monotonic()
        while not self.stopped and not self._launch(files):
            pass
        self.seconds = time.monotonic() - began

    def _launch(self, files: list[str]) -> bool:
        """Whether the tests were run to their end."""
        out = self.folder / f"{self.name}-{self.launches:03d}"
        out.mkdir(parents=True)
        self.launches += 1
        known = sorted(set().union(*self.outcomes))
        plan = out / "plan.json"
        plan.write_text(
            json.dumps({"root": str(self.root), "out": str(out), "files": files, "skip": known})
        )
        command = [sys.executable]
        if self.ranks:
            command += [
                "-m",
                "matex",
                "run",
                "-n",
                str(self.ranks),
                "--report",
                str(out / "report"),
            ]
        command += [str(PROGRAM), str(plan)]
        ranks = [Records(out / file_of(number)) for number in range(len(self.outcomes))]
        with (out / "output.log").open("w") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**_ENVIRONMENT, **core_sharing()),
            )
            late = self._watch(process, ranks)
        return self._collect(out, ranks, late)

    def _watch(self, process: subprocess.Popen[bytes], ranks: list[Records]) -> set[int]:
        """Wait for the end, or bring it about; the ranks that were late by then."""
        changed = [time.monotonic()] * len(ranks)
        while process.poll() is None:
            time.sleep(_POLL_S)
            now = time.monotonic()
            changed = [
                now if rank.read() else old for rank, old in zip(ranks, changed, strict=True)
            ]
            late = {r for r, rank in enumerate(ranks) if now - changed[r] > self._patience(rank)}
            # A rank that waits for another one, which it does between two tests, is not at fault.
            stuck = {r for r in late if ranks[r].running or ranks[r].ended or not ranks[r].done}
            if stuck or len(late) == len(ranks):
                _end(process)
                return stuck or late
        return set()

    def _patience(self, rank: Records) -> float:
        if rank.ended:
            return _END_S
        return self.test_s if rank.done or rank.running else _START_S

    def _collect(self, out: Path, ranks: list[Records], late: set[int]) -> bool:
        """Take over what the ranks of a launch recorded; whether all saw the end."""
        for number, (outcomes, rank) in enumerate(zip(self.outcomes, ranks, strict=True)):
            rank.read()
            outcomes.update(rank.done)
            if rank.running is not None:
                outcome = "hung" if number in late else "lost"
                words = self._last_words(out, number)
                outcomes[rank.running] = Outcome(outcome, self.test_s, words)
        ended = all(rank.ended for rank in ranks)
        if not ended and not any(rank.done or rank.running for rank in ranks):
            self.trouble.append(f"{out.name}: no test ran: {self._last_words(out, 0)}")
            return True
        if ended and late:
            self.trouble.append(f"{out.name}: no end after the last test")
        return ended

    def _last_words(self, out: Path, rank: int) -> str:
        log = out / "report" / f"rank-{rank:04d}.log" if self.ranks else out / "output.log"
        if not log.exists():
            return ""
        lines = [x.strip() for x in log.read_text(errors="replace").splitlines()[-_LOG_LINES:]]
        said = [x for x in lines if x.startswith("matex:")] or [x for x in lines if x]
        return said[-1][:300] if said else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Print the stacks of all ranks into their logs and end them; the launcher ends by itself."""
    launcher = psutil.Process(process.pid)
    family = [launcher, *launcher.children(recursive=True)]
    ranks = [member for member in family if _is_rank(member)]
    for kind in (signal.SIGUSR2, signal.SIGKILL):
        for member in ranks:
            try:
                member.send_signal(kind)
            except psutil.NoSuchProcess:
                continue
        time.sleep(1.0)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            for member in family:
                if member.is_running():
                    member.kill()
            process.wait()


def _is_rank(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return str(PROGRAM) in words and "run" not in words and "-n" not in words
