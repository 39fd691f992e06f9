"""The marks that follow from events: lives, recoveries, checkpoints, deaths. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from matex.records.events import Event
from matex.records.starts import starts_of
from matex.report.slices import LAUNCHER, Count, Instant, Slice, Track

__all__ = ["counts", "instants", "lives", "works"]

# Event → track, and the displayed fields.
_INSTANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fault": ("life", ("fault", "step", "at")),
    "death": ("life", ("reason", "step", "cause", "where")),
    "left": ("life", ("request", "step")),
    "epoch": ("training", ("epoch", "step", "loss")),
    "straggler": ("training", ("step", "ratio")),
    "balance": ("training", ("step", "shares")),
    "nonfinite": ("training", ("step", "ranks", "policy")),
    "healed": ("training", ("step", "variables")),
    "checkpoint-failed": ("checkpoints", ("step", "tier", "reason")),
    "resumed": ("life", ("step",)),
}
_OF_ALL = {
    **dict.fromkeys(("finished", "stopped", "failed"), ("reason",)),
    "restart": ("number", "step", "reason", "ranks"),
    "grow": ("step", "ranks"),
    "told": ("signal",),
    "continued": (),
}


def instants(events: Sequence[Event]) -> Iterator[Instant]:
    """Moments in events; those of deaths are on the track of dead ranks."""
    for event in events:
        name, rank = event["event"], event["rank"]
        if name in _INSTANTS:
            track, fields = _INSTANTS[name]
            yield _instant(event, Track(rank, track), _title(event), fields)
        elif name in _OF_ALL:
            whole = Track(LAUNCHER, "life")
            yield _instant(event, whole, name, _OF_ALL[name], concerns_all=True)
    for start in starts_of(events):
        for rank, (time_s, event) in _losses(start.events).items():
            if rank in event.get("left", ()):  # its own event is the mark
                continue
            details = {"step": event["step"]}
            yield Instant(track=Track(rank, "life"), name="lost", time_s=time_s, details=details)
        for spare, event in _joinings(start.events).items():
            (rank,) = (r for r, joining in event["joined"].items() if joining == spare)
            name = "joins" if int(rank) == spare else f"takes the place of rank {rank}"
            yield Instant(
                track=Track(spare, "life"), name=name, time_s=event["time_s"],
                details={"step": event["step"]},
            )  # fmt: skip


def _title(event: Event) -> str:
    if event["event"] == "fault":
        return f"fault {event['kind']}"
    return str(event["event"])


def _instant(
    event: Event, track: Track, name: str, fields: Sequence[str], *, concerns_all: bool = False
) -> Instant:
    return Instant(
        track=track,
        name=name,
        time_s=event["time_s"],
        details={field: event[field] for field in fields if event.get(field) is not None},
        concerns_all=concerns_all,
    )


def lives(events: Sequence[Event]) -> Iterator[Slice]:
    """The times in which each rank works or waits in reserve, from each start of the ranks on."""
    for start in starts_of(events):
        last, ends = start.ended, _ends(start.events)
        for rank, states in _states(start.events).items():
            until = min(last, ends.get(rank, last))
            following = [time_s for time_s, _ in states[1:]] + [until]
            for (begin, state), end in zip(states, following, strict=True):
                if begin < (end := min(end, until)):
                    track = Track(rank, "life")
                    yield Slice(track=track, name=state, begin_s=begin, end_s=end)


def _states(events: Sequence[Event]) -> dict[int, list[tuple[float, str]]]:
    """Activities of each rank with their start times."""
    found: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)
    for event in events:
        if event["event"] == "start":
            found[event["rank"]].append((event["time_s"], "working"))
        elif event["event"] == "waits":
            found[event["rank"]].append((event["time_s"], "in reserve"))
    for spare, event in _joinings(events).items():
        found[spare].append((event["time_s"], "working"))
    return {rank: sorted(states) for rank, states in found.items()}


def _ends(events: Sequence[Event]) -> dict[int, float]:
    """Time of each lost rank's end: as it reported, else as the first observer noticed."""
    ends = {rank: time_s for rank, (time_s, _) in _losses(events).items()}
    for event in events:
        if event["event"] in ("death", "left") or (event["event"] == "fault" and event["lethal"]):
            rank, time_s = event["rank"], event["time_s"]
            ends[rank] = min(time_s, ends.get(rank, time_s))
    return ends


