"""The respawn layer: a launch whose ranks are killed from outside, and its verdict."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ci.chaos.ft.launch import Verdict
from ci.chaos.respawn.killer import Event, Killer
from ci.chaos.respawn.resizer import Resizer
from ci.jobs import environment
from ci.network.emulated import emulated
from ci.network.switch import Link

__all__ = ["Outcome", "Plan", "draw", "losses_of_one_process", "make", "runs_of"]

SCRIPT = Path(__file__).with_name("script.py")
LAYERS = ("dropout", "noise", "lstm")
_OPTIONS: tuple[list[str], ...] = (
    [],
    [],
    ["--spares", "1"],
    ["--deterministic"],
    ["--check-every", "7"],
)
LIMIT_S = 400.0
_LINK = Link(rate_bit_s=1e9, delay_s=1e-3)
_LOOK_S = 0.01
# Epochs of the reference; a run that was longer is compared so far.
_EPOCHS = 80


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One launch: ranks and spares at the start, its options, and who is killed how often.

    While ranks are killed it is asked to go on with the numbers of ranks *sizes*, one by one. The
    ranks *keep* are never killed.
    """

    seed: int
    ranks: int
    layers: str
    kills: int
    every: int = 25
    options: Sequence[str] = ()
    only_whole: bool = False
    rest_ms: float = 5.0
    hosts: int = 1
    sizes: Sequence[int] = ()
    keep: Sequence[int] = ()

    @property
    def title(self) -> str:
        where = f" on {self.hosts} hosts" if self.hosts > 1 else ""
        what = f"{self.layers}, {self.kills} kills"
        if self.sizes:
            what += f", resized to {', '.join(map(str, self.sizes))}"
        return f"{self.ranks} ranks{where} {' '.join(self.options)} {what}"


def draw(seed: int, *, hosts: int = 1, resizes: bool = False) -> Plan:
    """The plan of *seed*."""
    source = random.Random(seed)
    if resizes:
        ranks = source.randint(2, 4)
        return Plan(
            seed=seed,
            ranks=ranks,
            layers=source.choice(LAYERS),
            kills=source.randint(1, 4),
            options=source.choice(_OPTIONS),
            sizes=[source.randint(2, ranks + 2) for _ in range(source.randint(1, 3))],
        )
    if hosts > 1:
        kills = source.randint(2, 5)
        options = source.choice(_OPTIONS)
        layers = source.choice(LAYERS)
        return Plan(
            seed=seed, ranks=2 * hosts, layers=layers, kills=kills, options=options, hosts=hosts
        )
    options = source.choice(_OPTIONS)
    return Plan(
        seed=seed,
        ranks=source.randint(2, 4),
        layers=source.choice(LAYERS),
        kills=source.randint(3, 7),
        options=options,
    )


@dataclass
class Outcome:
    """The outcome of a launch."""

    status: int | None
    wanted: int
    refused: str
    seconds: float
    output: str
    killed: list[tuple[int, str]]
    events: list[Event]
    summary: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)


