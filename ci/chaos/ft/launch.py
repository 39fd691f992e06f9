"""The ft layer: starts a launch, and judges it by what its ranks wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.chaos.ft.plan import LaunchPlan, draw_launch
from ci.jobs import ONE_THREAD, TOKEN, environment, on_ranks
from ci.testing import leftovers

__all__ = ["Verdict", "execute", "judge", "runs_of"]

#: Until all ranks have met, which is slow where many start on few busy cores; and without a sign
#: of life from any of them afterwards.
START_S, SILENCE_S = 300.0, 120.0

Line = dict[str, Any]


@dataclass(kw_only=True)
class Verdict:
    """One run: what it was, what was wrong with it ("" when nothing), and its figures.

    ``joined`` counts the places of the dead that spares took.
    """

    seed: int
    title: str
    wrong: str
    seconds: float
    repairs_s: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    ranks: tuple[int, int] = (0, 0)
    joined: int = 0
    output: str = ""


def runs_of(seed: int) -> list[Verdict]:
    """Make the launch of *seed*; one verdict a run."""
    plan = draw_launch(seed)
    return execute(plan, "ci.chaos.ft.rank")


def execute(plan: LaunchPlan, module: str) -> list[Verdict]:
    """Run *module* on the ranks of *plan*, which it is given; one verdict a run."""
    place = Path(tempfile.mkdtemp(prefix="mx-"))  # short: MPI keeps sockets below it
    try:
        (place / "plan.json").write_text(json.dumps(plan.document()))
        started = time.monotonic()
        problem, output = _execute(plan, module, place)
        seconds = time.monotonic() - started
        logs = {rank: _lines(place / f"rank-{rank}.jsonl") for rank in range(plan.ranks)}
    finally:
        shutil.rmtree(place)
    return list(judge(plan, logs, problem=problem, seconds=seconds, output=output))


def _execute(plan: LaunchPlan, module: str, place: Path) -> tuple[str, str]:
    """Run the ranks; what went wrong with the job as such, and its output."""
    command = [
        *on_ranks(plan.ranks),
        *(sys.executable, "-m", module, str(place / "plan.json"), str(place)),
    ]
    token = uuid.uuid4().hex
    variables = environment(**ONE_THREAD, TMPDIR=str(place), **{TOKEN: token})
    with (place / "output").open("wb") as file:
        launcher = subprocess.Popen(
            command, env=variables, cwd=place,
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        problem = ""
        try:
            problem = _await(launcher, [place / f"rank-{rank}.jsonl" for rank in range(plan.ranks)])
        finally:  # also when interrupted: a launcher that gets a signal removes what it made
            if launcher.poll() is None:
                launcher.terminate()
                try:
                    launcher.wait(5)
                except subprocess.TimeoutExpired:
                    launcher.kill()
                    launcher.wait()
            left = leftovers.stray_processes(token, grace_s=3.0)
    if left and not problem:
        problem = f"left behind: {left}"
    return problem, (place / "output").read_text(errors="replace")


def _await(launcher: subprocess.Popen[bytes], logs: list[Path]) -> str:
    """Wait for the end of a job; what was wrong if it does not come."""
    begun = spoken = time.monotonic()
    size = 0
    while True:
        try:
            launcher.wait(0.2)
        except subprocess.TimeoutExpired:
            sizes = [path.stat().st_size if path.exists() else 0 for path in logs]
            now = time.monotonic()
            if sum(sizes) > size:
                size, spoken = sum(sizes), now
            if not all(sizes) and now - begun > START_S:
                return f"the ranks had not met within {START_S:g} s"
            if all(sizes) and now - spoken > SILENCE_S:
                return f"no end, and no sign of life for {SILENCE_S:g} s"
        else:
            return ""


def judge(
    plan: LaunchPlan, logs: dict[int, list[Line]], *, problem: str, seconds: float, output: str
) -> Iterator[Verdict]:
    """The verdict on each run of a launch. Pure, but for a look at /dev/shm.

    Args:
        logs: lines of each rank.
        problem: sentence about what was wrong with the job as a whole; "" for nothing.
    """
    struck = {
        rank: [line for line in lines if line["what"] == "fault"] for rank, lines in logs.items()
    }
    survivors = [rank for rank in logs if not struck[rank]]
    for rank in survivors:
        deaths = [line["reason"] for line in logs[rank] if line["what"] == "death"]
        if not problem and (deaths or not _has(logs[rank], "end")):
            problem = f"rank {rank}, which no fault struck, ended: {deaths or 'silently'}"
    segments = {s for lines in logs.values() for x in lines for s in x.get("segments", ())}
    left = sorted(path for path in segments if Path(path).exists())
    if left and not problem:
        problem = f"shared memory left behind: {left}"
    size = plan.ranks
    for run, operations in enumerate(plan.runs):
        found = {
            rank: next((x for x in lines if x["what"] == "run" and x["run"] == run), None)
            for rank, lines in logs.items()
        }
        wrong = problem or _compare(found, survivors)
        last = run == len(plan.runs) - 1
        before, size = size, _size_after(found, survivors, size)
        first = sum(len(earlier) for earlier in plan.runs[:run])
        steps = range(first, first + len(operations) + last)
        fired = [f["fault"] for rank in logs for f in struck[rank] if f["step"] in steps]
        joined = [x for xs in logs.values() for x in xs if x["what"] == "joined"]
        size_told = f"{before} ranks" + _aside(before, plan.working[run])
        yield Verdict(
            seed=plan.seed,
            title=f"run {run + 1}/{len(plan.runs)}, {size_told}, {' '.join(fired) or '-'}",
            wrong=wrong,
            seconds=seconds / len(plan.runs),
            repairs_s=[
                max(x["repair_s"] for x in lines) for lines in _recoveries(logs, survivors, steps)
            ],
            kinds=[f.partition(":")[0] for f in fired],
            ranks=(before, size),
            joined=sum(x["step"] in steps for x in joined),
            output=output,
        )


def _aside(before: int, working: int) -> str:
    return f" ({before - working} aside)" if 0 < working < before else ""


def _compare(found: dict[int, Line | None], survivors: list[int]) -> str:
    done = {rank: line for rank, line in found.items() if line is not None}
    for rank in survivors:
        if rank not in done:
            return f"rank {rank} did not finish"
    for rank, line in done.items():
        if line["wrong"]:
            return f"rank {rank}: {line['wrong'][0]}"
    if len({line["digest"] for line in done.values()}) > 1:
        return f"results differ: { ({rank: line['digest'] for rank, line in done.items()}) }"
    if len({line["done"] for line in done.values()}) > 1:
        return "the ranks counted different numbers of operations"
    return ""


def _size_after(found: dict[int, Line | None], survivors: list[int], before: int) -> int:
    line = found[survivors[0]] if survivors else None
    return before if line is None else len(line["world"])


def _recoveries(
    logs: dict[int, list[Line]], survivors: list[int], steps: range
) -> Iterator[list[Line]]:
    """The survivors' lines about each recovery of a run."""
    found: dict[int, list[Line]] = {}
    for rank in survivors:
        for line in logs[rank]:
            if line["what"] == "recovered" and line["step"] in steps:
                found.setdefault(line["generation"], []).append(line)
    yield from found.values()


def _lines(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [
        json.loads(line) for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"
    ]


def _has(lines: list[Line], what: str) -> bool:
    return any(line["what"] == what for line in lines)
