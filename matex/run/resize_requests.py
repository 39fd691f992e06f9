"""Requests for fewer or more ranks, found and answered by the leader.

All ranks learn of a request after the same step; the event ``resize`` has the answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import ft
from matex.records.launcher_protocol.resize_request import MOST_BYTES, RESIZE, Request

__all__ = ["Decision", "ResizeRequests", "decide"]

# Interval at which the leader looks for a request.
_EVERY_S = 1.0


class Decision(NamedTuple):
    """The answer to a request; equal on all ranks.

    Args:
        leaving: ranks that end.
        size: number of ranks that are to train.
        refused: reason for which the request is refused; "" if it is not.
    """

    leaving: tuple[int, ...] = ()
    size: int = 0
    refused: str = ""


def decide(
    request: Request,
    members: Sequence[ft.Member],
    *,
    spares: Sequence[ft.Member],
    shares: bool,
    survives: bool,
    coming: int,
) -> Decision:
    """Answer to *request*. Pure.

    Args:
        members: ranks that train.
        spares: ranks that wait. Where a host is drained they take the places of its ranks.
        shares: whether the run shares its work among ranks, as a run with one rank does not.
        survives: whether the others go on when ranks end, as with ULFM.
        coming: largest number of processes that can join the running fit.
    """
    size = len(members)
    if not survives:
        return Decision(refused="without ULFM all ranks end when one leaves")
    if request.host:
        leaving = tuple(member.rank for member in members if member.host == request.host)
        if not leaving:
            hosts = ", ".join(dict.fromkeys(member.host for member in members))
            return Decision(refused=f"no rank is on {request.host}; ranks are on {hosts}")
        if len(leaving) == size:
            return Decision(refused=f"all ranks are on {request.host}: nobody would be left")
        there = [str(member.rank) for member in spares if member.host == request.host]
        if there:
            return Decision(
                refused=f"rank {there[0]}, in reserve, is on {request.host}, and waits until the "
                "fit is over"
            )
        taken = min(len(spares), len(leaving))
        return Decision(leaving, size - len(leaving) + taken)
    if request.size <= size:
        leaving = tuple(member.rank for member in members[request.size :])
        return Decision(leaving, request.size)
    if not shares:
        return Decision(refused="the run began with 1 rank, and shares nothing; begin with 2")
    joining = min(len(spares), request.size - size)
    missing = request.size - size - joining
    if 0 < coming < missing:
        left = "1 cold spare is left" if coming == 1 else f"{coming} cold spares are left"
        return Decision(refused=f"at most {size + joining + coming} ranks can be had: {left}")
    if missing and not coming:
        others = f"{joining} ranks are in reserve; others" if joining > 1 else "ranks"
        others = "1 rank is in reserve; others" if joining == 1 else others
        return Decision(
            refused=f"{others} can join a fit only with --respawn, as long as processes can come"
        )
    return Decision(size=request.size)


class ResizeRequests:
    """Finds requests in a report directory. Local; used on the leader.

    Args:
        directory: report directory; None if there is none.
        warn: function that prints a line from this rank.
    """

    def __init__(self, directory: Path | None, warn: Callable[[str], None]) -> None:
        self._path = None if directory is None else directory / RESIZE
        self._warn = warn
        self._looked_s = 0.0
        self._found: Request | None = None

    def is_one_there(self) -> bool:
        """Whether there is an unanswered request; looks once a second."""
        now = time.monotonic()
        if self._found is None and self._path is not None and now - self._looked_s >= _EVERY_S:
            self._looked_s = now
            self._found = self._read(self._path)
        return self._found is not None

    def current(self) -> Request | None:
        """The request, to be answered now; None if it has been withdrawn.

        A rank that leads since its predecessor has found one finds it as well.
        """
        if self._found is None and self._path is not None:
            self._found = self._read(self._path)
        return self._found

    def remove(self) -> None:
        """Remove the request, of which all ranks know."""
        if self._found is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
        self._found = None

    def _read(self, path: Path) -> Request | None:
        """Request in *path*; None if there is no valid one."""
        try:
            with path.open("rb") as file:
                owner = os.fstat(file.fileno()).st_uid
                content = file.read(MOST_BYTES)
        except OSError:
            return None  # also if the disk does not answer: training goes on
        try:
            if owner != os.geteuid():
                raise ValueError("it belongs to another user")
            return Request.from_bytes(content)
        except (ValueError, TypeError) as error:
            self._warn(f"{path} must be what matex resize writes. Received: {error}; it is removed")
            path.unlink(missing_ok=True)
            return None
