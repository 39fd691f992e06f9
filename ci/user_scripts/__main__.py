"""All scripts of tests/scripts in all ways, and a table of what came out otherwise than in Python.

    python -m ci.user_scripts [--only NAME]... [--ways 1 2 3 kill respawn] [--jobs 2] [--folder DIR]

Each script is run unchanged by plain Python, by ``matex run`` on 1, 2 and 3 ranks, on 3 of
which rank 0 is killed in the first fit, and on 2 of which rank 1 is killed and replaced, each time
in an empty folder. Exit status, printed results and files written are compared with plain Python's.
Status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ci.testing import leftovers
from ci.user_scripts import compare, runs
from ci.user_scripts.runs import PLAIN, Ended, Way

LIMIT_S = 240
SLOW = "slow:rank=0,step=6,factor=12,steps=400"
WAYS = {
    "1": Way("1", 1),
    "2": Way("2", 2),
    "3": Way("3", 3),
    "kill": Way("kill", 3, ("kill:rank=0,step=2",)),
    # The other is slow, so that the fit lasts until the new rank is there.
    "respawn": Way("respawn", 2, ("kill:rank=1,step=5", SLOW), respawns=True),
}


class Cell(NamedTuple):
    """One script in one way: what is different, a line each, and how long it took."""

    differences: list[str]
    seconds: float


def judge(wanted: Ended, found: Ended, *, killed: bool) -> list[str]:
    """Differences, a line each; the reason comes first where the run failed."""
    differences = []
    if found.status != wanted.status:
        last = found.stderr.strip().splitlines()[-1:] or ["(nothing)"]
        differences.append(f"status {found.status}, wanted {wanted.status}; {last[0][:300]}")
    lost = [line for line in found.stderr.splitlines() if "went on without rank" in line]
    lost = [line for line in lost if not (killed and "SIGKILL" in line)]
    if lost:
        differences.append(f"a rank was lost: {lost[0][:300]}")
    differences += compare.compare_text(wanted.stdout, found.stdout)
    return differences + compare.compare_files(wanted.folder, found.folder)


def try_out(name: str, ways: list[Way], folder: Path) -> dict[str, Cell]:
    """One script in all *ways*; its folders are removed where nothing differs."""
    cells: dict[str, Cell] = {}
    wanted: Ended | None = None
    for way in (PLAIN, *ways):
        started = time.monotonic()
        ended = runs.run_alone(name, way, folder / name / way.name, timeout_s=LIMIT_S)
        if wanted is None:
            wanted = ended
            differences = [] if ended.status == 0 else [f"status {ended.status}"]
        else:
            differences = judge(wanted, ended, killed=bool(way.faults))
        cells[way.name] = Cell(differences, time.monotonic() - started)
        if differences:
            for stream, text in (("stdout", ended.stdout), ("stderr", ended.stderr)):
                (folder / name / f"{way.name}.{stream}").write_text(text)
        print(f"{name} {way.name}: {'differs' if differences else 'ok'}", flush=True)
    if not any(cell.differences for cell in cells.values()):
        shutil.rmtree(folder / name)
    return cells


def table(results: dict[str, dict[str, Cell]], ways: list[str]) -> str:
    """One line a script, then what differs. Pure."""
    width = max(map(len, results), default=6)
    lines = [" ".join([f"{'script':{width}}", *(f"{way:>12}" for way in ways)])]
    for name, cells in results.items():
        columns = []
        for way in ways:
            cell = cells[way]
            said = f"{len(cell.differences)} differ" if cell.differences else "ok"
            columns.append(f"{said + f' {cell.seconds:3.0f} s':>12}")
        lines.append(" ".join([f"{name:{width}}", *columns]))
    for name, cells in results.items():
        for way, cell in cells.items():
            lines += [f"{name}, {way}: {difference}" for difference in cell.differences[:8]]
    count = sum(not cell.differences for cells in results.values() for cell in cells.values())
    total = sum(len(cells) for cells in results.values())
    lines.append(f"{len(results)} scripts, {count} of {total} runs as wanted")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", help="names of scripts", default=runs.names())
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--jobs", type=int, default=2, help="scripts side by side (2)")
    parser.add_argument("--folder", type=Path, help="what differs is kept here")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.only) - set(runs.names())):
        parser.error(f"--only wants names of scripts of tests/scripts. Received: {unknown[0]}")
    token = leftovers.begin()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ways = [WAYS[name] for name in arguments.ways]
    with tempfile.TemporaryDirectory(prefix="mx-") as aside:
        folder = arguments.folder or Path(aside)
        try:
            with ThreadPoolExecutor(arguments.jobs) as pool:
                cells = pool.map(lambda name: try_out(name, ways, folder), arguments.only)
                results = dict(zip(arguments.only, cells, strict=True))
        finally:
            leftovers.kill(leftovers.processes(token))
    print(table(results, [PLAIN.name, *arguments.ways]), flush=True)
    return int(any(cell.differences for cells in results.values() for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
