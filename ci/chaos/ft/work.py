"""The work of one rank of the ft layer: operations whose results are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ft

__all__ = ["Work"]

ITEMS = 48  # of work in a step, each to be counted once

Replaced = tuple[tuple[int, int], ...]


class Work:
    """The operations, each with what must come of it.

    Args:
        welcome: tells those who took the places of the dead where to begin; collective.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        injector: ft.Injector,
        *,
        welcome: Callable[[Replaced], None],
    ) -> None:
        self._comm = communicator
        self._faults = injector
        self._welcome = welcome

    def do(self, operation: tuple[str, int], number: int) -> tuple[bytes, str]:
        """Make *operation*, a collective and its elements, which is the *number*-th.

        Returns:
            Its result, equal on all ranks, and what is wrong with it.
        """
        kind, size = operation
        if kind != "allreduce":
            self._strike()
        result, wrong = getattr(self, f"_{kind}")(size, number)
        return result, f"operation {number}, {kind} of {size}: {wrong}" if wrong else ""

    def _strike(self) -> None:
        self._faults.at("before-exchange")
        self._faults.during("in-exchange")

    def _allreduce(self, size: int, number: int) -> tuple[bytes, str]:
        received = np.empty(ITEMS + size + 1, np.int64)
        while True:
            send = np.zeros_like(received)
            mine = _items(self._comm.pending, self._comm.world.rank)
            send[mine] = 1
            send[ITEMS:-1] = sum(_value(number, item) for item in mine)
            send[-1] = 1
            self._strike()
            try:
                self._comm.allreduce(
                    send,
                    received,
                    valid=lambda: bool(received[-1] == self._comm.world.size),
                    barrier_first=size % 2 == 0,
                )
            except ft.PeerFailure:
                joinable = number % 4 != 0
                recovery = self._comm.recover(joinable=joinable)
                if not recovery.finished:
                    if joinable:
                        self._welcome(recovery.replaced)
                    continue
            break
        total = sum(_value(number, item) for item in range(ITEMS))
        wrong = ""
        if (received[:ITEMS] != 1).any():
            wrong = f"items counted {received[:ITEMS].tolist()} times, not once each"
        elif (received[ITEMS:-1] != total).any():
            wrong = f"sums {np.unique(received[ITEMS:-1]).tolist()}, not {total}"
        return received[:-1].tobytes(), wrong

    def _broadcast(self, size: int, number: int) -> tuple[bytes, str]:
        buffer = np.full(size, _value(number, self._comm.world.rank))
        self._comm.broadcast(buffer)
        sent = [_value(number, rank) for rank in range(self._comm.initial_size)]
        wrong = "" if (buffer == buffer[0]).all() and buffer[0] in sent else "a torn buffer"
        return buffer.tobytes(), wrong

    def _allgather(self, size: int, number: int) -> tuple[bytes, str]:
        rank = self._comm.world.rank
        gathered = self._comm.allgather(np.full(min(size, 1000), _value(number, rank)))
        pairs = zip(gathered.ranks, gathered.rows, strict=True)
        right = [(row == _value(number, r)).all() for r, row in pairs]
        wrong = "" if all(right) and rank in gathered.ranks else f"rows of {gathered.ranks}"
        return gathered.rows.tobytes(), wrong

    def _barrier(self, size: int, number: int) -> tuple[bytes, str]:
        self._comm.barrier()
        return b"", ""

    def _agree(self, size: int, number: int) -> tuple[bytes, str]:
        agreed = self._comm.agree(number % 2 == 0)
        return bytes([agreed]), "" if agreed == (number % 2 == 0) else f"agreed on {agreed}"


def _value(number: int, item: int) -> int:
    return (number * 1009 + item * 7919) % 100_003


def _items(pending: ft.Pending, rank: int) -> list[int]:
    """The items that fall to *rank*: its own, and its part of those of the lost."""
    alive = [r for r in pending.expected if r not in pending.lost]
    owners = [pending.expected[item % len(pending.expected)] for item in range(ITEMS)]
    return [
        item
        for item, owner in enumerate(owners)
        if (alive[item % len(alive)] if owner in pending.lost else owner) == rank
    ]
