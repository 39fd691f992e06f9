"""Launches of the updates layer, compared with the same kinds in plain Keras."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ci.chaos.ft.launch import Verdict
from ci.chaos.training.judge import judge
from ci.chaos.training.launch import train
from ci.chaos.updates.plan import KINDS, draw_updates
from ci.jobs import ROOT, environment

__all__ = ["Updates"]

SCRIPT = ROOT / "tests" / "train" / "scripts" / "train_kinds.py"
_RELATIVE, _ABSOLUTE = 1e-4, 1e-6


class Updates:
    """Makes launches, and remembers the numbers of each kind in plain Keras."""

    def __init__(self) -> None:
        self._plain: dict[str, list[float]] = {}

    def runs_of(self, seed: int) -> list[Verdict]:
        """Make the launch of *seed*; one verdict a kind."""
        plan = draw_updates(seed)
        with tempfile.TemporaryDirectory(prefix="mx-") as name:
            place = Path(name)
            if not self._plain:
                self._learn(place / "plain")
            written = place / "written"
            written.mkdir()
            started = time.monotonic()
            outcome = train(
                plan.start, [str(written), *plan.kinds], (), place, "run", script=SCRIPT
            )
            seconds = (time.monotonic() - started) / len(plan.kinds)
            problem = judge(plan.start, outcome)
            wrong = [problem or self._compare(written, kind) for kind in plan.kinds]
        records = outcome.summary["faults"] if outcome.summary else []
        fired = [event["fault"] for event in outcome.fired]
        return [
            Verdict(
                seed=seed,
                title=f"{kind}, {plan.start.ranks} ranks, {' '.join(fired) or '-'}",
                wrong=wrong[number],
                seconds=seconds,
                repairs_s=[r["repair_s"] for r in records if r["repair_s"]] * (not number),
                kinds=[event["kind"] for event in outcome.fired] * (not number),
                ranks=(plan.start.ranks, plan.start.ranks - len(outcome.dead)),
                output=outcome.output,
            )
            for number, kind in enumerate(plan.kinds)
        ]

    def _learn(self, place: Path) -> None:
        place.mkdir()
        command = [sys.executable, str(SCRIPT), str(place), *KINDS]
        subprocess.run(
            command, cwd=place, env=environment(), check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=600,
        )  # fmt: skip
        self._plain = {kind: list(_numbers(_read(place, kind)["numbers"])) for kind in KINDS}

    def _compare(self, written: Path, kind: str) -> str:
        """A sentence about what is wrong with the numbers of *kind*, "" for nothing."""
        outcomes = [json.loads(path.read_text()) for path in written.glob(f"{kind}-[0-9].json")]
        if not outcomes:
            return "no rank wrote its numbers"
        if len({outcome["weights"] for outcome in outcomes}) != 1:
            return "weights that differ by rank"
        found, wanted = list(_numbers(outcomes[0]["numbers"])), self._plain[kind]
        if len(found) != len(wanted):
            return f"{len(found)} numbers, {len(wanted)} wanted"
        for mine, theirs in zip(found, wanted, strict=True):
            if not math.isclose(mine, theirs, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
                return f"{mine} where plain Keras has {theirs}"
        return ""


def _read(place: Path, kind: str) -> Any:
    return json.loads((place / f"{kind}-0.json").read_text())


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    else:
        yield value
