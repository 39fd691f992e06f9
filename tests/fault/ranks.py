"""Small programs on several ranks: started, bounded in time, judged by what each rank wrote.

A program is a function of a test module. Its source alone is what the ranks run, with the names
of ``_PREAMBLE`` in scope, so that ranks start quickly. mpiexec's exit status is no evidence: a
rank says what it has reached with ``mark``, and a clean end leaves the mark ``end``.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ci.jobs import ONE_THREAD, ROOT, on_ranks
from ci.patience import patience
from tests.fault.programs import SCRATCH, STACKS_AFTER_S, wait_for

_PREAMBLE = """\
import contextlib, os, signal, sys, threading
import numpy as np
import ft
from tests.fault.programs import (
    Watched, add, begin, end_by, end_on_entering, mark, once_in_call, seen, share, wait_for
)
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The results of a job: its marks, all output, and its duration."""

    marks: dict[str, dict[int, Any]]
    output: str
    seconds: float

    def __getitem__(self, name: str) -> dict[int, Any]:
        """Content of the marks of one name, by rank."""
        return self.marks.get(name, {})

    @property
    def ended(self) -> set[int]:
        """The ranks that came to a clean end, MPI finalised."""
        return set(self["end"])


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one job, whose short name suits the sockets that MPI keeps below it."""
    path = Path(tempfile.mkdtemp(prefix="mx-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def execute(command: list[str], *, directory: Path, timeout_s: float, **environment: str) -> str:
    """Run *command* with *directory* as its TMPDIR; its output. Nothing of it is left running.

    Raises:
        AssertionError: it had not ended after *timeout_s* of a quiet machine, or left processes
            behind.
    """
    log = directory / "output"
    limit_s = patience(timeout_s)
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(directory),
        SCRATCH: str(directory),
        STACKS_AFTER_S: str(0.8 * limit_s),
        **environment,
    }
    with log.open("wb") as file:
        launcher = subprocess.Popen(
            command, cwd=directory, env=variables,
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        hung = False
        try:
            launcher.wait(limit_s)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            left = _end_all(launcher, directory)
    output = log.read_text(errors="replace")
    assert not hung, f"no end within {limit_s:g} s; output:\n{output}"
    assert not left, f"processes left behind: {left}; output:\n{output}"
    return output


def run(
    program: Callable[..., None],
    *,
    ranks: int,
    timeout_s: float = 40,
    ulfm: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
    **arguments: Any,
) -> Job:
    """Run *program(**arguments)* on every rank, to the end of all of them.

    Raises:
        AssertionError: it did not end in time, or left processes or shared memory behind.
    """
    with scratch() as directory:
        (directory / "marks").mkdir()
        script = directory / "program.py"
        script.write_text(
            f"{_PREAMBLE}\n{textwrap.dedent(inspect.getsource(program))}\n"
            f"{program.__name__}(**{arguments!r})\n"
        )
        started = time.monotonic()
        output = execute(
            [*on_ranks(ranks, ulfm=ulfm), sys.executable, str(script)],
            directory=directory,
            timeout_s=timeout_s,
            **ONE_THREAD,
            **environment,
        )
        seconds = time.monotonic() - started
        marks = _read_marks(directory / "marks")
    segments = {path for start in marks.get("start", {}).values() for path in start["segments"]}
    left = sorted(path for path in segments if Path(path).exists())
    assert not left, f"shared memory left behind: {left}; output:\n{output}"
    return Job(marks=marks, output=output, seconds=seconds)


def _read_marks(directory: Path) -> dict[str, dict[int, Any]]:
    marks: dict[str, dict[int, Any]] = {}
    for path in directory.glob("*.json"):
        name, _, rank = path.stem.rpartition("-")
        marks.setdefault(name, {})[int(rank)] = json.loads(path.read_text())
    return marks


def _end_all(launcher: subprocess.Popen[bytes], directory: Path) -> list[str]:
    """End all processes of a job; describe those that outlived its launcher."""
    if launcher.poll() is None:
        launcher.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(5)
    wait_for(lambda: not _processes(directory), within_s=5, must=False)
    left = _processes(directory)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    launcher.wait()
    wait_for(lambda: not _processes(directory), within_s=10)
    return [f"{pid}: {command}" for pid, command in left.items()]


def _processes(directory: Path) -> dict[int, str]:
    """The living processes of one job; a zombie has no environment any more."""
    token = f"{SCRATCH}={directory}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if token in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(process.name)] = command.decode(errors="replace")
        except OSError:  # ended meanwhile, or another user's
            continue
    return found
