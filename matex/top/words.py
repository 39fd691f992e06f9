"""Descriptions of a run's events, one line each. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from matex.records.events import Event
from matex.records.fault_events import joining_text, loss_text, ranks_text

__all__ = ["News", "in_words", "printable"]


class News(NamedTuple):
    """Text about an event, and its time."""

    time_s: float
    event: str
    text: str


def printable(text: object) -> str:
    """*text* in one line, without terminal control characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def in_words(event: Event) -> str | None:
    """Line for *event*; None if it is not news."""
    words = _WORDS.get(event["event"])
    return None if words is None else printable(words(event))


def _recovered(event: Event) -> str:
    parts = []
    if event["lost"]:
        parts.append(loss_text(event["lost"], event.get("left", ()), step=f"{event['step']:,}"))
    if event.get("joined"):
        parts.append(joining_text(event["joined"]))
    repair_ms = 1e3 * (event["repaired_time_s"] - event["detect_time_s"])
    before, after = event["world_size_before"], event["world_size_after"]
    return f"{', '.join(parts)}; {after} of {before} ranks go on, repaired in {repair_ms:.0f} ms"


def _joined(event: Event) -> str:
    size = event["world_size_after"]
    return f"{joining_text(event['joined'])}, from the reserve; {size} ranks go on"


def _apoptosis(event: Event) -> str:
    groups = sum(change["kept"] for change in event["changes"])
    before, after = event["parameters_before"], event["parameters"]
    removed = f"{groups} group{'s' * (groups != 1)} made smaller"
    return f"apoptosis after epoch {event['epoch']}: {removed}, parameters {before:,} -> {after:,}"


def _resize(event: Event) -> str:
    if event["refused"]:
        return f"{event['request']} is refused: {event['refused']}"
    leaving = event["leaving"]
    return event["request"] + (
        f": {ranks_text(leaving)} leave{'s' * (len(leaving) == 1)}" if leaving else ""
    )


def _nonfinite(event: Event) -> str:
    return f"{ranks_text(event['ranks'])} computed a NaN or infinity in step {event['step']:,}"


def _healed(event: Event) -> str:
    source = ranks_text(event["source"])
    return f"rank {event['rank']} differed, and has the weights of {source}"


def _straggler(event: Event) -> str:
    done = "; it ends itself" if event["evicted"] else ""
    return f"rank {event['rank']} computes {event['ratio']:.1f} times as long as the others{done}"


def _admitted(event: Event) -> str:
    who = f"rank {event['newcomer']} on {event['host']}"
    return f"{who} is let in as a spare, {event['seconds']:.1f} s after its start"


def _took_over(event: Event) -> str:
    have = "has" if len(event["ranks"]) == 1 else "have"
    paused = f"which paused for {event['pause_s']:.2f} s"
    return f"{ranks_text(event['ranks'])} {have} the state of the others, {paused}"


def _ended(event: Event) -> str:
    return f"the run {event['event']}" + (f": {event['reason']}" if event["reason"] else "")


_WORDS: dict[str, Callable[[Event], str]] = {
    "continued": lambda e: "a new job continues the run",
    "restart": lambda e: f"restart {e['number']} with {e['ranks']} ranks: {e['reason']}",
    "grow": lambda e: f"all ranks are started again, {e['ranks']} in place of {e['world_size']}",
    "short": lambda e: f"{e['world_size']} of {e['wanted']} ranks are left; they save and leave",
    "told": lambda e: f"{e['signal']} asks the run to stop",
    "resumed": lambda e: f"continues from the checkpoint of step {e['step']:,}",
    "fault": lambda e: f"the injected fault {e['fault']} strikes rank {e['rank']}",
    "fault-not-fired": lambda e: f"the injected fault {e['fault']} never fired",
    "death": lambda e: f"rank {e['rank']} ends: {e['reason']}",
    "recovered": _recovered,
    "joined": _joined,
    "respawn": lambda e: f"rank {e['newcomer']} is started on {e['host']}, for a missing one",
    "admitted": _admitted,
    "took-over": _took_over,
    "respawn-failed": lambda e: f"rank {e['newcomer']} did not come: {e['reason']}",
    "spare-lost": lambda e: f"lost {ranks_text(e['lost'])}, a spare that waited",
    "nonfinite": _nonfinite,
    "healed": _healed,
    "weights-settled": lambda e: f"{ranks_text(e['ranks'])} differed, now as rank {e['leader']}",
    "straggler": _straggler,
    "resize": _resize,
    "balance": lambda e: "the batch is shared out anew, by the speed of the ranks",
    "checkpoint": lambda e: f"checkpoint of step {e['step']:,} ({e['tier']}, {e['seconds']:.2f} s)",
    "checkpoint-failed": lambda e: f"no checkpoint of step {e['step']:,}: {e['reason']}",
    "apoptosis": _apoptosis,
    "finished": _ended,
    "stopped": _ended,
    "failed": _ended,
}
