"""The collective calls of a script, ``fit`` and the like, which all ranks make in one order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

import ft
from matex.errors import InputError, MatexError

__all__ = ["Calls", "difference"]

_NAME_BYTES = 48


def difference(ranks: Sequence[int], names: Sequence[str]) -> str:
    """Which of *ranks* came to which call, or "" where all came to the same. Pure."""
    if len(set(names)) <= 1:
        return ""
    came = {name: [r for r, n in zip(ranks, names, strict=True) if n == name] for name in names}
    return ", ".join(
        f"{name} on rank{'s' * (len(at) > 1)} {' '.join(map(str, at))}" for name, at in came.items()
    )


class Calls:
    """Makes sure, before each call, that it is the same on all ranks.

    Two ranks in different calls would wait for each other without end, or take each other's
    numbers for their own. It happens where a script goes by something that differs by rank, and
    where it catches an exception that only one rank had.
    """

    def __init__(self, communicator: ft.Communicator) -> None:
        self._communicator = communicator
        self._left: tuple[str, Exception] | None = None

    def begin(self, name: str) -> None:
        """Wait until all ranks have come to the call *name*; collective.

        A rank that left an earlier call by an exception, which others did not, ends itself here.

        Args:
            name: of at most 48 bytes.

        Raises:
            InputError: the ranks have come to different calls; on every rank.
        """
        if self._communicator.initial_size == 1:
            return
        if self._left is not None:
            (call, error), self._left = self._left, None
            line = next(iter(str(error).splitlines()), "")
            self._communicator.regroup(
                f"{type(error).__name__}: {line}: the script caught it on this rank, which had "
                f"left {call} by it",
                error,
            )
        row = np.frombuffer(name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES), np.uint8)
        gathered = self._communicator.allgather(row)
        names = [bytes(row).decode(errors="replace").rstrip() for row in gathered.rows]
        if different := difference(gathered.ranks, names):
            raise InputError(
                "all ranks must make the same calls in the same order. Received: "
                f"{different}; does the script go by its rank, its host, the time or an unseeded "
                "random number?"
            )

    @contextlib.contextmanager
    def made(self, name: str) -> Iterator[None]:
        """Around the call *name*: begin it, and note where an exception ends it. Collective."""
        self.begin(name)
        try:
            yield
        except (MatexError, ft.FtError):
            raise
        except Exception as error:
            self._left = name, error
            raise
