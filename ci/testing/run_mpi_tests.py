"""Run tests/mpi under mpiexec with several numbers of ranks, and believe only the ranks.

    python -m ci.testing.run_mpi_tests [--ranks 1 2 3 4] [--timeout 300] [-- arguments of pytest]

Each rank's JUnit file and output stay in .test-reports/mpi-N/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from ci.core_sharing import core_sharing
from ci.jobs import ROOT, on_ranks
from ci.patience import patience
from ci.testing import leftovers, rank_reports

REPORTS = ROOT / ".test-reports"
TAIL_LINES = 60
# A hung test ends its rank with all stacks printed: a signal is not seen inside an MPI call.
TEST_TIMEOUT_S = patience(60)


def command(ranks: int, reports: Path, pytest_args: list[str]) -> list[str]:
    """Return the mpiexec command line; pytest expands the rank in the JUnit file's name."""
    output = f"merge-stderr-to-stdout,file={reports / 'log'}"
    return [
        *on_ranks(ranks, "--output", output),
        *(sys.executable, "-m", "pytest", "--with-mpi"),
        f"--junitxml={reports / 'rank-$OMPI_COMM_WORLD_RANK.xml'}",
        *("-p", "no:cacheprovider", "--color=no"),
        *("--timeout-method=thread", f"--timeout={TEST_TIMEOUT_S}"),
        *(pytest_args or ["tests/mpi"]),
    ]


def run(ranks: int, *, timeout_s: float, pytest_args: list[str]) -> tuple[list[str], Counter[str]]:
    """Run the tests on `ranks` ranks; return what went wrong, and the counts of outcomes."""
    reports = REPORTS / f"mpi-{ranks}"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    token = leftovers.begin()
    found = []
    with leftovers.own_segments() as (variables, segments):
        launcher = subprocess.Popen(
            command(ranks, reports, pytest_args),
            cwd=ROOT,
            env={**os.environ, **core_sharing(), **variables},
            stdin=subprocess.DEVNULL,
        )
        try:
            status = launcher.wait(timeout_s)
            if status != 0:
                found.append(f"mpiexec ended with status {status}")
        except subprocess.TimeoutExpired:
            found.append(f"no end within {timeout_s:g} s")
        finally:
            _end(launcher)
        found += [f"process left behind: {line}" for line in leftovers.stray_processes(token)]
        found += [f"{path} left" for path in segments()]

    each = [rank_reports.read(reports / f"rank-{rank}.xml") for rank in range(ranks)]
    found += rank_reports.problems(each)
    if found:
        _print_tails(reports)
    return found, rank_reports.totals(each)


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """End mpiexec if it still runs: SIGTERM lets it end its ranks and clean up."""
    if launcher.poll() is not None:
        return
    launcher.terminate()
    try:
        launcher.wait(15)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def _print_tails(reports: Path) -> None:
    for log in sorted(reports.glob("log.*")):
        # pytest-mpi prints the library's version with the NUL that ends it.
        lines = log.read_text(errors="replace").replace("\0", "").splitlines()
        print(f"--- last lines of {log.relative_to(ROOT)}", *lines[-TAIL_LINES:], sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests/mpi under mpiexec.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument(
        "--timeout", type=float, default=patience(300), help="seconds for each launch"
    )
    parser.add_argument("pytest_args", nargs="*", help="after --: handed to pytest")
    options = parser.parse_args()
    failed = False
    for ranks in options.ranks:
        found, counts = run(ranks, timeout_s=options.timeout, pytest_args=options.pytest_args)
        for line in found:
            print(f"mpi -n {ranks}: {line}")
        outcomes = ", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "skipped"))
        print(f"mpi -n {ranks}: {'FAILED' if found else 'ok'} ({outcomes})", flush=True)
        failed |= bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
