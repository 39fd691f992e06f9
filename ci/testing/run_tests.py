"""Run the parts of the test suite one after the other and say which of them failed.

    python -m ci.testing.run_tests [--slow] [part ...]        without a part: all of them

A part that fails does not stop the others. The last part looks for what the run left behind. Tests
marked slow run with --slow only: they repeat, over more exchanges, ranks, deaths and kinds, what a
quick test of the same code does once.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ci.jobs import ROOT
from ci.testing import leftovers, rank_reports

REPORTS = ROOT / ".test-reports"
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Part:
    """Commands that must all end with 0 within `timeout_s`, and the JUnit files they write."""

    commands: list[list[str]]
    timeout_s: float
    junit: str | None = None


def pytest_part(name: str, slow: bool, *folders: str, timeout_s: float) -> Part:
    """Plain pytest on *folders* of tests, or on the one of that name.

    pytest's status 5, no test collected, is a failure too.
    Tests that start ranks wait much, for mpiexec and for each other, so two files are tested side
    by side.
    """
    places = [f"tests/{folder}" for folder in folders or (name,)]
    junit = f"{name}.xml"
    options = [f"--junitxml={REPORTS / junit}", "--numprocesses=2", "--dist=loadfile"]
    options += ["--durations=20", "--durations-min=5", *([] if slow else ["-m", "not slow"])]
    return Part([[sys.executable, "-m", "pytest", *places, *options]], timeout_s, junit)


# Of run_mpi_tests: who gossips with whom in worlds of other sizes.
_PAIRS_OF_MORE = ("--ranks", "5", "8", "--", "tests/mpi/test_strategies.py", "-k", "gossip")


def parts(slow: bool) -> dict[str, Part]:
    """The parts by name, in their order; the limits end what hangs, on a slow machine, too."""
    return {
        "lint": Part(
            [[str(BIN / "ruff"), "check", "."], [str(BIN / "ruff"), "format", "--check", "."]], 120
        ),
        "types": Part([[str(BIN / "mypy")]], 300),
        "layering": Part([[str(BIN / "lint-imports"), "--no-logo"]], 120),
        "house": Part([[sys.executable, "-m", "ci.testing.house"]], 120),
        "unit": pytest_part("unit", slow, "unit", "ci", "examples", timeout_s=600),
        "mpi": Part(
            [
                [sys.executable, "-m", "ci.testing.run_mpi_tests"],
                [sys.executable, "-m", "ci.testing.run_mpi_tests", *_PAIRS_OF_MORE],
            ],
            1300,
            "mpi-*/rank-*.xml",
        ),
        "fault": pytest_part("fault", slow, timeout_s=2400),
        "slurm": pytest_part("slurm", slow, timeout_s=1800),
        "train": pytest_part("train", slow, timeout_s=7200 if slow else 3000),
        "keras": Part(
            [[sys.executable, "-m", "ci.keras_suite", "--part", "all" if slow else "quick"]],
            7200 if slow else 1200,
        ),
    }


PARTS = tuple(parts(slow=False))


def run(part: Part, token: str) -> str:
    """Run the part's commands; return "" or the reason why it failed."""
    reasons = []
    for command in part.commands:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
        name = next(Path(word).name for word in command if word not in (sys.executable, "-m"))
        try:
            if status := child.wait(part.timeout_s):
                reasons.append(f"{name} ended with status {status}")
        except subprocess.TimeoutExpired:
            reasons.append(f"{name} had not ended after {part.timeout_s:g} s")
            leftovers.kill(leftovers.processes(token))
            child.wait()
    return "; ".join(reasons)


def count(part: Part, reason: str) -> Counter[str]:
    """Count the outcomes in the part's JUnit files; MPI ranks of one launch count as one."""
    if part.junit is None:
        return Counter()
    launches: dict[Path, list[rank_reports.Report | None]] = {}
    for path in sorted(REPORTS.glob(part.junit)):
        launches.setdefault(path.parent, []).append(rank_reports.read(path))
    totals: Counter[str] = Counter()
    for ranks in launches.values():
        totals += rank_reports.totals(ranks)
    if reason and not totals["failed"]:
        totals["failed"] = 1  # it failed without a failing test: a crash, a hang, no test at all
    return totals


def clean_reports(part: Part) -> None:
    """Delete the part's JUnit files of an earlier run, which must not be counted."""
    if part.junit is not None:
        for path in REPORTS.glob(part.junit):
            path.unlink()


def left_behind(token: str, segments: set[str], tmp: Path) -> str:
    """Say what the run left, and remove it."""
    strays = {
        "process": leftovers.stray_processes(token),
        "in /dev/shm": leftovers.stray_shared_memory(segments),
        "in TMPDIR": leftovers.stray_tmp(tmp),
    }
    lines = [f"{where}: {what}" for where, names in strays.items() for what in names]
    print(*(lines or ["no process, nothing in /dev/shm or TMPDIR"]), sep="\n")
    return f"{len(lines)} left behind and removed" if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the test suite in parts.")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--slow", action="store_true", help="with the tests marked slow")
    arguments = parser.parse_args()
    wanted = arguments.parts or list(PARTS)
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"parts are {', '.join(PARTS)}. Received: {', '.join(unknown)}")

    by_name = parts(arguments.slow)
    token = leftovers.begin()
    segments = leftovers.shared_memory()
    tmp = leftovers.private_tmp()
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    REPORTS.mkdir(exist_ok=True)

    reasons: dict[str, str] = {}
    seconds: dict[str, float] = {}
    totals: Counter[str] = Counter()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for name in wanted:
            print(f"\n=== {name}", flush=True)
            clean_reports(by_name[name])
            start = time.monotonic()
            reasons[name] = run(by_name[name], token)
            seconds[name] = time.monotonic() - start
            totals += count(by_name[name], reasons[name])
    except KeyboardInterrupt:
        leftovers.kill(leftovers.processes(token))
        left_behind(token, segments, tmp)
        print("FAILED: interrupted")
        return 130
    print("\n=== leftovers", flush=True)
    reasons["leftovers"] = left_behind(token, segments, tmp)

    print("\n=== summary")
    for name, reason in reasons.items():
        print(f"{name:10}{seconds.get(name, 0):7.1f} s  {'FAILED: ' + reason if reason else 'ok'}")
    if totals:
        outcomes = ", ".join(f"{totals[key]} {key}" for key in ("passed", "failed", "skipped"))
        print(f"tests: {outcomes}")
    failed = [name for name, reason in reasons.items() if reason]
    print(f"FAILED: {', '.join(failed)}" if failed else "all parts passed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
