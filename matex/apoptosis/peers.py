"""The participants of an event: this process alone, or the ranks of a run.

An event needs four operations of its peers: a sum over samples, decisions about groups that one
rank each makes, one value for all, and equal weights at the end. On ranks all of them are
collectives that complete when members die, so that the survivors hold the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from matex import keras_hooks
from matex.apoptosis.group_statistics import Removal
from matex.checkpointing import model_state
from matex.errors import InputError
from matex.exchange import sums
from matex.partition.spans import Span, assigned

__all__ = ["Add", "Alone", "Peers", "Together", "peers_of_process"]

# Function that adds the results for rows of a sample to a vector.
Add = Callable[[list[Span], np.ndarray], None]


class Peers(Protocol):
    """Processes that hold an event together. Each method is collective unless local."""

    def total(self, size: int, length: int, add: Add) -> np.ndarray:
        """Sum of *add*'s results over all rows [0, size): float64, shape (length,)."""

    def decide(self, widths: Sequence[int], make: Callable[[int], Removal]) -> list[Removal]:
        """Results of *make* for each group; *widths* are equal on all peers."""

    def leaders_value(self, value: float) -> float:
        """The leader's *value*, the same everywhere."""

    def broadcast_weights(self, model: Any) -> None:
        """Make weights and slots equal on all peers after a cut."""

    def renew(self, model: Any) -> None:
        """Trace functions of the model's former shapes again; local."""

    def reached(self, phase: str) -> None:
        """Note that the event has reached *phase*, for fault injection; local."""

    def say(self, line: str) -> None:
        """Print a line for the user; local."""

    def record(self, **fields: Any) -> None:
        """Local: an event for the report."""


class Alone:
    """A process without ranks."""

    def total(self, size: int, length: int, add: Add) -> np.ndarray:
        total = np.zeros(length)
        add([(0, size)], total)
        return total

    def decide(self, widths: Sequence[int], make: Callable[[int], Removal]) -> list[Removal]:
        return [make(i) for i in range(len(widths))]

    def leaders_value(self, value: float) -> float:
        return value

    def broadcast_weights(self, model: Any) -> None:
        """Do nothing: there is one model."""

    def renew(self, model: Any) -> None:
        """Do nothing: Keras traces its functions at their next call."""

    def reached(self, phase: str) -> None:
        """No faults here."""

    def say(self, line: str) -> None:
        print(f"matex: {line}", flush=True)

    def record(self, **fields: Any) -> None:
        """Do nothing: a fit without ranks has no event log."""


class Together:
    """The living ranks of a run.

    Args:
        run: run of this process.
        changed: local function called when the model's shapes have changed.
    """

    def __init__(self, run: Any, changed: Callable[[], None]) -> None:
        self._run = run
        self._changed = changed

    def total(self, size: int, length: int, add: Add) -> np.ndarray:
        work = _RowsOfASample(self._run, size, length, add)
        return sums.over_rows(self._run.communicator, work)

    def decide(self, widths: Sequence[int], make: Callable[[int], Removal]) -> list[Removal]:
        communicator = self._run.communicator
        starts = np.concatenate([[0], np.cumsum([1 + 2 * width for width in widths])]).astype(int)
        found: dict[int, Removal] = {}
        while len(found) < len(widths):
            undone = [i for i in range(len(widths)) if i not in found]
            ranks = communicator.world.ranks
            row = np.zeros(int(starts[-1]))
            for i in undone[ranks.index(communicator.world.rank) :: len(ranks)]:
                row[starts[i] : starts[i + 1]] = _packed(make(i), widths[i])
                self._run.watchdog.progress()
            gathered = communicator.allgather(row)
            for i in undone:  # those of a rank that died on the way are made by others
                for answer in gathered.rows[:, starts[i] : starts[i + 1]]:
                    if answer[0] and i not in found:
                        found[i] = _unpacked(answer)
        return [found[i] for i in range(len(widths))]

    def leaders_value(self, value: float) -> float:
        one = np.array([value])
        self._run.communicator.broadcast(one)
        return float(one[0])

    def broadcast_weights(self, model: Any) -> None:
        model_state.broadcast(self._run.communicator, model)
        self._run.records.ledger.note_parameters(keras_hooks.parameters(model))

    def renew(self, model: Any) -> None:
        keras_hooks.renew_validation(model)
        self._changed()

    def reached(self, phase: str) -> None:
        self._run.steps.faults.at(phase)
        self._run.watchdog.progress()

    def say(self, line: str) -> None:
        self._run.terminal.say(line)

    def record(self, **fields: Any) -> None:
        self._run.records.note("apoptosis", **fields)


def _packed(removal: Removal, width: int) -> np.ndarray:
    """Vector of a 1 for done, and for each unit its place in the removal order, or -1, and cost."""
    row = np.full(1 + 2 * width, -1.0)
    row[0] = 1.0
    row[1 : 1 + width][removal.removed] = np.arange(len(removal.removed))
    row[1 + width :][removal.removed] = removal.costs
    return row


def _unpacked(row: np.ndarray) -> Removal:
    order, costs = np.split(row[1:], 2)
    kept = np.flatnonzero(order < 0)
    removed = np.argsort(order, kind="stable")[len(kept) :]
    return Removal(kept, removed, costs[removed])


class _RowsOfASample:
    """The sum over the rows of [0, size) that fall to this rank: work of sums.RowWork."""

    def __init__(self, run: Any, size: int, length: int, add: Add) -> None:
        self._run = run
        self._size = size
        self._add = add
        self._sum = np.zeros(length)
        self.have: list[list[Span]] = [[]]

    def assigned_rows(self) -> list[list[Span]]:
        pending, world = self._run.communicator.pending, self._run.communicator.world
        return [assigned((0, self._size), pending.expected, pending.lost, world.rank)]

    def compute_rows(self, missing: list[list[Span]]) -> None:
        self._add(missing[0], self._sum)
        self._run.watchdog.progress()

    def forget_rows(self) -> None:
        self._sum[:] = 0

    def packed_rows(self) -> np.ndarray:
        return self._sum.copy()


def peers_of_process() -> Peers:
    """The ranks of the run that this process is part of, or this process alone; local.

    Raises:
        InputError: the ranks have different models.
    """
    from matex import session

    runtime = session.current
    if runtime is None:
        return Alone()
    strategy = runtime.run.config.strategy
    if strategy != "sync":
        raise InputError(
            f"apoptosis wants replicas that are equal, so strategy sync. Received: {strategy!r}"
        )
    return Together(runtime.run, runtime.model_changed)