def _losses(events: Sequence[Event]) -> dict[int, tuple[float, Event]]:
    """Lost rank → when the first survivor noticed, and that survivor's event."""
    found: dict[int, tuple[float, Event]] = {}
    for event in events:
        if event["event"] in ("recovered", "spare-lost"):
            time_s: float = event["detect_time_s"] if "detect_time_s" in event else event["time_s"]
            for rank in event["lost"]:
                if rank not in found or time_s < found[rank][0]:
                    found[rank] = time_s, event
    return found


def _joinings(events: Sequence[Event]) -> dict[int, Event]:
    """First event about each spare's joining."""
    found: dict[int, Event] = {}
    for event in events:
        if event["event"] in ("recovered", "joined"):
            for spare in event.get("joined", {}).values():
                found.setdefault(spare, event)
    return found


def works(events: Sequence[Event]) -> Iterator[Slice]:
    """The repairs, replays, checkpoints and events of apoptosis."""
    yield from _recoveries(events)
    for event in events:
        begin, end = event["time_s"] - event.get("seconds", 0.0), event["time_s"]
        if event["event"] == "checkpoint":
            yield Slice(
                track=Track(event["rank"], "checkpoints"),
                name=f"checkpoint ({event['tier']})",
                begin_s=begin,
                end_s=end,
                details={"step": event["step"], "parts": event.get("parts")},
            )
        elif event["event"] == "apoptosis":
            fields = ("step", "epoch", "parameters_before", "parameters", "changes")
            yield Slice(
                track=Track(event["rank"], "apoptosis"),
                name="apoptosis",
                begin_s=begin,
                end_s=end,
                details={field: event[field] for field in fields},
            )


def _recoveries(events: Sequence[Event]) -> Iterator[Slice]:
    """Repairs of the communicator and repeated work, in sequence on each rank."""
    found: defaultdict[int, list[Slice]] = defaultdict(list)
    repaired: dict[int, float] = {}
    for event in events:
        rank = event["rank"]
        if event["event"] == "recovered":
            repaired[rank] = event["repaired_time_s"]
            details = {"step": event["step"], "lost": event["lost"]}
            found[rank].append(
                Slice(
                    track=Track(rank, "recovery"), name="repair",
                    begin_s=event["detect_time_s"], end_s=event["repaired_time_s"], details=details,
                )
            )  # fmt: skip
        elif event["event"] == "replayed" and rank in repaired:
            begin = repaired.pop(rank)
            details = {"step": event["step"], "recomputed": event["recomputed"]}
            found[rank].append(
                Slice(
                    track=Track(rank, "recovery"), name="replay",
                    begin_s=begin, end_s=begin + event["seconds"], details=details,
                )
            )  # fmt: skip
    for slices in found.values():
        slices.sort(key=lambda one: one.begin_s)
        for one, following in zip(slices, [*slices[1:], None], strict=True):
            end = one.end_s if following is None else min(one.end_s, following.begin_s)
            yield Slice(
                track=one.track, name=one.name, begin_s=one.begin_s,
                end_s=max(one.begin_s, end), details=one.details,
            )  # fmt: skip


def counts(events: Sequence[Event]) -> Iterator[Count]:
    """The number of ranks that work, and samples a second, of which leaders tell."""
    before: Event | None = None
    for event in events:
        time_s = event["time_s"]
        if event["event"] == "progress":
            yield Count("ranks", time_s, event["world_size"])
            if before is not None and event["samples"] >= before["samples"]:
                seconds = time_s - before["time_s"]
                rate = (event["samples"] - before["samples"]) / seconds if seconds > 0 else 0.0
                yield Count("samples/s", time_s, round(rate, 3))
            before = event
        elif event["event"] in ("recovered", "joined"):
            yield Count("ranks", time_s, event["world_size_after"])
