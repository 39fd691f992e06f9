"""Page of a report: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from matex.records.events import write_text
from matex.report.apoptosis_tables import events_table, groups_table, left_alone_table
from matex.report.html import Picture, document, figure, table
from matex.report.plots import pictures
from matex.report.reading import Run

__all__ = ["page", "write_report"]

PAGE = "report.html"

_CAPTIONS = {
    "loss.png": "Loss and number of ranks",
    "ranks.png": "Ranks",
    "throughput.png": "Throughput, and the time of a step",
    "apoptosis.png": "Parameters, and units of each group of layers",
}

# Heading, field of a fault record, and factor of its value for display.
_RECOVERIES: tuple[tuple[str, str, float], ...] = (
    ("fault", "kind", 1),
    ("rank", "rank", 1),
    ("step", "step", 1),
    ("at", "at", 1),
    ("detect ms", "detect_s", 1e3),
    ("repair ms", "repair_s", 1e3),
    ("replay ms", "replay_s", 1e3),
    ("to next step ms", "to_next_step_s", 1e3),
    ("at risk", "samples_at_risk", 1),
    ("recomputed", "samples_recomputed", 1),
    ("lost", "samples_lost", 1),
    ("repeated", "samples_repeated", 1),
    ("ranks before", "world_size_before", 1),
    ("after", "world_size_after", 1),
    ("state", "state_hash", 1),
)

_FACTS = (
    *("status", "reason", "world_size_start", "world_size_end", "restarts", "epochs", "steps"),
    *("samples_expected", "samples_used", "samples_lost", "samples_repeated", "wall_s"),
    *("step_s", "exchange_s", "parameters_start", "parameters_end"),
)


def write_report(run: Run) -> Path:
    """Write the page and its pictures into the run's directory; return the page's path.

    Raises:
        InputError: matplotlib is missing.
    """
    images = pictures(run)
    for name, picture in images.items():
        write_text(run.directory / name, picture.light)
    path = run.directory / PAGE
    write_text(path, page(run, images))
    return path


def page(run: Run, images: Mapping[str, Picture]) -> str:
    """HTML text with embedded *images*. Pure."""
    title = run.directory.resolve().name
    facts = [(key, _shown(run.summary[key])) for key in _FACTS if run.summary.get(key) is not None]
    metrics = [(key, _shown(value)) for key, value in run.summary.get("metrics", {}).items()]
    hashes = run.summary.get("weights_hash", {})
    if hashes:
        alike = "equal on all ranks" if len(set(hashes.values())) == 1 else "NOT EQUAL"
        facts.append(("weights", f"{next(iter(hashes.values()))}, {alike}"))
    untold = [str(e["fault"]) for e in run.events if e["event"] == "fault-not-fired"]
    faults = run.faults
    parts = [
        f"<h1>Run {escape(title)}</h1>",
        table((), facts) if facts else "<p>The run did not come to a summary.</p>",
        *(["<h2>Metrics of the last epoch</h2>", table((), metrics)] if metrics else []),
        *(figure(_CAPTIONS[name], picture) for name, picture in images.items()),
        *(["<h2>Apoptosis</h2>", _shrinkings(run)] if run.shrinkings() else []),
        "<h2>Faults and recoveries</h2>",
        _recoveries(faults) if faults else "<p>None.</p>",
        *([f"<p>Never fired: {escape(', '.join(untold))}</p>"] if untold else []),
    ]
    return document(title, parts)


def _shrinkings(run: Run) -> str:
    """Events of apoptosis, their groups of units, and the kept layers."""
    events = run.shrinkings()
    shown = [events_table(events), groups_table(events), left_alone_table(events)]
    return "\n".join(table(each.headings, each.rows) for each in shown if each.rows)


def _recoveries(faults: Iterable[dict[str, Any]]) -> str:
    rows = [
        [
            "" if fault[field] is None else _shown(_scaled(fault[field], scale))
            for _, field, scale in _RECOVERIES
        ]
        for fault in faults
    ]
    return table([heading for heading, _, _ in _RECOVERIES], rows)


def _scaled(value: Any, scale: float) -> Any:
    return value if scale == 1 else round(value * scale, 1)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
