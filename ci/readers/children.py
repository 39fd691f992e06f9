"""Items of work, each done in a child process that may crash, hang or ask for too much memory.

A child is asked for one item at a time, so that its end is known to be that item's, and a new one
goes on with the next.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ci.jobs import environment
from ci.readers.judge import Outcome

__all__ = ["answers", "serve"]

_START_S = 120.0  # a child that imports TensorFlow on a busy machine


def serve(answer: Callable[[str], Outcome], *, memory_bytes: int) -> int:
    """Be a child: answer the items of standard input until it ends.

    What is written to standard output in between goes to standard error.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        print("ready", file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), file=out, flush=True)
    return 0


class _Child:
    """A process that answers."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        variables = environment(
            TF_CPP_MIN_LOG_LEVEL="3",
            CUDA_VISIBLE_DEVICES="",
            TMPDIR=str(log.parent),  # which goes at the end, also where the child is killed
        )
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=variables,
            )  # fmt: skip
        if self._line(_START_S) != "ready":
            raise RuntimeError(f"a child must start. Received: {self._last_words()}")

    def ask(self, item: str, limit_s: float) -> Outcome:
        """The child's answer on *item*, or the manner of its end."""
        assert self.process.stdin is not None
        print(json.dumps(item), file=self.process.stdin, flush=True)
        line = self._line(limit_s)
        if line:
            return Outcome(*json.loads(line))
        if line is None:
            self.end()
            return Outcome("HANG", f"no end within {limit_s:g} s")
        status = self.process.wait()
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return Outcome("CRASH", f"{name}: {self._last_words()}")

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _line(self, limit_s: float) -> str | None:
        """The child's next line; "" when it has ended, None when it says nothing in time."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(limit_s):
                return None
        return self.process.stdout.readline().strip()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "without a word"


def answers(
    command: list[str], items: Iterable[str], *, limit_s: float
) -> Iterator[tuple[str, Outcome]]:
    """Answers of the children that *command* starts, in the order of *items*."""
    child: _Child | None = None
    with tempfile.TemporaryDirectory(prefix="mx-") as folder:
        try:
            for item in items:
                if child is None or not child.alive:
                    child = _Child(command, Path(folder) / "errors")
                yield item, child.ask(item, limit_s)
        finally:
            if child is not None:
                child.end()
