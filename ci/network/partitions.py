"""Networks that break while a run trains on several hosts: does more than one world go on?

    python -m ci.network.partitions [--hosts 3] [--slots 1] [--cut one half one-way head frozen]
                            [--for 3 14 0] [--times 1] [--restarts 0] [--respawn] [--jobs 3]

Hosts are network namespaces (emulated.py). Some steps into the training the links of some
hosts carry nothing any more (frozen: its processes stand still too; head: the launcher's host;
head+one: that and the last one, which still reach each other), for so many seconds or for good (0).
An observer that sees all hosts judges (partition_observer.py). Two lines a case; the status is 1
where any is not as it must be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ci.jobs import ROOT, environment
from ci.network.emulated import Emulated, emulated, end_tidily, ended_tidily
from ci.network.partition_observer import problems, times
from ci.network.switch import Link
from ci.patience import patience
from matex.records.events import read_events

T = TypeVar("T")

LIMIT_S = patience(180)
_SCRIPT = ROOT / "tests" / "train" / "scripts" / "noted_steps.py"
FAST = Link(rate_bit_s=1e9, delay_s=1e-4)
_BEGUN = 25  # steps before the cut: the first checkpoint is there
_START_S = 300.0  # beside others
_LEAVE_S = patience(30)
_ORPHANS_S = 3.0  # in which ranks that the launcher has left behind would make a step

CUTS = ("one", "half", "one-way", "head", "frozen", "head+one")


class Case(NamedTuple):
    """A cut of a network: its kind, the hosts and their ranks, and its duration; 0 for good."""

    hosts: int
    slots: int
    cut: str
    seconds: float
    restarts: int = 0
    respawn: bool = False

    @property
    def steps(self) -> int:
        """So many, of a tenth of a second, that some are left when the network is whole again."""
        return 120 + 10 * round(self.seconds) if self.seconds else 160

    @property
    def severed(self) -> frozenset[tuple[int, int]]:
        """Pairs of ports between which nothing goes: 0 is the launcher's host. Pure."""
        every = range(self.hosts + 1)
        last, half = {self.hosts}, set(range(1, self.hosts // 2 + 1))
        if self.cut == "one-way":  # what the last host sends is lost
            return frozenset((self.hosts, to) for to in every if to != self.hosts)
        parts = {"one": last, "frozen": last, "half": half, "head": {0}, "head+one": {0, *last}}
        aside = parts[self.cut]
        return frozenset((a, b) for a in every for b in every if (a in aside) != (b in aside))


def notes(folder: Path) -> list[dict[str, Any]]:
    """All steps that were made, in order of time; of a line that is not whole none."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines(True)]
    return sorted(
        (json.loads(line) for line in lines if line.endswith("\n")), key=lambda note: note["time"]
    )


def try_out(case: Case, network: Emulated, folder: Path) -> list[str]:
    """Sentences about what is wrong with one case, and a last line about how it went."""
    report, steps, saved = folder / "report", folder / "steps", folder / "saved"
    steps.mkdir()
    ranks = case.hosts * case.slots
    command = [
        *network.head, sys.executable, "-m", "matex", "run", "-n", str(ranks),
        "--hosts", network.hosts(case.slots), "--report", str(report),
        "--checkpoint", str(saved), "--checkpoint-every", "20",
        "--max-restarts", str(case.restarts), *(["--respawn"] if case.respawn else []),
        str(_SCRIPT), str(steps), str(case.steps), "0.1",
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        run = subprocess.Popen(
            command, env=environment(**network.environment),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    wrong: list[str] = []
    status: int | None = None
    cut_at = time.time()
    try:
        if not _has_begun(run, steps, ranks):
            wrong.append("the ranks did not come to the cut")
        cut_at = time.time()
        network.switch.cut = case.severed
        if case.cut == "frozen":
            network.stop(case.hosts)
        if case.seconds:
            time.sleep(case.seconds)
            network.go_on(case.hosts)
            network.switch.cut = frozenset()
        try:
            status = run.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            wrong.append(f"no end within {LIMIT_S:.0f} s of the cut")
        ended_at = time.time()
        time.sleep(_ORPHANS_S)
    finally:
        network.go_on(case.hosts)
        network.switch.cut = frozenset()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):  # leave, end, be gone
            run.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(_LEAVE_S)
    return wrong + judge(folder, status=status, cut_at=cut_at, ended_at=ended_at)


def judge(folder: Path, *, status: int | None, cut_at: float, ended_at: float) -> list[str]:
    """Sentences about what is wrong with the run in *folder*, and a line about how it went.

    A file that cannot be read is wrong, too, and the others are judged without it.

    Args:
        status: exit status of the launcher; None where it had to be ended.
        cut_at, ended_at: Unix times, seconds.
    """
    wrong: list[str] = []

    def read(what: Callable[[], T], otherwise: T) -> T:
        try:
            return what()
        except (OSError, ValueError) as error:
            wrong.append(f"cannot be read: {error}")
            return otherwise

    path = folder / "report" / "summary.json"
    nothing: list[dict[str, Any]] = []
    made = read(lambda: notes(folder / "steps"), nothing)
    summary = read(lambda: json.loads(path.read_text()) if path.exists() else None, None)
    events = read(lambda: read_events(folder / "report" / "events.jsonl"), nothing)
    said = read((folder / "log").read_text, "").strip().splitlines()
    taken = times(made, cut_at=cut_at, ended_at=ended_at)
    wrong += problems(made, events, summary, status=status, taken=taken)
    last = summary or {}
    wrong.append(
        f"  status {status}, {last.get('status')}, {last.get('world_size_end')} ranks at the end, "
        f"{last.get('restarts')} restarts, longest pause {taken.pause:.1f} s, "
        f"end after {taken.end:.1f} s; {said[-1] if said else ''}"
    )
    return wrong


def _has_begun(run: subprocess.Popen[bytes], steps: Path, ranks: int) -> bool:
    """Wait for the first steps of all ranks; False where the run ended, or none came."""
    limit = time.monotonic() + _START_S
    while run.poll() is None and time.monotonic() < limit:
        if len(notes(steps)) >= _BEGUN * ranks:
            return True
        time.sleep(0.1)
    return False


def judged(case: Case, keep: Path | None) -> tuple[bool, str]:
    """Whether *case* is as it must be, and the lines that say so, on a network of its own.

    Args:
        keep: a directory that does not exist yet, in which the logs and the report stay.
    """
    with (
        emulated(case.hosts, FAST) as network,
        tempfile.TemporaryDirectory(prefix="partition-") as path,
    ):
        *wrong, line = try_out(case, network, Path(path))
        if keep is not None:
            shutil.copytree(path, keep)
    title = f"{case.hosts} hosts of {case.slots}, cut {case.cut} for {case.seconds:g} s"
    title += " with cold spares" if case.respawn else ""
    return not wrong, f"{title}: {'; '.join(wrong) if wrong else 'ok'}\n{line}"


def _judged(work: tuple[Case, Path | None]) -> tuple[bool, str]:
    with ended_tidily():
        return judged(*work)


def workers(jobs: int) -> Pool:
    """Processes that judge so many cases at a time, each in one of its own.

    A case's network is called after its process, and its switch has a core's time.
    """
    return multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="*", default=[3, 4])
    parser.add_argument("--slots", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--cut", nargs="*", choices=CUTS, default=CUTS)
    parser.add_argument("--for", type=float, nargs="*", default=[3, 8, 14, 20, 40, 0], dest="long")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--respawn", action="store_true", help="cold spares wait on each host")
    parser.add_argument("--jobs", type=int, default=1, help="how many cases at the same time")
    parser.add_argument("--keep", type=Path, help="a new directory in which logs and reports stay")
    arguments = parser.parse_args()
    if arguments.keep is not None and arguments.keep.exists():
        parser.error(f"--keep wants a directory that is not there yet. Received: {arguments.keep}")
    end_tidily()
    cases = [
        Case(hosts, slots, cut, seconds, arguments.restarts, arguments.respawn)
        for hosts in arguments.hosts
        for slots in arguments.slots
        for cut in arguments.cut
        for seconds in arguments.long
        for _ in range(arguments.times)
    ]
    keep = arguments.keep
    work = [(case, keep / str(number) if keep else None) for number, case in enumerate(cases)]
    bad = 0
    with workers(arguments.jobs) as pool:
        for is_right, lines in pool.imap_unordered(_judged, work):
            print(lines, flush=True)
            bad += not is_right
    print(f"{len(cases)} cases, {bad} not as they must be")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
