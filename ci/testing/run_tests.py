"""Run the parts of the test suite, some of them side by side, and say which of them failed.

    python -m ci.testing.run_tests [--slow] [part ...]        without a part: all of them

A part that fails does not stop the others. The last part looks for what the run left behind. Tests
marked slow run with --slow only: they repeat, over more exchanges, ranks, deaths and kinds, what a
quick test of the same code does once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from ci.testing import leftovers, rank_reports
from ci.testing.lanes import Runner
from ci.testing.parts import LANES, PARTS, REPORTS, Part, parts

_LAST_LINES = 30


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


def repeat_ends(runner: Runner) -> None:
    """Print again how the outputs of failed parts end, which thousands of lines may lie behind."""
    for name, log in runner.logs.items():
        if runner.reasons.get(name):
            lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            print(f"\n=== the last lines of {name}", *lines, sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the test suite in parts.")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--slow", action="store_true", help="with the tests marked slow")
    arguments = parser.parse_args()
    wanted = arguments.parts or list(PARTS)
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"parts are {', '.join(PARTS)}. Received: {', '.join(unknown)}")

    token = leftovers.begin()
    segments = leftovers.shared_memory()
    tmp = leftovers.private_tmp()
    bin_of_python = Path(sys.executable).parent
    os.environ["PATH"] = f"{bin_of_python}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    REPORTS.mkdir(exist_ok=True)

    runner = Runner(parts(arguments.slow), token, REPORTS)
    lanes = [[name for name in lane if name in wanted] for lane in LANES]
    for number in (signal.SIGTERM, signal.SIGHUP):  # the parts are in sessions of their own
        signal.signal(number, signal.default_int_handler)
    try:
        for name in wanted:
            clean_reports(runner.parts[name])
        runner.run([lane for lane in lanes if lane])
    except KeyboardInterrupt:
        leftovers.kill(leftovers.processes(token))
        left_behind(token, segments, tmp)
        print("FAILED: interrupted")
        return 130
    print("\n=== leftovers", flush=True)
    runner.reasons["leftovers"] = left_behind(token, segments, tmp)

    reasons = {
        name: runner.reasons[name] for name in (*PARTS, "leftovers") if name in runner.reasons
    }
    repeat_ends(runner)
    totals: Counter[str] = Counter()
    for name in reasons.keys() & runner.parts:
        totals += count(runner.parts[name], reasons[name])
    print("\n=== summary")
    for name, reason in reasons.items():
        outcome = f"FAILED: {reason}" if reason else "ok"
        print(f"{name:10}{runner.seconds.get(name, 0):7.1f} s  {outcome}")
    if totals:
        outcomes = ", ".join(f"{totals[key]} {key}" for key in ("passed", "failed", "skipped"))
        print(f"tests: {outcomes}")
    failed = [name for name, reason in reasons.items() if reason]
    print(f"FAILED: {', '.join(failed)}" if failed else "all parts passed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
