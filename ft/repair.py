"""Repair of a broken communicator, until all survivors agree on a new one.

The order of calls was found by trial: without the first agreement a fast
survivor revokes the new communicator while a slow one is still inside shrink (segmentation
fault); without the second, survivors end up in different communicators (hang). On each
new communicator every survivor makes the same three calls, *agree, settle,
agree*, whatever fails in between, so their agreements always pair up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from ft import mpi
from ft.errors import Unrecoverable

__all__ = ["repair"]

Result = TypeVar("Result")

# The daemon tells all ranks of a host at once; the wait is longer only if no rank died.
_NOTICE_S = 0.25

# Repairs in sequence that fail although no rank has died: something else must be wrong.
_MOST_FAILURES = 100


def repair(
    broken: Any,
    settle: Callable[[Any], Result],
    *,
    point: Callable[[], None] = lambda: None,
    shut_silent: Callable[[], None] = lambda: None,
    await_notice: bool = True,
) -> Result:
    """Revoke, shrink and agree until all survivors have settled; return what *settle* returned.

    Collective over the survivors. *settle(new)* may communicate over *new*; the repair is done when
    it has returned on all of them. If a further rank dies meanwhile, everything is repeated among
    the remaining ranks, so *settle* must be repeatable.

    *point* is called when all survivors have left the shrink; fault injection kills there.

    *shut_silent* is called before each shrink, and may shut connections to silent hosts.

    *await_notice* is False if no rank died: the communicator is repaired for another purpose.

    Args:
        broken: an ``mpi4py.MPI.Comm`` on which an operation failed.

    Raises:
        Unrecoverable: on all survivors, if *settle* always fails though no further rank dies.
    """
    MPI = mpi.load()
    failures, cause, size = 0, "a peer failed", 0
    while failures < _MOST_FAILURES:
        if not broken.Is_revoked():
            broken.Revoke()
        shut_silent()
        if await_notice:
            _hear_of_the_dead(MPI, broken)
        new = broken.Shrink()
        failures, size = failures + 1 if new.Get_size() == size else 1, new.Get_size()
        results: list[Result] = []
        may_settle = _agree(MPI, new, True)
        # Not before: a death while somebody is still inside Shrink crashes that rank
        # (Open MPI 5.0.10 and 5.0.11), and no caller can prevent it; see mpi.weakness.
        point()
        try:
            if may_settle:
                results.append(settle(new))
        except MPI.Exception as error:
            cause = str(error)
            if not new.Is_revoked():
                new.Revoke()
        if _agree(MPI, new, bool(results)):
            return results[0]
        broken = new
    raise Unrecoverable(
        f"a communicator of {size} ranks on which all can agree was wanted. Received: none in "
        f"{failures} repairs without a death; {cause}. Start again from the newest checkpoint"
    )


def _hear_of_the_dead(MPI: Any, broken: Any) -> None:
    """Let the MPI library process the news of a death before it makes a communicator.

    A peer's revoke may arrive before the news of the death. If that news then arrives inside
    Shrink, Open MPI 5.0.10 and 5.0.11 visit the half-made communicator and crash
    (ompi_comm_revoke_local under ompi_comm_activate).
    """
    limit = time.monotonic() + _NOTICE_S
    while broken.Get_failed().Get_size() == 0 and time.monotonic() < limit:
        MPI.COMM_SELF.Iprobe()  # any call that makes the library process its events


def _agree(MPI: Any, comm: Any, flag: bool) -> bool:
    try:
        return bool(comm.Agree(int(flag)))
    except MPI.Exception:
        return False
