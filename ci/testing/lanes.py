"""Runs parts of the test suite, some side by side, each with its output in one piece."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ci.jobs import ROOT, TOKEN
from ci.testing import leftovers
from ci.testing.parts import Part

__all__ = ["Runner"]


@dataclass
class Runner:
    """Runs parts, and keeps what each came to.

    Args:
        parts: all that may be run, by name.
        token: the run's; the processes of a part carry one derived from it.
        reports: the folder for the output of parts that run beside others.
    """

    parts: Mapping[str, Part]
    token: str
    reports: Path
    reasons: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    logs: dict[str, Path] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _printing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, lanes: Sequence[Sequence[str]]) -> None:
        """Run the parts of a lane one after the other, and the lanes side by side.

        A part that fails does not stop the others. ``reasons`` then has "", or why it failed, for
        each, and ``logs`` the outputs of parts that ran beside others.

        Raises:
            KeyboardInterrupt: after all processes have been ended.
        """
        if len(lanes) == 1:
            for name in lanes[0]:
                self._say(f"\n=== {name}")
                self._run(name, None)
            return
        with ThreadPoolExecutor(len(lanes)) as pool:
            running = [pool.submit(self._run_lane, lane) for lane in lanes]
            try:
                for lane in running:
                    lane.result()
            except BaseException:
                self._stopped.set()
                leftovers.kill(leftovers.processes(self.token))
                raise

    def _run_lane(self, lane: Sequence[str]) -> None:
        for name in lane:
            if self._stopped.is_set():
                return
            self._say(f"{name} begins")
            log = self.logs[name] = self.reports / f"{name}.log"
            with log.open("wb") as file:
                self._run(name, file)
            self._say(f"\n=== {name}\n{log.read_text(errors='replace')}")

    def _say(self, text: str) -> None:
        with self._printing:
            print(text, flush=True)

    def _run(self, name: str, output: IO[bytes] | None) -> None:
        """Run the part's commands and note the reason why it failed, or ""."""
        part, token = self.parts[name], f"{self.token}.{name}"
        begun = time.monotonic()
        reasons = []
        for command in part.commands:
            if self._stopped.is_set():
                return
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, TOKEN: token},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                start_new_session=True,  # Linux shares the cores out among sessions
            )
            program = next(Path(w).name for w in command if w not in (sys.executable, "-m"))
            try:
                if status := child.wait(part.timeout_s):
                    reasons.append(f"{program} ended with status {status}")
            except subprocess.TimeoutExpired:
                reasons.append(f"{program} had not ended after {part.timeout_s:g} s")
                leftovers.kill(leftovers.processes(token))
                child.wait()
        self.seconds[name] = time.monotonic() - begun
        self.reasons[name] = "; ".join(reasons)
