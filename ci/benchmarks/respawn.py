"""Ranks that are killed and replaced, again and again: one JSON object.

    python -m ci.benchmarks.respawn [--ranks 4] [--kills 50] [--hosts 2] [--with "--spares 1"]

A small training on ``--ranks`` ranks; whenever none is missing and ``--every`` steps have
passed, a random one is killed by SIGKILL, ``--kills`` times; on ``--hosts`` emulated hosts all of
one at times, and cold spares take the places. ``respawn_s`` is from a death to the
moment at which another process has the place, ``pause_s`` how long the others paused for that,
``to_next_step_s`` how long for the death itself: medians and the longest. ``kb_a_kill`` is how
much memory a rank gained for each death that it outlived after ten, the median over ranks that
outlived ten more; ``--keep 0`` spares rank 0, so that there is one.
``wrong`` is what the judge of ``ci.chaos --layer respawn`` has to say, "" when nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ci.chaos.respawn.killer import Event
from ci.chaos.respawn.launch import Plan, make, wrong

_KILLS = 10  # that a rank must outlive to be warm, and ten more, so that its memory tells something
_S_A_KILL = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--every", type=int, default=30, help="steps between two kills at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=1, help="emulated hosts, each with a share")
    parser.add_argument("--keep", type=int, nargs="*", default=[], help="ranks never killed")
    parser.add_argument("--with", dest="options", default="", help="options of matex run")
    given = parser.parse_args()
    plan = Plan(
        seed=given.seed,
        ranks=given.ranks,
        layers="dropout",
        kills=given.kills,
        every=given.every,
        options=given.options.split(),
        only_whole=True,
        hosts=given.hosts,
        keep=given.keep,
    )
    with tempfile.TemporaryDirectory(prefix="mx-") as place:
        outcome = make(plan, Path(place), limit_s=_S_A_KILL * (given.kills + 2))
    faults = outcome.summary.get("faults", [])
    found: dict[str, Any] = {"kills": len(outcome.killed), "seconds": round(outcome.seconds)}
    for name in ("respawn_s", "pause_s", "to_next_step_s"):
        found[name] = median_and_most(fault[name] for fault in faults)
    found["kb_a_kill"] = _kb_a_kill(outcome.events)
    found["wrong"] = wrong(plan, outcome)
    print(json.dumps(found))
    return int(bool(found["wrong"]))


def median_and_most(values: Iterable[float | None]) -> list[float]:
    """The median and the largest of those that were measured."""
    known = [value for value in values if value is not None]
    return [round(statistics.median(known), 3), round(max(known), 3)] if known else []


def _kb_a_kill(events: list[Event]) -> float | None:
    """Kilobytes that a rank gained for each death that it outlived."""
    memory: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    dead = 0
    seen: set[int] = set()
    for event in events:
        if event["event"] == "recovered":
            dead += len(set(event["lost"]) - seen)
            seen.update(event["lost"])
        elif event["event"] == "timing" and event["memory"] is not None:
            memory[event["rank"]].append((dead, event["memory"]))
    gained = []
    for known in memory.values():
        after = [(deaths, size) for deaths, size in known if deaths >= known[0][0] + _KILLS]
        if after and after[-1][0] - after[0][0] >= _KILLS:
            gained.append((after[-1][1] - after[0][1]) / (after[-1][0] - after[0][0]) / 1e3)
    return round(statistics.median(gained), 1) if gained else None


if __name__ == "__main__":
    sys.exit(main())
