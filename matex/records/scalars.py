"""Curves for TensorBoard, from the events of a leader. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from matex.records.events import Event
from matex.records.fault_events import joining_text
from matex.records.lost_ranks import unasked

__all__ = ["NOT_METRICS", "TENSORBOARD", "ScalarReading", "Scalars"]

#: Directory of their files in the report directory.
TENSORBOARD = "tensorboard"

#: Fields of an epoch's event that are not Keras metrics.
NOT_METRICS = frozenset({"time_s", "rank", "event", "epoch", "step"})

_OF_PROGRESS = {
    "loss": "progress/loss",
    "step_s": "progress/step_s",
    "exchange_s": "progress/exchange_s",
    "world_size": "progress/ranks",
}
_OF_APOPTOSIS = ("parameters", "flops", "loss_before", "loss_after", "loss_allowed", "at_risk")


class Scalars(NamedTuple):
    """Values to draw over the steps of a run, noted at one time, and a text beside them.

    ``text`` is "" if there is none. ``step`` is the number of finished steps. Points known already
    from ``forgets_from`` on, if it is not None, belong to lost steps, which are made again.
    """

    time_s: float
    step: int
    values: dict[str, float]
    text: str = ""
    forgets_from: int | None = None


class ScalarReading:
    """Reads the events of one rank, in order of time.

    Every curve is over finished training steps, also for epochs, so that steps made again after a
    restart replace the lost ones. What happens within a step lies where the step ends: beyond the
    checkpoint that was made before it.
    """

    def __init__(self) -> None:
        self._before: Event | None = None
        # Step of a resumption inside an epoch, until the next point after a step.
        self._within: int | None = None

    def read(self, event: Event) -> Scalars | None:
        """Points of *event*; None if it has none."""
        name = event["event"]
        if name == "progress":
            values = {
                tag: float(event[field])
                for field, tag in _OF_PROGRESS.items()
                if event[field] is not None
            }
            values |= self._throughput(event)
            return _within(event, values)
        if name == "epoch":
            values = {f"epoch/{metric}": v for metric, v in _metrics(event).items()}
            return self._after(event, values)
        if name == "apoptosis":
            return self._after(event, _of_apoptosis(event), text=_shrunk(event))
        if name in ("recovered", "joined"):
            ranks = {"progress/ranks": float(event["world_size_after"])}
            return _within(event, ranks, text=_changed(event))
        if name == "resumed":
            step = event["step"]
            self._within = step if event.get("samples") else None
            text = f"continued from the checkpoint of step {step}"
            return Scalars(event["time_s"], step, {}, text, forgets_from=step + 1)
        if name == "fault":
            return _within(event, {}, text=f"fault {event['fault']}")
        if name == "spare-lost":
            return _within(event, {}, text=f"lost spare {_listed(event['lost'])}")
        if name == "nonfinite":
            return _within(event, {}, text=f"not finite on rank {_listed(event['ranks'])}")
        return None

    def _after(self, event: Event, values: dict[str, float], *, text: str = "") -> Scalars:
        """Points of an *event* after the steps that it counts.

        The end of an epoch is made again if the checkpoint was written between its last step and
        its end; then its lost points lie at the very step of the resumption.
        """
        resumed, self._within = self._within, None
        found = Scalars(event["time_s"], event["step"], values, text)
        again = resumed == event["step"]
        return found._replace(forgets_from=event["step"]) if again else found

    def _throughput(self, event: Event) -> dict[str, float]:
        before, self._before = self._before, event
        if before is None or event["time_s"] <= before["time_s"]:
            return {}
        seconds = event["time_s"] - before["time_s"]
        return {"progress/samples_per_s": (event["samples"] - before["samples"]) / seconds}


def _within(event: Event, values: dict[str, float], *, text: str = "") -> Scalars:
    """Points of an *event* within its step, which is numbered from 0."""
    return Scalars(event["time_s"], event["step"] + 1, values, text)


def _metrics(event: Event) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in event.items()
        if name not in NOT_METRICS and isinstance(value, int | float)
    }


def _of_apoptosis(event: Event) -> dict[str, float]:
    known: dict[str, Any] = {name: event[name] for name in _OF_APOPTOSIS}
    for change in event["changes"]:
        units = change["units_to"] if change["kept"] else change["units_from"]
        known[f"units/{change['layer']}"] = units
    return {f"apoptosis/{name}": float(n) for name, n in known.items() if n is not None}


def _shrunk(event: Event) -> str:
    kept = [change for change in event["changes"] if change["kept"]]
    layers = ", ".join(f"{c['layer']} {c['units_from']} → {c['units_to']}" for c in kept)
    return f"apoptosis after epoch {event['epoch']}: {layers or 'no unit died'}"


def _changed(event: Event) -> str:
    lost, left = unasked(event) if "lost" in event else [], event.get("left", [])
    parts = [f"lost rank {_listed(lost)}"] if lost else []
    if left:
        parts.append(f"rank {_listed(left)} left on request")
    if event["joined"]:
        parts.append(joining_text(event["joined"]))
    sizes = f"{event['world_size_before']} → {event['world_size_after']} ranks"
    return f"{', '.join(parts)}; {sizes}"


def _listed(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))
