"""State of a run, built from its events as they arrive. Pure.

`RunView.add` takes them one by one; nothing else changes a view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from matex.records.event_order import AGAIN
from matex.records.event_shape import is_number, is_well_formed
from matex.records.events import Event
from matex.records.lost_ranks import unasked
from matex.top.rank_view import RankState, RankView, become, lose, part_with
from matex.top.running_fit import RunningFit, running_fit
from matex.top.words import News, in_words, printable

__all__ = ["RunView", "view_of"]

_NEWS = 100
# Samples per second are averaged over this many seconds.
_WINDOW_S = 10.0
# Each of these events comes from several ranks, and says the same.
_ONCE = ("recovered", "joined", "resumed", "apoptosis")
_NOT_METRICS = frozenset({"time_s", "rank", "event", "epoch", "step"})
_ENDS = {
    "finished": RankState.FINISHED,
    "stopped": RankState.STOPPED,
    "failed": RankState.FAILED,
}


@dataclass
class RunView:
    """State of a run according to its events so far.

    ``ranks`` are those of the running start. ``status`` is one word. ``step`` and ``samples`` count
    finished work. ``loss`` and ``metrics`` are values in order of time, with the loss within
    epochs, too. ``checkpoint`` is the event of the newest checkpoint, ``ends_s`` the time at which
    ``--wall-time`` is over, ``began_s`` that of the first event of the running start and
    ``newest_s`` of the last, ``earlier_s`` the seconds of the starts before it.
    """

    ranks: dict[int, RankView] = field(default_factory=dict)
    status: str = "starting"
    began_s: float | None = None
    newest_s: float | None = None
    earlier_s: float = 0.0
    ends_s: float | None = None
    world_size: int = 0
    wanted_size: int = 0
    starts: int = 1
    step: int = 0
    step_s: float | None = None
    exchange_s: float | None = None
    samples: int = 0
    fit: RunningFit | None = None
    loss: list[float] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    checkpoint: Event | None = None
    news: deque[News] = field(default_factory=lambda: deque(maxlen=_NEWS))
    _places: int = 0
    """Number of ranks that the running start began with, spares included."""
    _notes: deque[tuple[float, int]] = field(default_factory=deque)
    _first_note: tuple[float, int] | None = None
    _epochs: set[tuple[int, int]] = field(default_factory=set)
    _told: set[tuple[Any, ...]] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        """Whether the events contain the end of the run."""
        return self.status in _ENDS

    @property
    def samples_per_s(self) -> float | None:
        """Samples a second: of the latest seconds, or of the last start once the run is over."""
        if not self._notes or self._first_note is None:
            return None
        (began_s, before), (now_s, after) = self._notes[0], self._notes[-1]
        if self.is_over:
            began_s, before = self._first_note
        return (after - before) / (now_s - began_s) if now_s > began_s else None

    def seconds_until(self, time_s: float | None) -> float:
        """Seconds of all starts until *time_s*, without those between two of them."""
        if time_s is None or self.began_s is None:
            return self.earlier_s
        return self.earlier_s + time_s - self.began_s

    def add(self, event: Event) -> None:
        """Take *event* into the view, unless it is damaged."""
        if not is_well_formed(event):
            return
        name, time_s, rank = event["event"], event["time_s"], event["rank"]
        is_unannounced = name == "start" and self._begins_anew(rank)
        if name in AGAIN or is_unannounced:
            self.earlier_s, self.began_s = self.seconds_until(self.newest_s), None
        if is_unannounced:
            begun = [view for view in self.ranks.values() if view.state is RankState.STARTED]
            self._start_again()
            self.ranks.update((view.rank, view) for view in begun)
        if name not in AGAIN:
            self.began_s = time_s if self.began_s is None else self.began_s
        self.newest_s = max(time_s, self.newest_s or time_s)
        if name in _HANDLERS:
            _HANDLERS[name](self, event)
        elif name in _ENDS:
            self._end(name)
        elif name in AGAIN:
            self._start_again()
        if name in _ONCE:
            key = (self.starts, name, event.get("generation", event.get("step")))
            if key in self._told:
                return
            self._told.add(key)
        elif name == "death" and rank in self.ranks:
            lose(self.ranks, [rank], printable(event["reason"]))
        text = in_words(event)
        if text is not None:
            if name == "checkpoint" and self.news and self.news[-1].event == name:
                self.news.pop()  # the newest of several is news
            self.news.append(News(time_s, name, text))

    def end_as(self, status: str) -> None:
        """Note that the run ended with *status*, from its summary if events do not tell."""
        if not self.is_over and status in _ENDS:
            self._end(status)

    # The ranks.

    def _begins_anew(self, rank: int) -> bool:
        """Whether the start of *rank* is that of all, by no launcher of ours that announced it."""
        if self.status != "training":
            return self.is_over
        others_live = any(
            v.state in (RankState.TRAINING, RankState.SPARE) for v in self.ranks.values()
        )
        return not others_live or (rank in self.ranks and rank < self._places)

    def _start(self, event: Event) -> None:
        rank = event["rank"]
        self.ranks[rank] = RankView(
            rank=rank,
            host=printable(event["host"]),
            pid=event["pid"],
            started_s=event["time_s"],
        )
        if self.status == "training" or 0 < self._places <= rank:  # it comes to the others
            return
        self.world_size = self.wanted_size = event["world_size"]
        self._places = event["world_size"] + event.get("spares", 0)
        self.ends_s = event.get("ends_s")
        self.status = "starting"

    def _start_again(self) -> None:
        self.starts += 1
        self.ranks.clear()
        self._notes.clear()
        self._first_note = self.fit = None
        self._places = 0
        self.status = "restarting"

    def _first_step(self, event: Event) -> None:
        become(self.ranks, event["rank"], RankState.TRAINING)
        self.status = "training"

    def _waits(self, event: Event) -> None:
        become(self.ranks, event["rank"], RankState.SPARE)

    def _admitted(self, event: Event) -> None:
        view = self.ranks.get(event["newcomer"])
        if view is not None and view.state is RankState.STARTED:
            view.state = RankState.SPARE

    def _took_over(self, event: Event) -> None:
        for rank in event["ranks"]:
            become(self.ranks, rank, RankState.TRAINING)

    def _did_not_come(self, event: Event) -> None:
        view = self.ranks.get(event["newcomer"])
        if view is not None and view.state.lives:
            view.state, view.why = RankState.FAILED, printable(event["reason"])

    def _strike(self, event: Event) -> None:
        """Note the fault by which a rank will be lost; survivors report the loss."""
        if event["lethal"] and event["rank"] in self.ranks:
            self.ranks[event["rank"]].why = printable(event["fault"])

    def _recovered(self, event: Event) -> None:
        self._lost_in(event)
        self._joined(event)

    def _joined(self, event: Event) -> None:
        for spare in event.get("joined", {}).values():
            become(self.ranks, spare, RankState.TRAINING)
        self.world_size = event["world_size_after"]

    def _lost_in(self, event: Event) -> None:
        part_with(self.ranks, event.get("left", ()), event["step"])
        lose(self.ranks, lost := unasked(event))
        for rank in set(lost) & set(self.ranks):
            self.ranks[rank].step = event["step"]

    def _left(self, event: Event) -> None:
        part_with(self.ranks, [event["rank"]], event["step"])

    def _resized(self, event: Event) -> None:
        if not event["refused"]:
            self.wanted_size = event["world_size"]

    def _end(self, status: str) -> None:
        self.status = status
        for view in self.ranks.values():
            if view.state.lives:
                view.state = _ENDS[status]

    # The training.

    def _began_fit(self, event: Event) -> None:
        self.fit = running_fit(event) or self.fit

    def _progress(self, event: Event) -> None:
        self.step = event["step"] + 1
        self.samples = event["samples"]
        self.world_size = event["world_size"]
        self.step_s, self.exchange_s = event["step_s"], event["exchange_s"]
        note = event["time_s"], event["samples"]
        self._first_note = self._first_note or note
        self._notes.append(note)
        while len(self._notes) > 2 and self._notes[1][0] <= note[0] - _WINDOW_S:
            self._notes.popleft()
        if event["loss"] is not None:
            self.loss.append(event["loss"])

    def _timing(self, event: Event) -> None:
        view = self.ranks.get(event["rank"])
        if view is not None:
            view.step = event["step"] + 1
            view.step_s, view.exchange_s = event["step_s"], event["exchange_s"]
            view.memory = event["memory"]

    def _epoch(self, event: Event) -> None:
        if event["rank"] in self.ranks:
            self.ranks[event["rank"]].step = event["step"]
        key = event["step"], event["epoch"]
        if key in self._epochs:
            return
        self._epochs.add(key)
        self.step = max(self.step, event["step"])
        if self.fit is not None:
            self.fit = self.fit._replace(epoch=event["epoch"] + 1, began=event["step"])
        for name, value in event.items():
            if name not in _NOT_METRICS and is_number(value):
                self.metrics.setdefault(printable(name), []).append(value)
        if is_number(event.get("loss")):
            self.loss.append(event["loss"])

    def _checkpoint(self, event: Event) -> None:
        self.checkpoint = event

    def _resumed(self, event: Event) -> None:
        self.step = event["step"]


_HANDLERS: dict[str, Callable[[RunView, Event], None]] = {
    "start": RunView._start,
    "first-step": RunView._first_step,
    "waits": RunView._waits,
    "fault": RunView._strike,
    "recovered": RunView._recovered,
    "joined": RunView._joined,
    "admitted": RunView._admitted,
    "took-over": RunView._took_over,
    "respawn-failed": RunView._did_not_come,
    "spare-lost": RunView._lost_in,
    "left": RunView._left,
    "resize": RunView._resized,
    "fit": RunView._began_fit,
    "progress": RunView._progress,
    "timing": RunView._timing,
    "epoch": RunView._epoch,
    "checkpoint": RunView._checkpoint,
    "resumed": RunView._resumed,
}


def view_of(events: Iterable[Event]) -> RunView:
    """View of the run with these *events*."""
    view = RunView()
    for event in events:
        view.add(event)
    return view
