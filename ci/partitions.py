"""Networks that break while a run trains on several hosts: does more than one world go on?

    python ci/partitions.py [--hosts 3] [--slots 1] [--cut one half one-way head frozen]
                            [--for 3 14 0] [--times 1] [--restarts 0]

Hosts are network namespaces (emulated_network.py). Some steps into the training the links of some
hosts carry nothing any more (frozen: its processes stand still too), for so many seconds or for
good (0), and the steps that each rank makes are watched: no two worlds may make steps in one start
of the ranks, and the run must end within a limit. A line a case; the status is 1 where any is not
as it must be.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emulated_network import Emulated, Link, emulated, end_tidily

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 180.0
_SCRIPT = ROOT / "tests" / "train" / "scripts" / "noted_steps.py"
FAST = Link(rate_bit_s=1e9, delay_s=1e-4)
_BEGUN = 10  # steps before the cut
_LEAVE_S = 30.0


class Case(NamedTuple):
    """What is cut, among how many hosts of how many ranks, and for how long; 0 for good."""

    hosts: int
    slots: int
    cut: str
    seconds: float
    restarts: int = 0
    steps: int = 400

    @property
    def severed(self) -> frozenset[tuple[int, int]]:
        """Pairs of ports between which nothing goes: 0 is the launcher's host. Pure."""
        every = range(self.hosts + 1)
        last, half = {self.hosts}, set(range(1, self.hosts // 2 + 1))
        if self.cut == "one-way":  # what the last host sends is lost
            return frozenset((self.hosts, to) for to in every if to != self.hosts)
        aside = {"one": last, "frozen": last, "half": half, "head": {0}}[self.cut]
        return frozenset((a, b) for a in every for b in every if (a in aside) != (b in aside))


def notes(folder: Path) -> list[dict[str, Any]]:
    """All steps that were made, in order of time; of a line that is not whole none."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines(True)]
    return sorted(
        (json.loads(line) for line in lines if line.endswith("\n")), key=lambda note: note["time"]
    )


def two_worlds(steps: Sequence[dict[str, Any]]) -> str:
    """Which two worlds made steps in one start of the ranks after they had parted; "". Pure."""
    newest: dict[tuple[str, int], tuple[int, ...]] = {}
    for note in steps:
        members = tuple(note["members"])
        newest[note["start"], note["rank"]] = members
        for (start, rank), theirs in newest.items():
            if start != note["start"] or rank == note["rank"]:
                continue
            # One who is not of this world makes a step after this world has parted from it.
            if note["rank"] not in theirs and rank not in members:
                return f"ranks {members} and ranks {theirs}"
    return ""


def try_out(case: Case, network: Emulated, folder: Path) -> list[str]:
    """What is wrong with one case, and a last line about how it went."""
    report, steps = folder / "report", folder / "steps"
    steps.mkdir()
    command = [
        *network.head, sys.executable, "-m", "matex", "run", "-n", str(case.hosts * case.slots),
        "--hosts", network.hosts(case.slots), "--report", str(report),
        "--checkpoint", str(folder / "saved"), "--checkpoint-every", "20",
        "--max-restarts", str(case.restarts),
        str(_SCRIPT), str(steps), str(case.steps), "0.1",
    ]  # fmt: skip
    environment = {**os.environ, **network.environment, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("w") as log:
        run = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    wrong: list[str] = []
    try:
        limit = time.monotonic() + LIMIT_S
        while len(notes(steps)) < _BEGUN * case.hosts * case.slots and run.poll() is None:
            if time.monotonic() > limit:
                wrong.append(f"no step within {LIMIT_S:.0f} s of the start")
                break
            time.sleep(0.1)
        cut_at = time.time()
        network.switch.cut = case.severed
        if case.cut == "frozen":
            network.stop(case.hosts)
        if case.seconds:
            time.sleep(case.seconds)
            network.go_on(case.hosts)
            network.switch.cut = frozenset()
        try:
            run.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            wrong.append(f"no end within {LIMIT_S:.0f} s of the cut")
    finally:
        network.go_on(case.hosts)
        network.switch.cut = frozenset()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):  # leave, end, be gone
            run.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(_LEAVE_S)
    made = notes(steps)
    if both := two_worlds(made):
        wrong.append(f"two worlds made steps: {both}")
    after = [note for note in made if note["time"] > cut_at]
    pause = max((b["time"] - a["time"] for a, b in itertools.pairwise(after)), default=0.0)
    summary_path = report / "summary.json"
    summary = json.loads(summary_path.read_text()) if summary_path.exists() else {}
    if summary.get("status") == "finished":
        hashes = set(summary["weights_hash"].values())
        exact = summary["samples_used"] == summary["samples_expected"]
        if len(hashes) != 1 or not exact or summary["samples_lost"] or summary["samples_repeated"]:
            wrong.append(f"not whole: {summary}")
    size = summary.get("world_size_end")
    said = (folder / "log").read_text().strip().splitlines()
    state = summary.get("status", "no summary")
    wrong.append(
        f"  status {run.returncode}, {state}, {size} ranks at the end, {summary.get('restarts')} "
        f"restarts, longest pause {pause:.1f} s; {said[-1] if said else ''}"
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    cuts = ("one", "half", "one-way", "head", "frozen")
    parser.add_argument("--hosts", type=int, nargs="*", default=[3, 4])
    parser.add_argument("--slots", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--cut", nargs="*", choices=cuts, default=cuts)
    parser.add_argument("--for", type=float, nargs="*", default=[3, 8, 14, 20, 40, 0], dest="long")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a directory in which logs and reports stay")
    arguments = parser.parse_args()
    end_tidily()
    cases = [
        Case(hosts, slots, cut, seconds, arguments.restarts)
        for hosts in arguments.hosts
        for slots in arguments.slots
        for cut in arguments.cut
        for seconds in arguments.long
        for _ in range(arguments.times)
    ]
    bad = 0
    for number, case in enumerate(cases):
        with emulated(case.hosts, FAST) as network, tempfile.TemporaryDirectory() as path:
            *wrong, line = try_out(case, network, Path(path))
            title = f"{case.hosts} hosts of {case.slots}, cut {case.cut} for {case.seconds:g} s"
            print(f"{title}: {'; '.join(wrong) if wrong else 'ok'}\n{line}", flush=True)
            bad += bool(wrong)
            if arguments.keep is not None:
                target = arguments.keep / str(number)
                target.parent.mkdir(parents=True, exist_ok=True)
                Path(path).rename(target)
                Path(path).mkdir()
    print(f"{len(cases)} cases, {bad} not as they must be")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
