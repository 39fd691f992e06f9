"""Steps of a trace, from the parts of the ranks: the work of a rank in each step. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from matex.records.thinning import stride_for
from matex.records.trace_part import STEP
from matex.report.slices import Slice, Track

__all__ = ["Parts", "StepSample", "Steps", "chosen_steps", "step_slices"]

Interval = tuple[float, float]


class StepSample(NamedTuple):
    """A line of a part; times are Unix times in seconds.

    ``is_interrupted`` is whether a death interrupted the step.
    """

    name: str
    number: int
    every: int
    begin_s: float
    end_s: float
    read: tuple[Interval, ...] = ()
    exchanges: tuple[Interval, ...] = ()
    is_interrupted: bool = False

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> StepSample:
        """The sample of a *line* of :class:`matex.records.trace_part.TracePart`."""
        begin = line["begin_s"]
        return cls(
            line["name"],
            line["number"],
            line["every"],
            begin,
            begin + line["us"] / 1e6,
            _intervals(begin, line.get("read", ())),
            _intervals(begin, line.get("exchange", ())),
            "interrupted" in line,
        )


#: The samples of each rank, in order of time.
Parts = Mapping[int, Sequence[StepSample]]


class Steps(NamedTuple):
    """Steps that are shown: multiples of ``every``, and steps interrupted by a death."""

    every: int
    parts: Parts


def chosen_steps(parts: Parts, *, limit: int) -> Steps:
    """Samples with at most *limit* steps per rank, the same steps on all ranks.

    Interrupted steps, and calls that are no steps, are beside that number.
    """
    every = 1
    for samples in parts.values():
        steps = [sample for sample in samples if sample.name == STEP]
        least = max((sample.every for sample in steps), default=1)
        numbers = {sample.number for sample in steps if sample.number}
        every = max(every, stride_for(numbers, least=least, limit=limit))
    return Steps(
        every,
        {
            rank: [
                s for s in samples if s.name != STEP or s.is_interrupted or s.number % every == 0
            ]
            for rank, samples in parts.items()
        },
    )


def step_slices(parts: Parts) -> Iterator[Slice]:
    """Slices of all samples, each step with its parts."""
    exchanges: defaultdict[tuple[int, int], list[tuple[int, Interval]]] = defaultdict(list)
    for rank, samples in parts.items():
        for sample in samples:
            for place, interval in enumerate(sample.exchanges):
                exchanges[sample.number, place].append((rank, interval))
    for rank, samples in parts.items():
        track = Track(rank, "training")
        for sample in samples:
            details = {"step": sample.number} if sample.name == STEP else {}
            yield _slice(track, sample.name, (sample.begin_s, sample.end_s), **details)
            for interval in sample.read:
                yield _slice(track, "read", interval)
            for place, interval in enumerate(sample.exchanges):
                yield _slice(track, "exchange", interval)
                yield from _wait(track, interval, exchanges[sample.number, place])
            if sample.exchanges and not sample.is_interrupted:
                yield from _computing(track, sample)


def _wait(track: Track, own: Interval, others: Sequence[tuple[int, Interval]]) -> Iterator[Slice]:
    """Part of an exchange in which this rank waited for the last rank.

    Args:
        others: the exchange of each rank with the number of the step; where a restart made the
            step again there are two of a rank, which do not overlap.
    """
    begin, end = own
    late = [(theirs[0], rank) for rank, theirs in others if begin < theirs[0] < end]
    if late:
        until, rank = max(late)
        yield _slice(track, "wait", (begin, until), rank=rank)


def _computing(track: Track, sample: StepSample) -> Iterator[Slice]:
    """Parts of a step without other information, before and after the last exchange."""
    at = sample.begin_s
    last = sample.exchanges[-1]
    for begin, end in sorted([*sample.read, *sample.exchanges]):
        if begin > at:
            yield _slice(track, "compute", (at, begin))
        at = max(at, end)
    at = max(at, last[1])
    if sample.end_s > at:
        yield _slice(track, "update", (at, sample.end_s))


def _slice(track: Track, name: str, interval: Interval, **details: Any) -> Slice:
    begin, end = interval
    return Slice(track=track, name=name, begin_s=begin, end_s=max(begin, end), details=details)


def _intervals(begin: float, lines: Sequence[Sequence[int]]) -> tuple[Interval, ...]:
    return tuple((begin + at / 1e6, begin + (at + us) / 1e6) for at, us in lines)