def runs_of(seed: int, *, hosts: int = 1, resizes: bool = False) -> list[Verdict]:
    """Make the launch of *seed*, on so many emulated hosts; its verdict."""
    plan = draw(seed, hosts=hosts, resizes=resizes)
    place = Path(tempfile.mkdtemp(prefix="mx-"))
    try:
        outcome = make(plan, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    joined = [spare for e in outcome.events for spare in e.get("joined", {}).values()]
    repairs = [
        e["repaired_time_s"] - e["detect_time_s"]
        for e in outcome.events
        if e["event"] == "recovered"
    ]
    return [
        Verdict(
            seed=seed,
            title=plan.title,
            wrong=wrong(plan, outcome),
            seconds=outcome.seconds,
            repairs_s=repairs,
            kinds=[moment for _, moment in outcome.killed],
            ranks=(plan.ranks, outcome.wanted),
            joined=len(set(joined)),
            output=outcome.output,
        )
    ]


def make(plan: Plan, place: Path, *, limit_s: float = LIMIT_S) -> Outcome:
    """Make the launch of *plan* in the directory *place*; what came of it.

    When so many were killed, and no rank is missing any more, the training is told to end.
    """
    if plan.hosts == 1:
        return _made(plan, place, limit_s, ["--respawn"])
    with emulated(plan.hosts, _LINK) as network:
        # One for each that may die, wherever it is.
        cold = 2 * plan.hosts * (plan.kills + 2)
        where = ["--hosts", network.hosts(plan.ranks // plan.hosts), "--respawn", str(cold)]
        return _made(plan, place, limit_s, where, before=network.head, more=network.environment)


def _made(
    plan: Plan,
    place: Path,
    limit_s: float,
    options: Sequence[str],
    *,
    before: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:
    """The outcome of *plan* under ``matex run`` with *options*.

    Args:
        before: words before the command.
        more: further variables of its environment.
    """
    report, stop, told = place / "report", place / "stop", place / "told.json"
    command = [
        *(*before, sys.executable, "-m", "matex", "run", "-n", str(plan.ranks), *options),
        *(*plan.options, "--report", str(report), str(SCRIPT), str(stop), str(told)),
        *("--layers", plan.layers, "--rest-ms", str(plan.rest_ms)),
    ]
    output = (place / "output").open("w+")
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=place,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    source = random.Random(plan.seed)
    killer = Killer(
        report / "events.jsonl",
        plan.ranks,
        source,
        every=plan.every,
        only_whole=plan.only_whole,
        keep=plan.keep,
    )
    requests = len(plan.sizes)
    after = [plan.kills * number // max(requests, 1) for number in range(requests)]
    resizer = Resizer(report, plan.ranks, plan.sizes, after=after, environment=environment(**more))
    try:
        while process.poll() is None and time.monotonic() - started < limit_s:
            enough = len(killer.killed) >= plan.kills
            killer.look(kills=not enough)
            if killer.step:  # ranks that train answer
                resizer.look(len(killer.killed))
            killer.wanted = resizer.wanted
            if enough and resizer.is_done and killer.is_whole:
                stop.touch()
            time.sleep(_LOOK_S)
        status = process.poll()
    finally:
        resizer.end()
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(1)
    killer.look(kills=False)
    output.seek(0)
    outcome = Outcome(
        status,
        resizer.wanted,
        resizer.refused,
        time.monotonic() - started,
        output.read(),
        killer.killed,
        killer.events,
    )
    summary = report / "summary.json"
    if summary.exists():
        outcome.summary = json.loads(summary.read_text())
    if told.exists():
        outcome.told = json.loads(told.read_text())
    return outcome


def wrong(plan: Plan, outcome: Outcome) -> str:
    """The fault of *outcome*, in words; "" where there is none."""
    if outcome.status is None:
        return f"no end within {outcome.seconds:.0f} s"
    summary = outcome.summary
    if outcome.status or summary.get("status") != "finished":
        return f"status {outcome.status}: {summary.get('status')}, {summary.get('reason')}"
    counted = {name: summary[f"samples_{name}"] for name in ("lost", "repeated")}
    if any(counted.values()):
        return f"samples {counted}"
    if outcome.refused:
        return f"refused: {outcome.refused}"
    if summary["world_size_end"] != outcome.wanted:
        return f"{summary['world_size_end']} ranks at the end"
    if len(set(summary["weights_hash"].values())) != 1:
        return f"weights {summary['weights_hash']}"
    wanted = losses_of_one_process(plan.layers)
    pairs = list(zip(outcome.told["losses"], wanted["losses"], strict=False))
    pairs.append((outcome.told["first"], wanted["first"]))
    pairs += zip(outcome.told["after"], wanted["after"], strict=True)
    worst = max(abs(a - b) / abs(b) for a, b in pairs)
    if worst > 1e-4:
        return f"losses differ by {worst:.2g} of those of one process, in {len(pairs)} epochs"
    return ""


@cache
def losses_of_one_process(layers: str) -> dict[str, Any]:
    """The losses of the script in plain Python."""
    with tempfile.TemporaryDirectory(prefix="mx-") as place:
        told = Path(place) / "told.json"
        subprocess.run(
            [
                *(sys.executable, str(SCRIPT), str(Path(place) / "never"), str(told)),
                *("--layers", layers, "--epochs", str(_EPOCHS), "--rest-ms", "0"),
            ],
            check=True,
            capture_output=True,
            cwd=place,
        )
        content: dict[str, Any] = json.loads(told.read_text())
        return content
